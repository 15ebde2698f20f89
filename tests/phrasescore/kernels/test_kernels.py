"""Compiled loops: what the processor is given, and what rounding does."""

import re
from typing import Any

import numba
import numpy as np
import pytest
import torch

from phrasescore.arguments import PrecisionName
from phrasescore.kernels import gates, integers, sentence_gates, softmax_sums
from phrasescore.kernels.phrases import join_blocks
from phrasescore.kernels.precision import Precision, _warn_of_missing_units
from phrasescore.kernels.vector_math import EXACT, exp, sigmoid, tanh
from phrasescore.records import PhraseBlock, PhrasePair
from phrasescore.scoring.products import Products
from phrasescore.scoring.word_probabilities import WordProbabilities
from tests.feature_values import as_block

HIDDEN, UNITS, WORDS, ROWS = 48, 32, 7, 5
PLACES = np.zeros(ROWS, np.int64)


def rows(width: int, count: int = ROWS) -> np.ndarray:
    return np.zeros((count, width), np.float32)


STATE, TABLE = rows(HIDDEN), rows(3 * HIDDEN, WORDS)


def bits(width: int) -> np.ndarray:
    return np.zeros((ROWS, width), np.uint16)


def numbers(values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return a product of floats: its rows and columns have no scales."""
    return values, np.zeros(0, np.float32), np.zeros(0, np.float32)


def integers_of(width: int) -> tuple[np.ndarray, ...]:
    return (
        np.zeros((ROWS, width), np.int32),
        np.zeros(ROWS, np.float32),
        np.zeros(width, np.float32),
    )


WORD, PARENT = (TABLE, PLACES), (STATE, PLACES)
STEP = (PLACES, rows(3 * HIDDEN), PLACES, *WORD, *PARENT, STATE)
PAIR = (rows(2 * UNITS), PLACES, rows(2 * UNITS), PLACES, rows(UNITS))
ENCODER = (*WORD, *PARENT, STATE, STATE)
JOIN = (rows(2 * HIDDEN), rows(1, HIDDEN)[:, 0], rows(6), rows(1, 6)[:, 0])
LSTM = (rows(4 * HIDDEN), PLACES, rows(4 * HIDDEN), PLACES, rows(1, 4 * HIDDEN)[:, 0])
SUMS, FAMILY = rows(3 * HIDDEN + 2 * UNITS), (PLACES, TABLE, PLACES)
LOOPS: dict[str, tuple[Any, tuple[np.ndarray, ...]]] = {
    "decoder step": (gates._decoder_step, (*numbers(rows(3 * HIDDEN)), *STEP)),
    "decoder step in bfloat16": (
        gates._decoder_step,
        (*numbers(bits(3 * HIDDEN)), PLACES, bits(3 * HIDDEN), PLACES, bits(3 * HIDDEN), *STEP[4:]),
    ),
    "decoder step in int8": (
        gates._decoder_step,
        (*integers_of(3 * HIDDEN), *STEP[:3], bits(3 * HIDDEN), *STEP[4:]),
    ),
    "maxout": (gates._maxout, (*numbers(rows(2 * UNITS)), *PAIR)),
    "maxout in bfloat16": (gates._maxout, (*numbers(bits(2 * UNITS)), bits(2 * UNITS), *PAIR[1:])),
    "maxout in int8": (gates._maxout, (*integers_of(2 * UNITS), *PAIR)),
    "encoder gates": (gates._encoder_gates, (*numbers(rows(2 * HIDDEN)), *ENCODER)),
    "encoder gates in bfloat16": (gates._encoder_gates, (*numbers(bits(2 * HIDDEN)), *ENCODER)),
    "encoder gates in int8": (gates._encoder_gates, (*integers_of(2 * HIDDEN), *ENCODER)),
    "encoder blend": (gates._encoder_blend, (*numbers(STATE), *ENCODER)),
    "encoder blend in bfloat16": (gates._encoder_blend, (*numbers(bits(HIDDEN)), *ENCODER)),
    "encoder blend in int8": (gates._encoder_blend, (*integers_of(HIDDEN), *ENCODER)),
    "rounding to int8": (integers._round_rows, (STATE, STATE.astype(np.int8), STATE[:, 0])),
    "scaling int8": (integers._scale, (*integers_of(HIDDEN), STATE)),
    "LSTM": (sentence_gates._lstm_cell, (*LSTM, *PARENT, STATE, STATE)),
    "attention blend": (
        sentence_gates._attentive_blend,
        (STATE, SUMS, *FAMILY, STATE, STATE, STATE),
    ),
    "attention maxout": (
        sentence_gates._attentive_maxout,
        (rows(2 * UNITS), SUMS, PLACES, rows(2 * UNITS, WORDS), PLACES, rows(UNITS)),
    ),
    "grConv": (sentence_gates._join_cells, (*JOIN, STATE, PLACES, PLACES, STATE)),
}


def instructions(loop: Any, arguments: tuple[Any, ...], fastmath: bool | set[str]) -> str:
    # A loop from numba's cache does not tell.
    compiled = numba.njit(error_model="numpy", fastmath=fastmath)(loop.py_func)
    compiled(*arguments)
    (assembly,) = compiled.inspect_asm().values()
    return str(assembly)


X86 = pytest.mark.skipif(
    not torch.backends.cpu.get_cpu_capability().startswith("AVX"), reason="of x86 instructions"
)


@X86
@pytest.mark.parametrize("name", LOOPS)
def test_loops_read_vectors_and_gather_nothing(name: str) -> None:
    loop, arguments = LOOPS[name]
    assembly = instructions(loop, arguments, EXACT)
    assert re.search(r"v(add|mul|max|fmadd\w*)ps\s.*%[yz]mm", assembly)  # it is made of vectors
    if loop is integers._round_rows:
        assert re.search(r"vp(max|cmp)\w+\s.*%[yz]mm", assembly)
    assert not re.search(r"\s(v\w*gather|vpinsr)", assembly)


SUMS_OF_LOGITS: dict[str, tuple[Any, tuple[np.ndarray, ...]]] = {
    "exp": (softmax_sums._add_sums_of_exp, (STATE, STATE[0], STATE[:, 0])),
    "powers": (softmax_sums._add_sums_of_powers, (bits(HIDDEN), STATE[0], STATE[:, 0])),
    "scaled powers": (
        softmax_sums._add_sums_of_scaled_powers,
        (*integers_of(HIDDEN), STATE[0], STATE[:, 0]),
    ),
}


@X86
@pytest.mark.parametrize("name", SUMS_OF_LOGITS)
def test_loops_have_the_widest_registers_and_call_nothing(name: str) -> None:
    assembly = instructions(*SUMS_OF_LOGITS[name], fastmath=True)
    # LLVM takes 512 bits on some processors of AMD without being asked to.
    widest = "z" if "AVX512" in torch.backends.cpu.get_cpu_capability() else "[yz]"
    # The part between two labels that has the most arithmetic is the innermost loop.
    inner = max(re.split(r"\n\.L", assembly), key=lambda part: len(re.findall(r"\svfmadd", part)))
    assert re.search(rf"vfmadd\w*ps\s.*%{widest}mm", inner)
    assert not re.search(r"\s(callq?|vfmadd\w*ss|vrndscale\w*)\s", inner)


# Not kept in numba's cache, which would not notice that exp() has changed.
@numba.njit(error_model="numpy", fastmath=EXACT)
def _apply(x, out):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        out[0, i], out[1, i], out[2, i] = exp(x[i]), sigmoid(x[i]), tanh(x[i])


@numba.njit(error_model="numpy", fastmath=True)
def _sum_of_exp(x, out):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for i in range(len(x)):
        total += exp(x[i])
    out[0] = total


def test_exp_and_its_kin_are_as_exact_as_they_say() -> None:
    x = np.concatenate([np.linspace(-86, 88, 200_001), np.linspace(-1, 1, 200_001)])
    x = x.astype(np.float32)
    found = np.empty((3, len(x)), np.float32)
    _apply(x, found)
    exact = x.astype(np.float64)
    assert np.abs(found[0] / np.exp(exact) - 1).max() < 1.2e-7
    assert np.abs(found[1] - 1 / (1 + np.exp(-exact))).max() < 1.2e-7
    assert np.abs(found[2] - np.tanh(exact)).max() < 2e-7


def test_exp_is_cut_off_and_stays_finite() -> None:
    found = np.empty((3, 4), np.float32)
    _apply(np.array([-1e9, -86, 88, 1e9], np.float32), found)
    ends = [np.exp(-86.0)] * 2 + [np.exp(88.0)] * 2
    assert found[0] == pytest.approx(ends, rel=1e-6, abs=0)
    assert found[1] == pytest.approx([0, 0, 1, 1])
    assert found[2] == pytest.approx([-1, -1, 1, 1])


def test_a_sum_that_is_reordered_leaves_its_terms_alone() -> None:
    # Reordering would take away the number that exp() adds and subtracts to round.
    x = np.random.default_rng(1).normal(size=4096).astype(np.float32)
    found = np.empty(1, np.float32)
    _sum_of_exp(x, found)
    assert found[0] == pytest.approx(np.exp(x.astype(np.float64)).sum(), rel=3e-7)


CPU = torch.device("cpu")


def certain(size: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows and weights of as many words; word i is all but certain after row i."""
    rows = torch.randn(40, 64, generator=torch.Generator().manual_seed(1))
    return rows * size, rows


@pytest.mark.parametrize(
    ("precision", "size"), [("float32", 2e3), ("bfloat16", 1.0), ("int8", 1.0)]
)
def test_a_certain_word_has_log_probability_0_whatever_rounding_does(
    precision: PrecisionName, size: float
) -> None:
    rows, weight = certain(size)
    found = Precision(precision, CPU)
    words = np.arange(len(rows))
    with torch.inference_mode():
        probabilities = WordProbabilities(weight, torch.zeros(len(rows)), Products(found, CPU))
        normalizers = probabilities.log_normalizers(rows)
        log_probs = probabilities.log_probs(rows, normalizers, words, words)
    assert log_probs.max() == 0
    assert log_probs.min() > -1


def test_what_rounding_does_not_explain_is_left_for_others_to_find() -> None:
    rows = torch.ones(3, 4)
    log_probs = torch.tensor([1e-7, 1e-3, -1.0])
    settled = Precision("float32", CPU).at_most_certain(log_probs, rows, rows)
    assert settled.tolist() == [0.0, log_probs[1].item(), -1.0]


# With a bias of 0 sums are as exp() takes them; 100 and -150 put them beyond its range.
@pytest.mark.parametrize("shift", [0.0, 100.0, -150.0])
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_errors_of_a_probable_word_and_of_the_sum_that_it_makes_cancel_out(
    precision: PrecisionName, shift: float
) -> None:
    # One word has most of the probability: that log p is near 0 whatever its logit's error.
    generator = torch.Generator().manual_seed(2)
    rows = torch.randn(300, 64, generator=generator)
    weight = torch.cat([rows[:1], 0.1 * torch.randn(50, 64, generator=generator)]) * 0.5
    rows = rows + 1.0 * rows[:1]
    bias = torch.full((len(weight),), shift)
    expected = torch.log_softmax(rows.double() @ weight.double().t(), 1)[:, 0]
    found = Precision(precision, CPU)
    with torch.inference_mode():
        probabilities = WordProbabilities(weight, bias, Products(found, CPU))
        places, words = np.arange(len(rows)), np.zeros(len(rows), np.int64)
        log_probs = probabilities.log_probs(
            rows, probabilities.log_normalizers(rows), places, words
        )
    probable = expected > -0.01
    assert probable.sum() > 100
    assert (log_probs - expected)[probable].abs().max() < 1e-3


# Beyond 60 and below -60, sums are those of rows that exp() alone would not do for.
@pytest.mark.parametrize("bias", [-150.0, -50.0, 0.0, 30.0, 80.0, 150.0])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_word_that_its_bias_makes_certain_is_no_more_than_certain(
    precision: PrecisionName, bias: float
) -> None:
    generator = torch.Generator().manual_seed(4)
    rows, weight = (
        torch.randn(40, 500, generator=generator),
        torch.randn(9, 500, generator=generator),
    )
    biases = torch.full((9,), bias - 100)
    biases[0] = bias
    with torch.inference_mode():
        products = Products(Precision(precision, CPU), CPU)
        probabilities = WordProbabilities(weight / 500, biases, products)
        normalizers = probabilities.log_normalizers(rows)
        found = probabilities.log_probs(rows, normalizers, np.arange(40), np.zeros(40, np.int64))
    assert found.max() <= 0
    assert found.min() > -1e-3


@pytest.mark.parametrize("shift", [0.0, 100.0, -150.0])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_distribution_is_a_softmax_with_the_normaliser_of_scoring(
    precision: PrecisionName, shift: float
) -> None:
    generator = torch.Generator().manual_seed(5)
    rows, weight = (
        torch.randn(30, 48, generator=generator),
        torch.randn(700, 48, generator=generator),
    )
    bias = torch.randn(700, generator=generator) + shift
    products = Products(Precision(precision, CPU), CPU)
    with torch.inference_mode():
        probabilities = WordProbabilities(weight / 5, bias, products)
        found, normalizers = probabilities.log_distributions(rows)
        assert torch.equal(normalizers, probabilities.log_normalizers(rows))
    seen = (
        products.precision.rounded_values(rows).double(),
        products.precision.rounded_values(weight / 5).double(),
    )
    expected = torch.log_softmax(seen[0] @ seen[1].t() + bias.double(), 1)
    tolerance = {"float32": 3e-5, "bfloat16": 0.1, "int8": 3e-4}[precision]
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("units", "lacking"),
    [
        ({"avx512_vnni": False, "avx_vnni": False, "amx_int8": False}, True),
        ({"avx512_vnni": True, "avx_vnni": False, "amx_int8": False}, False),
        ({}, False),
    ],
)
def test_a_type_without_instructions_is_warned_of_once(
    units: dict[str, bool],
    lacking: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: units)
    _warn_of_missing_units.cache_clear()
    try:
        Precision("int8", CPU)
        Precision("int8", CPU)
        Precision("float32", CPU)
    finally:
        _warn_of_missing_units.cache_clear()
    assert [record.message for record in caplog.records] == [
        "this processor has no instructions for products in int8: float32 is likely faster"
    ] * lacking


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_a_logit_that_no_sum_is_taken_from_is_not_rounded(precision: PrecisionName) -> None:
    rows, weight = certain(1.0)
    bias = torch.arange(len(rows)) / 10
    places, words = np.array([3, 0, 3, 7]), np.array([2, 0, 5, 7])
    with torch.inference_mode():
        products = Products(Precision(precision, CPU), CPU)
        found = WordProbabilities(weight, bias, products).logits(rows, places, words)
    expected = (rows[places].double() * weight[words].double()).sum(1) + bias[words]
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_certain_word_of_logit_0_is_no_more_than_certain(precision: PrecisionName) -> None:
    # A power of 2 is good to 2e-4 of its value, and this word's is all there is.
    bias = torch.tensor([0.0, -100.0, -100.0])
    with torch.inference_mode():
        products = Products(Precision(precision, CPU), CPU)
        probabilities, rows = WordProbabilities(torch.zeros(3, 8), bias, products), torch.ones(5, 8)
        normalizers = probabilities.log_normalizers(rows)
        found = probabilities.log_probs(rows, normalizers, np.arange(5), np.zeros(5, np.int64))
    assert found.tolist() == [0] * 5


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_words_whose_exp_is_cut_off_add_up_to_nothing(precision: PrecisionName) -> None:
    bias = torch.full((20_001,), -200.0)
    bias[0] = -68.0
    with torch.inference_mode():
        products = Products(Precision(precision, CPU), CPU)
        probabilities = WordProbabilities(torch.zeros(len(bias), 8), bias, products)
        found = probabilities.log_normalizers(torch.ones(5, 8))
    # In bfloat16 the logit has 8 bits.
    expected = torch.full((5,), -68.0, dtype=torch.float64)
    torch.testing.assert_close(
        found.double(), expected, rtol=0, atol=0.2 if precision == "bfloat16" else 1e-5
    )


