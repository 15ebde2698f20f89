"""Sort rows of keys and values; what does not fit in memory is sorted on the disk."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from phrasescore.io.sorted_rows import CHUNK_ROWS, SortedRuns
from phrasescore.kernels.ngrams import sorted_indices

# Rows of uint32 numbers: the keys, then the values.
Rows = NDArray[np.uint32]

# Number of bytes that a sorter holds before it writes a run.
BLOCK_BYTES = 1 << 26


class RowSorter:
    """Sorts rows by their keys.

    :param num_keys: number of columns that are compared.
    :param unsorted_keys: number of first columns by which rows have to be sorted. Rows with equal
        values in these columns are added in order.
    """

    def __init__(
        self, num_keys: int, num_values: int, *, unsorted_keys: int, block_bytes: int = BLOCK_BYTES
    ) -> None:
        self._keys, self._unsorted_keys = num_keys, unsorted_keys
        self._width = num_keys + num_values
        self._most = max(1, block_bytes // (4 * self._width))
        self._waiting: list[Rows] = []
        self._num_waiting = 0
        self._runs: SortedRuns | None = None

    def add(self, rows: Rows) -> None:
        """Add rows, which must not be changed afterwards."""
        for first in range(0, len(rows), self._most):
            part = rows[first : first + self._most]
            if self._num_waiting + len(part) > self._most:
                self._write_run()
            self._waiting.append(part)
            self._num_waiting += len(part)

    def _take_waiting(self) -> Rows:
        rows = np.concatenate([np.empty((0, self._width), np.uint32), *self._waiting])
        self._waiting, self._num_waiting = [], 0
        num_ids = int(rows[:, : self._unsorted_keys].max(initial=0)) + 1
        indices = sorted_indices(rows, self._unsorted_keys, num_ids)
        in_order: Rows = np.take(rows, indices, axis=0)  # faster than rows[indices]
        return in_order

    def _write_run(self) -> None:
        if self._runs is None:
            self._runs = SortedRuns(self._width, np.uint32, self._keys, self._most)
        self._runs.add(self._take_waiting())

    def sorted(self) -> Iterator[Rows]:
        """Return all rows in order, in parts. They can be read once."""
        parts: Iterable[Rows] = ()
        if self._runs is None:
            parts = [self._take_waiting()]
        else:
            self._write_run()
            parts = map(self._runs.merge, self._runs.buckets())
        return (
            rows[first : first + CHUNK_ROWS]
            for rows in parts
            for first in range(0, len(rows), CHUNK_ROWS)
        )
