"""n-gram models: probabilities by hand, by a slow implementation, and as lmplz writes them."""

import ctypes
import ctypes.util
import gzip
import io
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.kernels.ngrams import NUMBER_SIZE, format_ngrams, log10
from phrasescore.language_models import estimation
from phrasescore.language_models.estimation import RowSorter, estimate
from tests.reference_ngrams import Gram, ReferenceNgrams


def arpa(sentences: Sequence[Gram], order: int, **settings: object) -> bytes:
    output = io.BytesIO()
    estimate(sentences, output, order=order, **settings)  # type: ignore[arg-type]
    return output.getvalue()


def parse(model: bytes) -> dict[Gram, tuple[float, float]]:
    """Return the log-probability and the back-off weight of each n-gram; 0 for none."""
    values = {}
    for line in model.decode().splitlines():
        if "\t" in line:
            number, words, *weight = line.split("\t")
            values[tuple(words.split(" "))] = (float(number), float(weight[0]) if weight else 0.0)
    return values


def random_text(seed: int, lines: int) -> list[Gram]:
    """Return sentences of up to 12 words; low numbers are frequent words."""
    numbers = random.Random(seed)
    return [
        tuple(f"w{int(numbers.paretovariate(0.6))}" for _ in range(numbers.randrange(13)))
        for _ in range(lines)
    ]