PAIRS = [PhrasePair(f"a{number} é", "b") for number in range(7)] + [PhrasePair((), "x")]


@pytest.mark.parametrize("size", [1, 3, 8])
def test_joined_blocks_have_all_pairs_and_no_other_bytes(size: int) -> None:
    parts = [PAIRS[first : first + size] for first in range(0, len(PAIRS), size)]
    joined = join_blocks([as_block(part) for part in parts])
    assert list(joined.pairs()) == PAIRS
    assert joined.text.decode() == "".join(f"a{number} éb" for number in range(7)) + "x"
    assert joined.affiliations is None


def test_affiliations_and_sources_stay_with_their_pairs() -> None:
    one = PhraseBlock.of_source(("s", "t"), [("a",), ("b", "c")], [(1,), (0, 2)])
    other = PhraseBlock.of([(("u",), ())], [()])
    joined = join_blocks([one, other])
    assert joined.affiliations == [(1,), (0, 2), ()]
    last = joined.select(np.array([2, 0]))
    assert list(last.pairs()) == [PhrasePair("u", ()), PhrasePair("s t", "a")]
    assert last.affiliations == [(), (1,)]


def test_some_pairs_without_affiliations_leave_none() -> None:
    aligned = PhraseBlock.of_source(("s",), [("a",)], [(0,)])
    assert join_blocks([aligned, PhraseBlock.of([(("t",), ("b",))])]).affiliations is None
    assert join_blocks([aligned, PhraseBlock.of([])]).affiliations == [(0,)]
