"""Sort more rows of numbers than fit in memory: sorted runs on disk, merged in buckets.

A bucket has all rows between two keys. The keys are chosen among the rows such that buckets have
about the same size. Buckets are independent, so threads can merge several at the same time.
"""

import os
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from phrasescore.io.output import writing

Rows = npt.NDArray[Any]

# Parts of runs, as the first row in the file and the row after the last one.
Bucket = list[tuple[int, int]]

# Number of rows that are read at a time.
CHUNK_ROWS = 1 << 15
# Each bucket's border is chosen among this many of its rows.
_SAMPLES_PER_BUCKET = 64


class RowFile:
    """Rows in an anonymous temporary file, which disappears with this object or the process.

    :param columns: number of columns of a row.
    :param folder: the folder that has room for the file; None for the system's default.
    """

    def __init__(
        self, columns: int, kind: type[np.unsignedinteger[Any]], folder: Path | None = None
    ) -> None:
        self._columns, self._kind = columns, kind
        self._row_size = columns * np.dtype(kind).itemsize
        self._folder = folder or tempfile.gettempdir()
        with writing(self._folder):
            self._file = tempfile.TemporaryFile(buffering=0, dir=folder)  # noqa: SIM115
        self.close = weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()
        self.num_rows = 0

    def append(self, rows: Rows) -> int:
        """Write rows at the end; return the place of the first one. Threads may do this at once."""
        with self._lock:
            first = self.num_rows
            self.num_rows += len(rows)
        data, offset = _bytes_of(np.ascontiguousarray(rows)), first * self._row_size
        with writing(self._folder):
            while data:
                count = os.pwrite(self._file.fileno(), data, offset)
                data, offset = data[count:], offset + count
        return first

    def read(self, *spans: tuple[int, int]) -> Rows:
        """Return the rows from each first place up to, but not including, the second."""
        rows = np.empty((sum(end - begin for begin, end in spans), self._columns), self._kind)
        data = _bytes_of(rows)
        for begin, end in spans:
            offset, after = begin * self._row_size, end * self._row_size
            while offset < after:  # one call reads at most 2 GiB
                count = os.preadv(self._file.fileno(), [data[: after - offset]], offset)
                data, offset = data[count:], offset + count
        return rows

    def parts(self) -> Iterator[Rows]:
        """Yield all rows in parts; nothing may be appended meanwhile."""
        for first in range(0, self.num_rows, CHUNK_ROWS):
            yield self.read((first, min(first + CHUNK_ROWS, self.num_rows)))


class SortedRun(NamedTuple):
    """Where a run is in the file, and some of its rows."""

    first: int
    after: int
    samples: npt.NDArray[Any]  # some of the rows, as bytes


class SortedRuns:
    """Sorted runs of rows in a file.

    :param key_columns: number of leading columns that are equal only within a bucket.
    :param bucket_rows: approximate number of rows of a bucket.
    """

    def __init__(
        self,
        columns: int,
        kind: type[np.unsignedinteger[Any]],
        key_columns: int,
        bucket_rows: int,
        folder: Path | None = None,
    ) -> None:
        self._file = RowFile(columns, kind, folder)
        self._key_size = key_columns * np.dtype(kind).itemsize
        self._step = max(1, bucket_rows // _SAMPLES_PER_BUCKET)
        self._runs: list[SortedRun] = []

    @property
    def num_rows(self) -> int:
        """Number of rows in all runs."""
        return self._file.num_rows

    def add(self, rows: Rows) -> None:
        """Write sorted rows as a run; threads may do this at the same time."""
        rows = rows.byteswap()
        first = self._file.append(rows)
        samples = as_bytes(rows)[self._step // 2 :: self._step].copy()
        self._runs.append(SortedRun(first, first + len(rows), samples))

    def buckets(self) -> list[Bucket]:
        """Return the parts of the runs that belong to each bucket."""
        if not self.num_rows:
            return []
        samples = np.sort(np.concatenate([run.samples for run in self._runs]))
        # Only the key counts, so that rows with the same key stay together.
        borders = samples[_SAMPLES_PER_BUCKET::_SAMPLES_PER_BUCKET].copy()
        borders.view(np.uint8).reshape(-1, borders.itemsize)[:, self._key_size :] = 0
        borders = np.unique(borders)
        buckets: list[Bucket] = [[] for _ in range(len(borders) + 1)]
        for run in self._runs:
            # A memory map would keep much of the runs in the memory of this process.
            rows = as_bytes(self._file.read((run.first, run.after)))
            cuts = [0, *np.searchsorted(rows, borders).tolist(), len(rows)]
            for bucket, begin, end in zip(buckets, cuts[:-1], cuts[1:], strict=True):
                if begin < end:
                    bucket.append((run.first + begin, run.first + end))
        return buckets

    def merge(self, bucket: Bucket) -> Rows:
        """Return the rows in a bucket in order; rows with equal keys are sorted by the rest."""
        rows = self._file.read(*bucket)
        sort_bytes(rows)
        return rows

    def remove(self) -> None:
        """Remove all runs."""
        self._file.close()


def _bytes_of(rows: Rows) -> memoryview:
    return rows.reshape(-1).view(np.uint8).data


def sort_bytes(rows: Rows) -> None:
    """Sort byte-swapped rows in place, and swap their bytes."""
    # As bytes they are compared by memcmp. Parts that are sorted already are merged by timsort.
    as_bytes(rows).sort(kind="stable")
    rows.byteswap(inplace=True)


def as_bytes(rows: Rows) -> npt.NDArray[Any]:
    """Return byte-swapped rows as strings of bytes."""
    return rows.view(f"S{rows.itemsize * rows.shape[1]}").reshape(-1)
