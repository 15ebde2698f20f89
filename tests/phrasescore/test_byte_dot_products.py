"""Sums of powers from dot products of bytes: phrasescore.scoring.byte_dot_products."""

import re

import numpy as np
import pytest
import torch
from torch import Tensor

from phrasescore.scoring import byte_dot_products
from phrasescore.scoring.byte_dot_products import TILE_ROWS, TILE_WORDS, PackedWords
from phrasescore.scoring.normalizer import Normalizer
from phrasescore.scoring.precision import Precision
from tests.phrasescore.test_kernels import instructions

CPU = torch.device("cpu")
has_them = pytest.mark.skipif(
    not byte_dot_products.is_fastest(), reason="not for this processor: no VNNI, or better"
)


def sums_of(rows: Tensor, units: Tensor, words: Tensor, scales: Tensor, bias: Tensor) -> Tensor:
    """Return the sums, from memory with garbage in all places that are not looked at."""
    packed = PackedWords(words, scales, bias)
    count = packed.padded_count(len(rows))
    values = torch.full((count, rows.shape[1]), 77, dtype=torch.int8)
    worth = torch.full((count,), torch.nan)
    values[: len(rows)], worth[: len(rows)] = rows, units
    return packed.sums_of_powers(values, worth, torch.full((len(rows),), torch.nan))


def expected(rows: Tensor, units: Tensor, words: Tensor, scales: Tensor, bias: Tensor) -> Tensor:
    """Return the sums in float64, from the definition."""
    logits = (rows.double() * units.double()[:, None]) @ (words.double() * scales[:, None]).t()
    return torch.exp2(logits + bias).sum(1)


