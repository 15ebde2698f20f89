"""A memo of the contexts that a language model has computed, for a search that repeats them.

A search extends a hypothesis by phrases of several lengths, whose hypotheses lie in several stacks.
The same context therefore comes back in call after call.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.io.kernel_cache import kept_njit

# Upper limit for the bytes of the rows.
_BYTES = 1 << 26
# Mixes the bits of a context (the constants of splitmix64, Steele et al., 2014).
_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)

_KERNEL = kept_njit()


class ContextMemo:
    """Maps a context to the row that the softmax reads and to log Z; emptied when it is full.

    It is for one thread at a time. The operating system provides memory only as rows are written.

    :param capacity: maximum number of contexts; None for as many as take 64 MB.
    """

    def __init__(
        self, words: int, width: int, device: torch.device, capacity: int | None = None
    ) -> None:
        self.capacity = capacity or max(1, _BYTES // (4 * width))
        self._contexts = np.empty((self.capacity, words), np.int32)
        self._slots = np.full(1 << (2 * self.capacity).bit_length(), -1, np.int32)
        self._count = 0
        self._rows = torch.empty(self.capacity, width, device=device)
        self._normalizers = torch.empty(self.capacity, dtype=torch.float64, device=device)

    def find(
        self,
        contexts: NDArray[np.int32],
        compute: Callable[[NDArray[np.int64]], tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, Tensor, NDArray[np.int64]]:
        """Return rows, log Z, and the index of each context among them.

        :param contexts: ``(n, words)`` ids; ``n`` is at most the capacity.
        :param compute: returns the rows and log Z of new contexts; each is passed once.
        """
        if self._count + len(contexts) > self.capacity:
            self._slots.fill(-1)
            self._count = 0
        known = self._count
        indices = np.empty(len(contexts), np.int64)
        self._count = _find(contexts, self._contexts, self._slots, known, indices)
        if self._count > known:
            part = slice(known, self._count)
            try:
                new = self._contexts[part].astype(np.int64)
                self._rows[part], self._normalizers[part] = compute(new)
            except BaseException:
                # Do not let later calls find contexts whose rows are missing.
                self._slots.fill(-1)
                self._count = 0
                raise
        return self._rows[: self._count], self._normalizers[: self._count], indices


@_KERNEL
def _find(contexts: Any, kept: Any, slots: Any, count: int, indices: Any) -> int:
    """Write the index of each context, append the new ones, and return the new count."""
    mask = np.uint64(len(slots) - 1)
    for row in range(len(contexts)):
        mixed = _GOLDEN
        for column in range(contexts.shape[1]):
            mixed = (mixed ^ np.uint64(contexts[row, column] + 1)) * _FACTOR
            mixed ^= mixed >> _SHIFT
        slot = np.int64(mixed & mask)
        while True:
            index = slots[slot]
            if index < 0:
                index = count
                slots[slot] = index
                kept[index] = contexts[row]
                count += 1
                break
            same = True
            for column in range(contexts.shape[1]):
                if kept[index, column] != contexts[row, column]:
                    same = False
                    break
            if same:
                break
            slot = np.int64(np.uint64(slot + 1) & mask)
        indices[row] = index
    return count
