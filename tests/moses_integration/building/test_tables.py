"""Phrase tables and reordering tables: worked by hand, against plain Python, and against Moses'."""

import errno
import gzip
import random
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from moses_integration.building.lines import MAX_NUMERAL, put_number, round_count
from moses_integration.building.tables import build_tables
from phrasescore.errors import PhrasescoreError
from tests.moses_integration.building.plain_tables import Sentence, tables

NAMES = ("source", "target", "links")


class Built(NamedTuple):
    pairs: int
    phrase_table: Path
    reordering_table: Path


def build(folder: Path, texts: tuple[str, str, str], **options: Any) -> Built:
    for name, text in zip(NAMES, texts, strict=True):
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    (folder / "work").mkdir(exist_ok=True)
    (folder / "out").mkdir(exist_ok=True)
    source, target, links = (folder / name for name in NAMES)
    work = folder / "work"
    pairs = build_tables(source, target, links, folder / "out", work=work, **options)
    assert list(folder.glob("work/pairs*")) == list(folder.glob("work/sentences*")) == []
    (folder / "work" / "totals").unlink()
    (reordering,) = (folder / "out").glob("reordering-table.*.gz")
    return Built(pairs, folder / "out" / "phrase-table.gz", reordering)


def lines(path: Path) -> list[bytes]:
    with gzip.open(path) as file:
        return file.read().split(b"\n")[:-1]


def problem(folder: Path, *texts: str) -> str:
    with pytest.raises(PhrasescoreError) as caught:
        build(folder, (texts[0], texts[1], texts[2]))
    assert list((folder / "out").iterdir()) == []
    return str(caught.value).replace(f"{folder}/", "")


