"""Sort more rows of numbers than fit in memory: sorted runs on the disk, which are merged."""

import io
import tempfile
import weakref
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from phrasescore.io.output import writing
from phrasescore.kernels.ngrams import merge, sorted_indices

# Rows of uint32 numbers: the keys, then the values.
Rows = NDArray[np.uint32]

# Number of bytes that a sorter holds before it writes a run.
BLOCK_BYTES = 1 << 26
# Number of rows that are read at a time.
_CHUNK_ROWS = 1 << 15


class RowFile:
    """Rows in an anonymous temporary file, which disappears with this object or the process.

    :param width: number of columns.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._folder = tempfile.gettempdir()
        with writing(self._folder):
            self._file: io.FileIO = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self.num_rows = 0

    def append(self, rows: Rows) -> None:
        """Write rows at the end of the file."""
        data = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
        with writing(self._folder):
            while data:
                data = data[self._file.write(data) :]
        self.num_rows += len(rows)

    def read(self, start: int = 0, end: int | None = None) -> Iterator[Rows]:
        """Yield the rows from ``start`` to ``end`` in parts; nothing may be appended meanwhile."""
        end = self.num_rows if end is None else end
        for first in range(start, end, _CHUNK_ROWS):
            rows = np.empty((min(_CHUNK_ROWS, end - first), self._width), np.uint32)
            self._file.seek(4 * self._width * first)
            self._file.readinto(rows.data.cast("B"))
            yield rows


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
        self._file: RowFile | None = None
        self._ends = [0]

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
        if self._file is None:
            self._file = RowFile(self._width)
        self._file.append(self._take_waiting())
        self._ends.append(self._file.num_rows)

    def sorted(self) -> Iterator[Rows]:
        """Return all rows in order, in parts. They can be read once."""
        if self._file is None:
            rows = self._take_waiting()
            starts = range(0, len(rows), _CHUNK_ROWS)
            return (rows[start : start + _CHUNK_ROWS] for start in starts)
        self._write_run()
        file, self._file = self._file, None
        runs = [file.read(*ends) for ends in zip(self._ends, self._ends[1:], strict=False)]
        while len(runs) > 1:
            pairs = zip(runs[::2], runs[1::2], strict=False)
            runs = [self._merged(*pair) for pair in pairs] + runs[len(runs) & ~1 :]
        return runs[0]

    def _merged(self, left: Iterator[Rows], right: Iterator[Rows]) -> Iterator[Rows]:
        parts: list[Rows | None] = [next(left, None), next(right, None)]
        i = j = 0
        while (one := parts[0]) is not None and (other := parts[1]) is not None:
            merged = np.empty((len(one) - i + len(other) - j, self._width), np.uint32)
            i, j, count = merge(one, i, other, j, self._keys, merged)
            yield merged[:count]
            if i == len(one):
                parts[0], i = next(left, None), 0
            if j == len(other):
                parts[1], j = next(right, None), 0
        for part, start, rest in zip(parts, (i, j), (left, right), strict=True):
            if part is not None:
                yield part[start:]
                yield from rest
