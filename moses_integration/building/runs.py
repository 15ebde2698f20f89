"""Sort more rows than fit in memory: sorted runs on disk, merged in buckets.

A bucket has all rows between two keys. The keys are chosen among the rows such that buckets have
about the same size. Buckets are independent, so threads can merge several at the same time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from moses_integration.building.rows import Rows, as_bytes, sort_rows
from phrasescore.io.output import writing

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Parts of runs, as a path, the first row and the row after the last one.
Bucket = list[tuple[Path, int, int]]

# Each bucket's border is chosen among this many of its rows.
_SAMPLES_PER_BUCKET = 64


class SortedRun(NamedTuple):
    """Sorted rows on disk, and some of them as bytes."""

    path: Path
    num_rows: int
    samples: npt.NDArray[Any]


class SortedRuns:
    """Sorted runs of rows in a folder.

    :param columns: number of columns of a row.
    :param key_columns: number of leading columns that are equal only within a bucket.
    :param bucket_rows: approximate number of rows of a bucket.
    """

    def __init__(
        self, folder: Path, name: str, columns: int, key_columns: int, bucket_rows: int
    ) -> None:
        self._folder, self._name = folder, name
        self._columns, self._key_columns = columns, key_columns
        self._step = max(1, bucket_rows // _SAMPLES_PER_BUCKET)
        self._runs: list[SortedRun] = []

    @property
    def num_rows(self) -> int:
        """Number of rows in all runs."""
        return sum(run.num_rows for run in self._runs)

    def write(self, number: int, rows: Rows) -> SortedRun:
        """Sort rows and write them as a run, to be added with `add`; threads may do this."""
        rows = sort_rows(rows).byteswap()
        path = self._folder / f"{self._name}.{number}"
        with writing(path), open(path, "wb") as file:
            file.write(rows.data)
        return SortedRun(path, len(rows), as_bytes(rows)[self._step // 2 :: self._step].copy())

    def add(self, run: SortedRun) -> None:
        """Add a run that is complete."""
        if run.num_rows:
            self._runs.append(run)
        else:
            run.path.unlink()

    def buckets(self) -> list[Bucket]:
        """Return the parts of the runs that belong to each bucket."""
        if not self._runs:
            return []
        samples = np.sort(np.concatenate([run.samples for run in self._runs]))
        # Only the key counts, so that rows with the same key stay together.
        borders = samples[_SAMPLES_PER_BUCKET::_SAMPLES_PER_BUCKET].copy()
        borders.view(np.uint8).reshape(-1, 8 * self._columns)[:, 8 * self._key_columns :] = 0
        borders = np.unique(borders)
        buckets: list[Bucket] = [[] for _ in range(len(borders) + 1)]
        for run in self._runs:
            # A memory map would keep much of the runs in the memory of this process.
            rows = as_bytes(np.fromfile(run.path, np.uint64).reshape(-1, self._columns))
            cuts = [0, *np.searchsorted(rows, borders).tolist(), run.num_rows]
            for bucket, begin, end in zip(buckets, cuts[:-1], cuts[1:], strict=True):
                if begin < end:
                    bucket.append((run.path, begin, end))
        return buckets

    def merge(self, bucket: Bucket) -> Rows:
        """Return the sorted rows in a bucket, in which equal rows are joined."""
        rows = np.empty((sum(end - begin for _, begin, end in bucket), self._columns), np.uint64)
        at = 0
        for path, begin, end in bucket:
            with open(path, "rb") as file:
                file.seek(begin * rows.itemsize * self._columns)
                file.readinto(rows[at : at + end - begin].data)
            at += end - begin
        rows.byteswap(inplace=True)
        return sort_rows(rows)

    def remove(self) -> None:
        """Remove all runs."""
        for run in self._runs:
            run.path.unlink()


def in_order(
    threads: ThreadPoolExecutor,
    workers: int,
    work: Callable[[_Item], _Result],
    items: Iterable[_Item],
) -> Iterator[_Result]:
    """Yield the results of work in threads in the order of the items."""
    waiting: deque[Future[_Result]] = deque()
    for item in items:
        waiting.append(threads.submit(work, item))
        if len(waiting) > workers:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