def test_a_tiny_model_by_hand() -> None:
    # Adjusted counts: a 1, b 1, </s> 2; <s> a 2, the other pairs of words 1. The discounts are 0.5
    # and 1, so each context gives half of its probability to the lower order.
    expected = {
        # 4 words without <s>: the uniform probability is 1/4.
        "<unk>": (0.5 / 4, 1),
        "<s>": (1, 0.5),
        "</s>": ((2 - 1) / 4 + 0.125, 1),
        "a": ((1 - 0.5) / 4 + 0.125, 0.5),
        "b": ((1 - 0.5) / 4 + 0.125, 0.5),
        "<s> a": ((2 - 1) / 2 + 0.5 * 0.25, 1),
        "a b": ((1 - 0.5) / 2 + 0.5 * 0.25, 1),
        "a </s>": ((1 - 0.5) / 2 + 0.5 * 0.375, 1),
        "b </s>": ((1 - 0.5) / 1 + 0.5 * 0.375, 1),
    }
    model = arpa([("a", "b"), ("a",)], 2, discount_fallback=True)
    assert model.startswith(b"\\data\\\nngram 1=5\nngram 2=4\n\n\\1-grams:\n-0.90309\t<unk>\t0\n")
    assert model.endswith(b"\n\n\\end\\\n")
    found = {" ".join(gram): values for gram, values in parse(model).items()}
    # Sorted by the last word, then by the word before it, in the order of occurrence.
    assert list(found) == [*list(expected)[:5], "a </s>", "b </s>", "<s> a", "a b"]
    for gram, values in expected.items():
        assert found[gram] == pytest.approx(np.log10(values), abs=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("prune", [(), (0, 0, 1), (1, 2)], ids=str)
def test_a_model_of_random_text_is_the_slow_implementation_s(
    order: int, prune: tuple[int, ...]
) -> None:
    sentences = random_text(order, 400)
    sentences += 2 * sentences[:50]  # some long n-grams occur three times
    found = parse(arpa(sentences, order, prune=prune[:order], discount_fallback=True))
    expected = ReferenceNgrams(sentences, order, prune[:order]).values
    assert found.keys() == expected.keys()
    for gram, (log_prob, weight) in expected.items():
        weight = 0.0 if len(gram) == order else weight
        assert found[gram] == pytest.approx((log_prob, weight), abs=1e-5), gram


@pytest.mark.parametrize("prune", [(), (0, 1)], ids=str)
def test_blocks_of_any_size_and_threads_give_the_same_bytes(
    prune: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = random_text(1, 200)
    whole = arpa(sentences, 4, prune=prune, discount_fallback=True)
    for threads, block_bytes in ((1, 1), (2, 500), (3, 5_000)):
        monkeypatch.setattr(estimation, "usable_threads", lambda _wanted, count=threads: count)
        monkeypatch.setattr(estimation, "BLOCK_BYTES", block_bytes)
        assert arpa(sentences, 4, prune=prune, discount_fallback=True) == whole


@pytest.mark.parametrize("block_bytes", [16, 100, 1 << 20])
def test_rows_are_sorted_in_runs_that_are_merged(
    block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimation, "BLOCK_BYTES", block_bytes)
    rows = np.random.default_rng(1).integers(0, 9, (100_000, 4)).astype(np.uint32)[:3_000]
    rows[:, 3] = np.arange(3_000)
    sorter = RowSorter(3, 1, unsorted_keys=3)
    for part in np.array_split(rows, 7):
        sorter.add(part)
        # A row takes 16 bytes; the others are on the disk.
        assert sum(map(len, sorter._waiting)) <= block_bytes // 16
    found = np.concatenate(list(sorter.sorted())).tolist()
    assert found == sorted(rows.tolist())


def test_numbers_are_the_shortest_that_are_read_as_the_same() -> None:
    numbers = np.random.default_rng(1)
    values = [0, -1, -0.5, -2.01953125, -99, 1e-7, -2.5886e-8, -9.9999999e-7, -1e-6, -38.5]
    values += (-(10.0 ** numbers.uniform(-7.5, 1.6, 20_000))).tolist()
    found = np.array(values, np.float32)
    text = np.empty(len(found) * (NUMBER_SIZE + 2), np.uint8)
    rows = np.zeros((len(found), 1), np.uint32)
    starts = np.array([0, 0])
    count = format_ngrams(rows, 1, found, found[:0], np.empty(0, np.uint8), starts, text)
    lines = text[:count].tobytes().decode().split("\t\n")[:-1]
    for line, value in zip(lines, found, strict=True):
        if 0 < abs(value) < 1e-6:
            shortest = np.format_float_scientific(value, trim="-", exp_digits=1)
        else:
            shortest = np.format_float_positional(value, trim="-")
        assert line == shortest


def test_logarithms_are_those_of_the_c_library() -> None:
    function = ctypes.CDLL(ctypes.util.find_library("m")).log10f
    function.argtypes, function.restype = [ctypes.c_float], ctypes.c_float
    values = np.random.default_rng(1).uniform(0, 1, 20_000).astype(np.float32)
    assert log10(values).tolist() == [function(value) for value in values.tolist()]


def test_a_model_is_lmplz_s_to_the_byte(shared_data: Path) -> None:
    # Made by lmplz -o 4 from the same text (its README.md).
    text = read_monolingual_text(str(shared_data / "train.fr"))
    with gzip.open(shared_data / "lm.fr.arpa.gz") as expected:
        assert arpa([line.words for line in text], 4) == expected.read()


def test_discounts_that_cannot_be_computed_are_an_error_that_names_the_cure() -> None:
    with pytest.raises(
        PhrasescoreError, match=r"no 1-gram with the adjusted count 3.*--discount-f"
    ):
        arpa([("a", "b"), ("c",)], 2)
    # Of 3 words with the count 1, 1 with 2, 1 with 3 and 9 with 4: D3 = 3 - 4 * 0.6 * 9 / 1.
    counts = [1, 1, 1, 2, 3, *[4] * 9]
    words = [word for number, count in enumerate(counts) for word in [f"w{number}"] * count]
    with pytest.raises(PhrasescoreError, match=r"1-grams with the adjusted count 3 is -18\.6, exp"):
        arpa([tuple(words)] + [()] * 9, 1)


def test_a_discount_of_0_is_taken_and_the_weight_of_a_context_may_be_0() -> None:
    # Of the 2-grams, 8 have the count 1, 2 the count 2 and 2 the count 3: D2 is
    # 2 - 3 * 8 / (8 + 2 * 2) * 2 / 2 = 0, which lmplz takes (lm/builder/adjust_counts.cc).
    text = [tuple(line.split()) for line in ("f a", "a e d", "g f d", "a c", "a e d")]
    found, expected = parse(arpa(text, 2)), ReferenceNgrams(text, 2, (), False).values
    assert found.keys() == expected.keys()
    for gram, values in expected.items():
        assert found[gram] == pytest.approx(values, abs=1e-6)
    # The only 2-gram after "e" has the count 2, so that nothing is left for other words.
    assert found["e",][1] == -99
    assert parse(arpa(text, 2, discount_fallback=True)) == found


def test_an_order_without_n_grams_is_an_error() -> None:
    with pytest.raises(PhrasescoreError, match=r"no 4-gram because .* the order must be at most 3"):
        arpa([("a",), ("b",)], 5, discount_fallback=True)
    with pytest.raises(
        PhrasescoreError, match=r"no 2-gram after --prune; the order must be at most 1"
    ):
        arpa([("a",), ("b",)], 2, prune=(0, 5), discount_fallback=True)


def test_a_temporary_file_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(PhrasescoreError, match="gone: cannot write: No such file or directory"):
        arpa([("a", "b")], 2, discount_fallback=True)
