"""Sums of powers that never were logits in memory: phrasescore.kernels.avx512.packed_words."""

import re

import numpy as np
import pytest
import torch
from torch import Tensor

from phrasescore.arguments import PrecisionName
from phrasescore.kernels.avx512 import packed_words, word_tiles
from phrasescore.kernels.avx512.packed_words import ROWS, PackedWords
from phrasescore.kernels.avx512.word_tiles import GROUP, TILE_ROWS, TILE_WORDS
from phrasescore.kernels.precision import Precision
from phrasescore.scoring.products import Products
from phrasescore.scoring.word_probabilities import WordProbabilities
from tests.phrasescore.kernels.test_kernels import instructions

CPU = torch.device("cpu")
PRECISIONS: tuple[PrecisionName, ...] = ("float32", "int8")
# How exact a sum is, beside what rounding factors to integers does.
EXACT = {"float32": 2e-6, "int8": 1.2e-4}


@pytest.fixture(params=PRECISIONS)
def precision(request: pytest.FixtureRequest) -> Precision:
    precision = Precision(request.param, CPU)
    if not packed_words.are_fastest(precision):
        pytest.skip("not for this processor")
    return precision


def sums_of(rows: Tensor, words: Tensor, bias: Tensor, precision: Precision) -> Tensor:
    packed = PackedWords(words, bias, 1.0, precision)
    return packed.sums_of_powers(rows, torch.full((len(rows),), torch.nan))


