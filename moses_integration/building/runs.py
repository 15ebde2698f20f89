"""Sort more rows than fit in memory: sorted runs on disk, merged in buckets.

A bucket has all rows between two keys. The keys are chosen among the rows such that buckets have
about the same size. Buckets are independent, so threads can merge several at the same time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np

from moses_integration.building.rows import Rows, as_bytes, sort_rows
from phrasescore.io.output import writing

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Parts of runs, as a path, the first row and the row after the last one.
Bucket = list[tuple[Path, int, int]]

# Each bucket's border is chosen among this many of its rows.
_SAMPLES_PER_BUCKET = 64


class Runs:
    """Sorted runs of rows in a folder.

    :param columns: number of columns of a row.
    :param key_columns: number of leading columns that are equal only within a bucket.
    """

    def __init__(self, folder: Path, name: str, columns: int, key_columns: int) -> None:
        self._folder, self._name = folder, name
        self._columns, self._key_columns = columns, key_columns
        self._paths: list[Path] = []
        self.num_rows = 0

    def write(self, number: int, rows: Rows) -> tuple[Path, int]:
        """Sort rows and write them as a run, to be added with `add`; threads may do this."""
        rows = sort_rows(rows)
        path = self._folder / f"{self._name}.{number}"
        with writing(path), open(path, "wb") as file:
            file.write(rows.byteswap().data)
        return path, len(rows)

    def add(self, path: Path, num_rows: int) -> None:
        """Add a run that is complete."""
        if num_rows:
            self._paths.append(path)
        self.num_rows += num_rows

    def buckets(self, size: int) -> list[Bucket]:
        """Return the parts of the runs that belong to each bucket of about ``size`` rows."""
        if not self._paths:
            return []
        shape = (-1, self._columns)
        runs = [as_bytes(np.memmap(path, np.uint64, "r").reshape(shape)) for path in self._paths]
        step = max(1, size // _SAMPLES_PER_BUCKET)
        samples = np.sort(np.concatenate([run[step // 2 :: step] for run in runs]))
        # Only the key counts, so that rows with the same key stay together.
        borders = samples[_SAMPLES_PER_BUCKET::_SAMPLES_PER_BUCKET].copy()
        borders.view(np.uint8).reshape(len(borders), -1)[:, 8 * self._key_columns :] = 0
        borders = np.unique(borders)
        cuts = [[0, *np.searchsorted(run, borders).tolist(), len(run)] for run in runs]
        return [
            [
                (path, cut[bucket], cut[bucket + 1])
                for path, cut in zip(self._paths, cuts, strict=True)
                if cut[bucket] < cut[bucket + 1]
            ]
            for bucket in range(len(borders) + 1)
        ]

    def merge(self, bucket: Bucket) -> Rows:
        """Return the sorted rows in a bucket, in which equal rows are joined."""
        rows = np.empty((sum(end - begin for _, begin, end in bucket), self._columns), np.uint64)
        at = 0
        for path, begin, end in bucket:
            # A memory map would keep all that was read in the memory of this process.
            with open(path, "rb") as file:
                file.seek(begin * rows.itemsize * self._columns)
                file.readinto(rows[at : at + end - begin].data)
            at += end - begin
        rows.byteswap(inplace=True)
        return sort_rows(rows)

    def remove(self) -> None:
        """Remove all runs."""
        for path in self._paths:
            path.unlink()


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
