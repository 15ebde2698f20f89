"""Sum 2^logit over a shortlist without storing the logits.

The products of a tile of rows and words are computed in registers, converted to powers of 2 there,
and added to the rows' sums. Writing and reading the products, and a call per block of words, would
take a fourth of the time for multiplying float32 numbers, and more than half of the time for
multiplying bytes. This needs AVX-512, and for bytes its dot products (VNNI).
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.kernels.avx512.word_tiles import (
    GROUP,
    LIFT,
    TILE_ROWS,
    TILE_WORDS,
    sums_of_bytes,
    sums_of_numbers,
)
from phrasescore.kernels.precision import Factor, Precision, Workspace, is_fused

# Number of rows per pass, which bounds the memory.
ROWS = 1024
# Minimum number of multiplications for each additional thread.
_PRODUCTS = 1 << 28
# Base-2 bias of padding words: 2^-120, negligible but not denormal.
_PADDING_BIAS = np.float32(-120)


class PackedWords:
    """The weights of all words in a shortlist, stored in the order of their multiplication.

    They are float32 numbers, or 8-bit integers with a scale per word; factors are then also rounded
    to integers. Several threads may share an instance.

    :param words: ``(words, width)`` float32.
    :param bias: ``(words,)`` float32.
    :param to_base_2: factor that converts logits to logarithms to base 2.
    :param precision: float32 or int8.
    """

    def __init__(self, words: Tensor, bias: Tensor, to_base_2: float, precision: Precision) -> None:
        self.count, self.width = words.shape
        self._precision = precision
        self._workspace = Workspace(words.device)
        padded_bias = _extend(bias * to_base_2, _PADDING_BIAS)
        self._loop: Any
        # The loop's arguments that describe the words.
        self.arrays: tuple[NDArray[Any], ...]
        if precision.name == "int8":
            rounded = precision.round(words.contiguous())
            assert rounded.scales is not None
            panels = _pack((rounded.values.short() + LIFT).byte().numpy(), GROUP)
            scales = _extend(rounded.scales * to_base_2, np.float32(0))
            self._loop, self.arrays = sums_of_bytes, (panels, scales, padded_bias)
        else:
            panels = _pack((words * to_base_2).numpy(), 1)
            self._loop, self.arrays = sums_of_numbers, (panels, padded_bias)

    def sums_of_powers(self, factors: Tensor, out: Tensor) -> Tensor:
        """Write each row's sum of 2^logit over all words into ``out``, and return ``out``.

        A sum that exceeds float32 is infinite, and the sum of a row that is not finite is not
        finite. The bits of a sum do not depend on the other rows.

        :param factors: ``(rows, width)`` float32.
        :param out: ``(rows,)`` float32 or float64.
        :raises ValueError: if the words have a different width.
        """
        for start in range(0, len(factors), ROWS):
            part = slice(start, start + ROWS)
            self._add_up(factors[part], out[part], None)
        return out

    def logits(self, factors: Tensor, out: Tensor) -> Tensor:
        """Return all logits of a few rows, to base 2, ``(rows, words)`` float32.

        The result is valid until this thread's next call.

        :param out: receives the sums, with the same bits as from :meth:`sums_of_powers`.
        """
        kept = self._workspace.take("logits", _padded(len(factors)), len(self.arrays[-1]))
        self._add_up(factors, out, kept)
        return kept[: len(factors), : self.count]

    def _add_up(self, factors: Tensor, out: Tensor, kept: Tensor | None) -> None:
        """Write sums into ``out``, and padded logits into ``kept`` unless it is None."""
        # With another width, the loops would read outside the arrays.
        if factors.shape[1] != self.width:
            raise ValueError(
                f"expected factors as wide as words, got {factors.shape[1]} and {self.width}"
            )
        rows = [part.numpy() for part in self._pad_rows(factors)]
        sums, logits = out.numpy(), None if kept is None else kept.numpy()

        def add_up(part: slice) -> None:
            first = part.start
            above = None if logits is None else logits[first:]
            self._loop(*(array[first:] for array in rows), *self.arrays, sums[part], above)

        # Each of torch's threads gets a part of the rows.
        count, threads = len(factors), torch.get_num_threads()
        if threads == 1 or count * self.count * self.width < _PRODUCTS:
            add_up(slice(0, count))
            return
        size = -(-count // (threads * TILE_ROWS)) * TILE_ROWS
        parts = [slice(start, min(start + size, count)) for start in range(0, count, size)]
        with ThreadPoolExecutor(len(parts)) as pool:
            for _ in pool.map(add_up, parts):
                pass

    def _pad_rows(self, factors: Tensor) -> tuple[Tensor, ...]:
        count = _padded(len(factors))
        if self._precision.name == "float32":
            rows = self._workspace.take("rows", count, self.width)
            rows[: len(factors)] = factors
            return (rows,)
        rows = self._workspace.take("rows", count, self.width, torch.int8)
        units = self._workspace.take("units", 1, count)[0]
        self._precision.round_into(factors, Factor(rows, units))
        return rows, units


def are_fastest(precision: Precision) -> bool:
    """Return whether `PackedWords` is this processor's fastest way to sum powers.

    With matrix units (AMX), other ways of multiplying bytes are faster. Like torch, this function
    respects ``ATEN_CPU_CAPABILITY``.
    """
    if not is_fused(precision) or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    has = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    if precision.name == "int8":
        return bool(has.get("avx512_vnni")) and not has.get("amx_int8")
    return precision.name == "float32"


def _padded(count: int) -> int:
    """Return the number of rows that the loops read for ``count`` real ones."""
    # The last row's last group of bytes may extend beyond it, whatever the width.
    return count + -count % TILE_ROWS + GROUP


def _pack(words: NDArray[Any], group: int) -> NDArray[Any]:
    """Return panels of words, ``(panels, steps, TILE_WORDS, group)``; a loop reads step by step.

    Widths and words are padded with 0, which adds nothing to a product.
    """
    count, width = words.shape
    padded = np.pad(words, [(0, -count % TILE_WORDS), (0, -width % group)])
    steps = padded.reshape(-1, TILE_WORDS, padded.shape[1] // group, group)
    return np.ascontiguousarray(steps.transpose(0, 2, 1, 3))


def _extend(values: Tensor, padding: np.float32) -> NDArray[np.float32]:
    return np.pad(values.numpy(), (0, -len(values) % TILE_WORDS), constant_values=padding)
