"""What the compiled loops of phrasescore.scoring are made of."""

import re
from typing import Any

import numba
import numpy as np
import pytest
import torch

from phrasescore.models.vector_math import EXACT
from phrasescore.scoring import attention_gates, encoder_steps, gates, lstm_gates

HIDDEN, UNITS, WORDS, ROWS = 48, 32, 7, 5
PLACES = np.zeros(ROWS, np.int64)


def rows(width: int, count: int = ROWS) -> np.ndarray:
    return np.zeros((count, width), np.float32)


STATE, TABLE = rows(HIDDEN), rows(3 * HIDDEN, WORDS)
BITS = np.zeros((ROWS, 3 * HIDDEN), np.uint16)
PRODUCTS = rows(3 * HIDDEN)
STEP = (PLACES, PRODUCTS, PLACES, TABLE, PLACES, STATE, PLACES, STATE)
JOIN = (rows(2 * HIDDEN), rows(1, HIDDEN)[:, 0], rows(6), rows(1, 6)[:, 0])
LSTM = (rows(4 * HIDDEN), PLACES, rows(4 * HIDDEN), PLACES, rows(1, 4 * HIDDEN)[:, 0])
SUMS, FAMILY = rows(3 * HIDDEN + 2 * UNITS), (PLACES, TABLE, PLACES)
LOOPS: dict[str, tuple[Any, tuple[np.ndarray, ...]]] = {
    "decoder step": (gates._decoder_step, (PRODUCTS, *STEP)),
    "decoder step in bfloat16": (
        gates._decoder_step,
        (BITS, PLACES, BITS, PLACES, BITS, *STEP[4:]),
    ),
    "maxout": (
        gates._maxout,
        (rows(2 * UNITS), rows(2 * UNITS), PLACES, rows(2 * UNITS), PLACES, rows(UNITS)),
    ),
    "encoder gates": (
        gates._encoder_gates,
        (rows(2 * HIDDEN), TABLE, PLACES, STATE, PLACES, STATE, STATE),
    ),
    "encoder blend": (gates._encoder_blend, (STATE, TABLE, PLACES, STATE, PLACES, STATE, STATE)),
    "LSTM": (lstm_gates._lstm_cell, (*LSTM, STATE, PLACES, STATE, STATE)),
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
    assert re.search(r"v(add|mul|max)ps\s.*%[yz]mm", assembly)  # it is made of vectors
    assert not re.search(r"\s(v\w*gather|vpinsr)", assembly)
