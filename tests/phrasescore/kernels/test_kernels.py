"""What the compiled loops of phrasescore.scoring are made of."""

import re
from typing import Any

import numba
import numpy as np
import pytest
import torch

from phrasescore.kernels import gates, integers, sentence_gates, softmax_sums
from phrasescore.kernels.vector_math import EXACT, exp, sigmoid, tanh

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
    """Return a product of integers with its scales."""
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
    "maxout in bfloat16": (
        gates._maxout,
        (*numbers(bits(2 * UNITS)), bits(2 * UNITS), *PAIR[1:]),
    ),
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
    "attention gates": (
        sentence_gates._attentive_gates,
        (rows(UNITS + 2 * HIDDEN), SUMS, *FAMILY, STATE, STATE, STATE),
    ),
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
    """Return what a loop is compiled to for arguments of these types."""
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