def random_corpus(seed: int, sentences: int) -> list[Sentence]:
    """Sentences of few words, among them words whose bytes sort before a space or after a bar."""
    chance = random.Random(seed)
    words = ["a", "b", "!", "}", "é", "a!", "a\x01", "NULL", "[X]", "日", "~x"][
        : chance.choice([2, 11])
    ]
    corpus = []
    for _ in range(sentences):
        source = chance.choices(words, k=chance.randint(1, 9))
        target = chance.choices(words, k=chance.randint(1, 9))
        cells = [(s, t) for s in range(len(source)) for t in range(len(target))]
        near = [(s, t) for s, t in cells if abs(s - t) < 2]
        corpus.append((source, target, set(chance.sample(near, len(near) // 2 + 1))))
    return corpus


def texts_of(corpus: list[Sentence]) -> tuple[str, str, str]:
    columns = zip(*corpus, strict=True)
    sources, targets = (
        "".join(" ".join(words) + "\n" for words in next(columns)) for _ in range(2)
    )
    links = "".join(" ".join(f"{s}-{t}" for s, t in sorted(row)) + "\n" for row in next(columns))
    return sources, targets, links


# Worked by hand


def test_the_phrases_of_a_sentence_with_an_unaligned_word(tmp_path: Path) -> None:
    # "b" is unaligned: it is optional beside "a", and beside "c", whose translation is swapped.
    built = build(tmp_path, ("a b c\n", "x y\n", "0-1 2-0\n"))
    assert built.pairs == 5
    # p(s|t), lex(s|t), p(t|s), lex(t|s); "b" is explained by NULL, with p(b|NULL) = 1.
    assert lines(built.phrase_table) == [
        b"a b c ||| x y ||| 1 1 1 1 ||| 2-0 0-1 ||| 1 1 1 ||| |||",
        b"a b ||| y ||| 0.5 1 1 1 ||| 0-0 ||| 2 1 1 ||| |||",
        b"a ||| y ||| 0.5 1 1 1 ||| 0-0 ||| 2 1 1 ||| |||",
        b"b c ||| x ||| 0.5 1 1 1 ||| 1-0 ||| 2 1 1 ||| |||",
        b"c ||| x ||| 0.5 1 1 1 ||| 0-0 ||| 2 1 1 ||| |||",
    ]
    # Only the whole sentence is monotone to both ends, with (1 + 0.5) / (1 + 3 * 0.5). "b c" and
    # "a" are swapped on the side where the other one is, unless "b" lies between them.
    assert lines(built.reordering_table) == [
        b"a b c ||| x y ||| 0.6 0.2 0.2 0.6 0.2 0.2",
        b"a b ||| y ||| 0.2 0.6 0.2 0.2 0.2 0.6",
        b"a ||| y ||| 0.2 0.2 0.6 0.2 0.2 0.6",
        b"b c ||| x ||| 0.2 0.2 0.6 0.2 0.6 0.2",
        b"c ||| x ||| 0.2 0.2 0.6 0.2 0.2 0.6",
    ]
    assert (tmp_path / "out" / "lex.f2e").read_text().split("\n") == [
        "y a 1.0000000",
        "NULL b 1.0000000",
        "x c 1.0000000",
        "",
    ]


def test_of_equally_frequent_alignments_the_last_one_in_moses_order_wins(tmp_path: Path) -> None:
    # {0} < {0, 1} < {1} for a target word; for source words, [{0}, {}] > [{}, {0}].
    built = build(tmp_path, ("a b\na b\n", "x\nx\n", "0-0\n1-0\n"))
    whole = next(line for line in lines(built.phrase_table) if line.startswith(b"a b |||"))
    # lex(s|t) by the alignment 0-0, lex(t|s) by 1-0: p(a|x) p(b|NULL) = 1/2 1/2; p(x|b) = 1/2.
    assert whole == b"a b ||| x ||| 0.5 0.25 1 0.5 ||| 1-0 ||| 4 2 2 ||| |||"


def test_probabilities_of_words_are_rounded_like_those_in_the_files(tmp_path: Path) -> None:
    built = build(tmp_path, ("a\na\na\n", "x\ny\ny\n", "0-0\n0-0\n0-0\n"))
    assert (tmp_path / "out" / "lex.f2e").read_text() == "x a 0.3333333\ny a 0.6666667\n"
    assert lines(built.phrase_table) == [
        b"a ||| x ||| 1 1 0.333333 0.333333 ||| 0-0 ||| 1 3 1 ||| |||",
        b"a ||| y ||| 1 1 0.666667 0.666667 ||| 0-0 ||| 2 3 2 ||| |||",
    ]


# Against plain Python


@pytest.mark.parametrize("length", [1, 3, 7, 9])
def test_tables_are_those_of_the_plain_implementation(tmp_path: Path, length: int) -> None:
    for seed in range(6):
        corpus = random_corpus(seed, 4 ** (seed % 3 + 1))
        # With few links, a sentence has thousands of phrase pairs.
        corpus.append((["b"] * 40, ["a"] * 40, {(0, 0), (20, 20), (39, 39)}))
        built = build(tmp_path, texts_of(corpus), max_phrase_length=length)
        phrases, orders = tables(corpus, length)
        assert lines(built.phrase_table) == phrases
        assert lines(built.reordering_table) == orders
        assert built.pairs == len(phrases)


def test_threads_and_blocks_change_no_byte(tmp_path: Path) -> None:
    texts = texts_of(random_corpus(9, 200))
    results = set()
    for workers, block_words in ((1, 100_000), (1, 1), (2, 40), (3, 700)):
        build(tmp_path, texts, workers=workers, block_words=block_words)
        files = sorted((tmp_path / "out").iterdir())
        assert len(files) == 4
        results.add(tuple(path.read_bytes() for path in files))
    assert len(results) == 1


def test_compiled_code_frees_its_memory(tmp_path: Path) -> None:
    _nrt_python.memsys_enable_stats()
    in_use = []
    for _ in range(2):
        build(tmp_path, texts_of(random_corpus(9, 20)))
        counts = rtsys.get_allocation_stats()
        in_use.append(counts.mi_alloc - counts.mi_free)
    assert in_use[1] == in_use[0]


def test_numbers_are_written_like_c_writes_them() -> None:
    generator = np.random.default_rng(3)
    halves = 2.0 ** -np.arange(1, 40)  # exact ties, such as 0.001953125
    uniform = np.concatenate([generator.random(2000), 10 ** generator.uniform(-45, 0, 2000)])
    near = np.array([1, 0.1, 9.999995e-5, 0.9999995, 999999.5, 99999.95, 123456.5, 123457.5, 1e-5])
    for value in np.concatenate([halves, uniform, uniform.astype(np.float32), near, [0.0]]):
        out = np.zeros(MAX_NUMERAL + 1, np.uint8)
        assert out[: put_number(out, 0, value)].tobytes().decode() == f"{value:g}"
    for count in (1, 999_999, 1_000_000, 1_234_565, 1_234_575, 9_999_995, 16_777_215):
        out = np.zeros(MAX_NUMERAL + 1, np.uint8)
        text = f"{float(count):g}"
        assert out[: put_number(out, 0, round_count(count))].tobytes().decode() == text
        assert round_count(count) == float(text)


# Against Moses


@pytest.mark.slow
def test_tables_of_the_real_task_are_those_of_moses(shared_data: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    pairs = build_tables(
        shared_data / "train.en",
        shared_data / "train.fr",
        shared_data / "aligned.grow-diag-final-and",
        tmp_path,
        work=tmp_path / "work",
        workers=2,
    )
    assert pairs == 1_209_173
    for name in ("phrase-table.gz", "reordering-table.wbe-msd-bidirectional-fe.gz"):
        with gzip.open(tmp_path / name) as ours, gzip.open(shared_data / name) as theirs:
            for block in iter(lambda: list(islice(ours, 10_000)), []):
                assert block == list(islice(theirs, len(block)))
            assert theirs.read() == b""


# Bad input


def test_a_text_without_links_has_no_phrase_pair(tmp_path: Path) -> None:
    found = problem(tmp_path, "a\n", "x\n", "\n")
    assert found.startswith("found no phrase pair of at most 7 words: is the text too small")


def test_a_run_that_cannot_be_written_leaves_no_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("phrasescore.io.sorted_rows.os.pwrite", fail)
    found = problem(tmp_path, "a\n", "x\n", "0-0\n")
    assert found == "work: cannot write: No space left on device"