def material(count: int, width: int, num_words: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(count + width + num_words)
    rows = torch.randint(-127, 128, (count, width), generator=generator).to(torch.int8)
    words = torch.randint(-127, 128, (num_words, width), generator=generator).to(torch.int8)
    units = torch.rand(count, generator=generator) / 127
    scales = 3 * torch.rand(num_words, generator=generator) / 127 / width**0.5
    return rows, units, words, scales, torch.randn(num_words, generator=generator)


@has_them
@pytest.mark.parametrize("count", [0, 1, TILE_ROWS - 1, TILE_ROWS, TILE_ROWS + 1, 50])
@pytest.mark.parametrize(
    ("width", "num_words"),
    [(1, 1), (3, TILE_WORDS - 1), (4, TILE_WORDS), (5, TILE_WORDS + 1), (100, 1000), (1001, 70)],
)
def test_sums_are_those_of_the_definition(count: int, width: int, num_words: int) -> None:
    numbers = material(count, width, num_words)
    torch.testing.assert_close(sums_of(*numbers).double(), expected(*numbers), rtol=1.2e-4, atol=0)


@has_them
def test_a_row_has_the_same_bits_whatever_is_beside_it() -> None:
    rows, units, *words = material(50, 101, 1000)
    together = sums_of(rows, units, *words)
    for i in range(50):
        assert torch.equal(sums_of(rows[i : i + 1], units[i : i + 1], *words), together[i : i + 1])
    assert torch.equal(sums_of(rows.flip(0), units.flip(0), *words), together.flip(0))


@has_them
@pytest.mark.parametrize("row", [-127, 127])
@pytest.mark.parametrize("word", [-127, 127])
def test_the_largest_bytes_add_up_exactly(row: int, word: int) -> None:
    # 16 bits would end at 32,767, which two products of these are beyond.
    rows = torch.full((7, 1000), row, dtype=torch.int8)
    words = torch.full((3, 1000), word, dtype=torch.int8)
    # Of 16,129,000, what is beyond 16,128,990 remains: 2^10, or 2^-10.
    shift = -np.sign(row * word) * 16_128_990.0
    found = sums_of(
        rows, torch.ones(7), words, torch.ones(3), torch.full((3,), shift, dtype=torch.float32)
    )
    assert found.tolist() == pytest.approx([3 * 2.0 ** (10 * np.sign(row * word))] * 7, rel=1.2e-4)


@has_them
def test_powers_are_as_exact_as_they_say_and_end_where_float32_does() -> None:
    def sum_of_equal_words(logit: float) -> float:
        nothing = torch.zeros(TILE_WORDS, 4, dtype=torch.int8)
        bias = torch.full((TILE_WORDS,), logit)
        return sums_of(nothing[:1], torch.ones(1), nothing, torch.ones(TILE_WORDS), bias).item()

    x = np.concatenate([np.linspace(-126, 121, 2000), np.linspace(-2, 2, 2000)]).astype(np.float32)
    found = np.array([sum_of_equal_words(each) for each in x])
    error = np.abs(found / (TILE_WORDS * np.exp2(x.astype(float))) - 1).max()
    assert 9e-5 < error < 1.01e-4
    assert [sum_of_equal_words(each) for each in (-1e9, -200.0, -np.inf)] == [0] * 3
    assert [sum_of_equal_words(each) for each in (125.0, 300.0, 1e9)] == [np.inf] * 3
    assert np.isnan(sum_of_equal_words(np.nan))


@has_them
def test_a_row_that_is_not_finite_has_no_sum() -> None:
    rows, units, *words = material(8, 20, 70)
    units[3] = torch.nan
    found = sums_of(rows, units, *words)
    assert found.isnan().tolist() == [i == 3 for i in range(8)]


@has_them
@pytest.mark.parametrize(
    ("rows", "units", "width"),
    [(TILE_ROWS, TILE_ROWS + 1, 8), (TILE_ROWS + 1, TILE_ROWS, 8), (20, 20, 9), (20, 20, 4)],
)
def test_no_memory_is_read_that_is_not_there(rows: int, units: int, width: int) -> None:
    packed = PackedWords(torch.zeros(3, 8, dtype=torch.int8), torch.ones(3), torch.zeros(3))
    with pytest.raises(ValueError, match=r"too few|do not fit"):
        packed.sums_of_powers(
            torch.zeros(rows, width, dtype=torch.int8), torch.ones(units), torch.zeros(TILE_ROWS)
        )


@has_them
@pytest.mark.parametrize("rank", [7, 100])
def test_both_ways_to_add_up_integers_find_the_same(
    rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(2_100, rank, generator=generator) / 4
    bias = torch.randn(2_100, generator=generator)
    rows = torch.randn(1_030, rank, generator=generator)
    found = []
    for packed in (True, False):
        monkeypatch.setattr(byte_dot_products, "is_fastest", lambda packed=packed: packed)
        normalizer = Normalizer(weight, bias, Precision("int8", CPU))
        assert (normalizer._packed is not None) == packed
        factors = normalizer.extend(rows, torch.empty(len(rows), normalizer.width))
        found.append(normalizer.log_normalizers(factors))
    torch.testing.assert_close(*found, rtol=0, atol=2e-4)
    exact = torch.logsumexp(rows.double() @ weight.double().t() + bias, 1)
    torch.testing.assert_close(found[0].double(), exact, rtol=0, atol=0.1)


@pytest.mark.parametrize(
    ("units", "capability", "fastest"),
    [
        ({"avx512_vnni": True, "amx_int8": False}, "AVX512", True),
        ({"avx512_vnni": True, "amx_int8": True}, "AVX512", False),
        ({"avx512_vnni": False, "avx_vnni": True}, "AVX512", False),
        ({"avx512_vnni": True, "amx_int8": False}, "AVX2", False),
        ({}, "DEFAULT", False),
    ],
)
def test_they_are_for_processors_that_have_nothing_better(
    units: dict[str, bool], capability: str, fastest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: units)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert byte_dot_products.is_fastest() == fastest


@has_them
def test_a_tile_stays_in_registers() -> None:
    rows, units, *_ = material(7, 8, 1)
    packed = PackedWords(torch.zeros(70, 8, dtype=torch.int8), torch.ones(70), torch.zeros(70))
    numbers = packed._panels, packed._scales, packed._bias
    assembly = instructions(
        byte_dot_products._sums_of_powers,
        (rows.numpy(), units.numpy(), *numbers, np.zeros(6, np.float32)),
        fastmath=False,
    )
    inner = max(re.split(r"\n\.L", assembly), key=lambda part: len(re.findall("vpdpbusd", part)))
    # 6 rows times 4 vectors of words.
    assert len(re.findall(r"vpdpbusd\s.*%zmm", inner)) == 24
    loop = inner[: re.search(r"\n\s+j[a-z]+\s+\.LB", inner).end()]  # type: ignore[union-attr]
    assert len(re.findall(r"vpdpbusd", loop)) == 24
    assert not re.search(r"\(%rsp\)|vmovdqa64\s+%zmm", loop)
