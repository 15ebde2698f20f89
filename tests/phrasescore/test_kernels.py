"""What the compiled loops of phrasescore.scoring are made of."""

import re
from typing import Any

import numba
import numpy as np
import pytest
import torch

from phrasescore.models.vector_math import EXACT
from phrasescore.scoring import attention_gates, encoder_steps, gates, integers, lstm_gates

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
    "LSTM": (lstm_gates._lstm_cell, (*LSTM, *PARENT, STATE, STATE)),
    "attention gates": (
        attention_gates._gates,
        (rows(UNITS + 2 * HIDDEN), SUMS, *FAMILY, STATE, STATE, STATE),
    ),
    "attention blend": (attention_gates._blend, (STATE, SUMS, *FAMILY, STATE, STATE, STATE)),
    "attention maxout": (
        attention_gates._maxout,
        (rows(2 * UNITS), SUMS, PLACES, rows(2 * UNITS, WORDS), PLACES, rows(UNITS)),
    ),
    "grConv": (encoder_steps._join_cells, (*JOIN, STATE, PLACES, PLACES, STATE)),
}


@pytest.mark.skipif(
    not torch.backends.cpu.get_cpu_capability().startswith("AVX"), reason="of x86 instructions"
)
@pytest.mark.parametrize("name", LOOPS)
def test_loops_read_vectors_and_gather_nothing(name: str) -> None:
    loop, arguments = LOOPS[name]
    # A loop from numba's cache does not tell its instructions.
    compiled = numba.njit(error_model="numpy", fastmath=EXACT)(loop.py_func)
    compiled(*arguments)
    (assembly,) = compiled.inspect_asm().values()
    assert re.search(r"v(add|mul|max|fmadd\w*)ps\s.*%[yz]mm", assembly)  # it is made of vectors
    if loop is integers._round_rows:
        assert re.search(r"vp(max|cmp)\w+\s.*%[yz]mm", assembly)
    assert not re.search(r"\s(v\w*gather|vpinsr)", assembly)