def material(count: int, width: int, num_words: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(count + width + num_words)
    rows, words = (torch.randn(size, width, generator=generator) for size in (count, num_words))
    return rows, words / width**0.5, torch.randn(num_words, generator=generator)


def test_words_are_stored_for_powers_of_2() -> None:
    # On any processor; the other numbers are padding.
    words, bias = torch.tensor([[3.0], [-5.0]]), torch.tensor([1.0, 0.5])
    panels, biases = PackedWords(words, bias, 2.0, Precision("float32", CPU)).arrays
    assert panels[panels != 0].tolist() == [6, -10]
    assert biases.ravel()[:2].tolist() == [2, 1]


@pytest.mark.parametrize("count", [0, 1, TILE_ROWS - 1, TILE_ROWS, TILE_ROWS + 1, 50, ROWS + 1])
@pytest.mark.parametrize(
    ("width", "num_words"),
    [(1, 1), (3, TILE_WORDS - 1), (4, TILE_WORDS), (5, TILE_WORDS + 1), (100, 5000), (1001, 70)],
)
def test_sums_are_those_of_the_definition(
    count: int, width: int, num_words: int, precision: Precision
) -> None:
    rows, words, bias = material(count, width, num_words)
    found = sums_of(rows, words, bias, precision)
    seen = precision.rounded_values(rows).double() @ precision.rounded_values(words).double().t()
    expected = torch.exp2(seen + bias.double()).sum(1)
    torch.testing.assert_close(found.double(), expected, rtol=EXACT[precision.name], atol=0)


@pytest.mark.usefixtures("uninitialized_memory_is_nan")
@pytest.mark.parametrize("count", [1, TILE_ROWS, 50])
@pytest.mark.parametrize("num_words", [1, TILE_WORDS, 1000])
def test_logits_are_those_that_are_summed(count: int, num_words: int, precision: Precision) -> None:
    rows, words, bias = material(count, 101, num_words)
    packed = PackedWords(words, bias, 1.5, precision)
    sums, alone = torch.empty(count), torch.empty(count)
    logits = packed.logits(rows, sums)
    seen = precision.rounded_values(rows).double() @ precision.rounded_values(words).double().t()
    expected = 1.5 * (seen + bias.double())
    torch.testing.assert_close(logits.double(), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(packed.sums_of_powers(rows, alone), sums)


def test_a_row_has_the_same_bits_whatever_is_beside_it(precision: Precision) -> None:
    rows, words, bias = material(50, 101, 1000)
    together = sums_of(rows, words, bias, precision)
    for i in range(50):
        assert torch.equal(sums_of(rows[i : i + 1], words, bias, precision), together[i : i + 1])
    assert torch.equal(sums_of(rows.flip(0), words, bias, precision), together.flip(0))


@pytest.mark.parametrize("count", [1, 20, 1030])
def test_threads_of_torch_share_the_rows(
    count: int, precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, words, bias = material(count, 64, 300)
    packed = PackedWords(words, bias, 1.0, precision)
    sums, shared = torch.empty(2, count).unbind()
    logits = packed.logits(rows, sums).clone()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(packed_words, "_PRODUCTS", 1)
    assert torch.equal(packed.logits(rows, shared), logits)
    assert torch.equal(shared, sums)
    assert torch.equal(packed.sums_of_powers(rows, torch.empty(count)), sums)


@pytest.mark.parametrize("width", range(1, 10))
def test_rows_are_padded_to_all_that_a_tile_reads(width: int) -> None:
    for count in range(1, 20):
        last = -(-count // TILE_ROWS) * TILE_ROWS - 1
        groups = -(-width // GROUP)
        end = last * width + groups * GROUP
        assert end <= packed_words._padded(count) * width


def test_many_equal_words_lose_nothing(precision: Precision) -> None:
    # 300,000 equal numbers, added up in float32 in 16 lanes, would be off by 6e-5.
    words = torch.zeros(300_000, 1)
    found = sums_of(words[:1], words, torch.full((len(words),), 0.3), precision)
    error = 1e-6 if precision.name == "float32" else 1e-4
    assert found.item() == pytest.approx(len(words) * 2**0.3, rel=error)


def test_a_large_bias_costs_products_no_bits() -> None:
    precision = Precision("float32", CPU)
    if not packed_words.are_fastest(precision):
        pytest.skip("not for this processor")
    rows, words, _ = material(40, 1000, 1)
    found = sums_of(rows, words, torch.tensor([100.0]), precision)
    exact = torch.exp2(rows.double() @ words.double().t() + 100)[:, 0]
    # One rounding at 100 is 4e-6 of a power; one for each product would be 30 times that.
    torch.testing.assert_close(found.double(), exact, rtol=1.2e-5, atol=0)


@pytest.mark.parametrize("row", [-127, 127])
@pytest.mark.parametrize("word", [-127, 127])
def test_the_largest_integers_add_up_exactly(row: int, word: int, precision: Precision) -> None:
    # 16 bits would end at 32,767, which two products of these are beyond.
    rows, words = torch.full((7, 1000), float(row)), torch.full((3, 1000), float(word))
    # Of 16,129,000, what is beyond 16,128,990 remains: 2^10, or 2^-10.
    sign = int(np.sign(row * word))
    found = sums_of(rows, words, torch.full((3,), -sign * 16_128_990.0), precision)
    assert found.tolist() == pytest.approx([3 * 2.0 ** (10 * sign)] * 7, rel=1.2e-4)


@pytest.mark.parametrize(("name", "error"), [("float32", 3e-7), ("int8", 1e-4)])
def test_powers_are_as_exact_as_they_say_and_end_where_float32_does(
    name: PrecisionName, error: float
) -> None:
    precision = Precision(name, CPU)
    if not packed_words.are_fastest(precision):
        pytest.skip("not for this processor")

    def sum_of_equal_words(logit: float) -> float:
        words, bias = torch.zeros(TILE_WORDS, 4), torch.full((TILE_WORDS,), logit)
        return sums_of(words[:1], words, bias, precision).item()

    x = np.concatenate([np.linspace(-126, 121, 2000), np.linspace(-2, 2, 2000)]).astype(np.float32)
    found = np.array([sum_of_equal_words(each) for each in x])
    off = np.abs(found / (TILE_WORDS * np.exp2(x.astype(float))) - 1).max()
    assert 0.5 * error < off < 1.1 * error
    assert [sum_of_equal_words(each) for each in (-1e9, -200.0, -np.inf)] == [0] * 3
    assert [sum_of_equal_words(each) for each in (125.0, 300.0, 1e9)] == [np.inf] * 3
    assert np.isnan(sum_of_equal_words(np.nan))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_has_no_sum(wrong: float, precision: Precision) -> None:
    rows, words, bias = material(8, 20, 70)
    rows[3, 5] = wrong
    found = sums_of(rows, words, bias, precision)
    assert found.isfinite().tolist() == [i != 3 for i in range(8)]


@pytest.mark.parametrize("width", [4, 9, 0])
def test_no_memory_is_read_that_is_not_the_rows(width: int, precision: Precision) -> None:
    packed = PackedWords(torch.zeros(3, 8), torch.zeros(3), 1.0, precision)
    with pytest.raises(ValueError, match=rf"expected factors as wide as words, got {width} and 8"):
        packed.sums_of_powers(torch.zeros(5, width), torch.empty(5))
    with pytest.raises(ValueError, match=rf"expected factors as wide as words, got {width} and 8"):
        packed.logits(torch.zeros(5, width), torch.empty(5))


@pytest.mark.parametrize("rank", [7, 100])
def test_packed_words_and_blocks_have_the_same_normalisers(
    rank: int, precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(2_100, rank, generator=generator) / 4
    bias = torch.randn(2_100, generator=generator)
    rows = torch.randn(1_030, rank, generator=generator)
    found = []
    for packs in (True, False):
        monkeypatch.setattr(packed_words, "are_fastest", lambda _, packs=packs: packs)
        probabilities = WordProbabilities(weight, bias, Products(precision, CPU))
        assert isinstance(probabilities._summands, PackedWords) == packs
        with torch.inference_mode():
            found.append(probabilities.log_normalizers(rows))
    in_integers = precision.name == "int8"
    torch.testing.assert_close(*found, rtol=0, atol=2e-4 if in_integers else 1e-5)
    exact = torch.logsumexp(rows.double() @ weight.double().t() + bias, 1)
    torch.testing.assert_close(found[0].double(), exact, rtol=0, atol=0.1 if in_integers else 1e-5)


@pytest.mark.parametrize(
    ("units", "capability", "names"),
    [
        ({"avx512_vnni": True, "amx_int8": False}, "AVX512", ["float32", "int8"]),
        ({"avx512_vnni": True, "amx_int8": True}, "AVX512", ["float32"]),
        ({"avx512_vnni": False, "avx_vnni": True}, "AVX512", ["float32"]),
        ({"avx512_vnni": True, "amx_int8": False}, "AVX2", []),
        ({}, "DEFAULT", []),
    ],
)
def test_they_are_for_processors_that_have_nothing_better(
    units: dict[str, bool], capability: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_all = {name: Precision(name, CPU) for name in ("float32", "bfloat16", "int8")}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: units)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert [name for name, each in of_all.items() if packed_words.are_fastest(each)] == names
    # A GPU has other means.
    assert not packed_words.are_fastest(Precision("float32", torch.device("meta")))


def assembly(packed: PackedWords, precision: Precision) -> str:
    rows, out = np.zeros((13, 8), np.float32), np.zeros(7, np.float32)
    if precision.name == "float32":
        numbers = rows, *packed.arrays, out, None
        return instructions(word_tiles.sums_of_numbers, numbers, fastmath=False)
    integers = rows.astype(np.int8), rows[:, 0].copy(), *packed.arrays, out, None
    return instructions(word_tiles.sums_of_bytes, integers, fastmath=False)


def test_a_tile_stays_in_registers(precision: Precision) -> None:
    packed = PackedWords(torch.zeros(70, 8), torch.zeros(70), 1.0, precision)
    multiply = "vpdpbusd" if precision.name == "int8" else r"vfmadd\w+ps"
    # Loops of one block: from a label to the jump back to it, with no other label between.
    code = assembly(packed, precision)
    loops = re.findall(r"\n\.L(\w+):((?:(?!\n\.L).)*?\sj[a-z]+\s+\.L)\1\n", code, re.S)
    loop = max((body for _, body in loops), key=lambda body: len(re.findall(multiply, body)))
    # 6 rows times 4 vectors of words, as often as LLVM unrolls the loop on this processor.
    count = len(re.findall(rf"{multiply}\s.*%zmm", loop))
    assert count
    assert count % 24 == 0
    assert not re.search(r"\(%rsp\)|vmovdqa64\s+%zmm|vmovaps\s+%zmm", loop)
