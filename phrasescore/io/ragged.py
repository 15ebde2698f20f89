"""Rows of different lengths in one flat array, in memory or memory-mapped from a file."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from phrasescore.io.plain_file import MAX_ARRAYS, check_plain

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]

_COUNTED = 1 << 20  # values that are counted together


@dataclass(frozen=True, slots=True)
class RaggedArray:
    """Rows of different lengths: row i is ``values[starts[i]:starts[i + 1]]``.

    >>> rows = RaggedArray.from_lengths(np.array([7, 8, 9, 5]), np.array([3, 0, 1]))
    >>> rows.take(np.array([2, 0])).values
    array([5, 7, 8, 9])
    """

    values: Array
    starts: Indices  # (rows + 1,)

    @classmethod
    def from_lengths(cls, values: Array, lengths: Array) -> "RaggedArray":
        """Return an array whose rows follow one another in ``values``."""
        starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        return cls(values, starts)

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]]) -> "RaggedArray":
        """Return rows of 64-bit integers."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        values = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
        return cls.from_lengths(values, lengths)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Indices:
        """The length of each row."""
        return np.diff(self.starts)

    def lengths_of(self, rows: Indices) -> Indices:
        """Return the lengths of the selected rows."""
        lengths: Indices = self.starts[rows + 1] - self.starts[rows]
        return lengths

    def positions(self, rows: Indices) -> "RaggedArray":
        """Return the indices in `values` of the selected rows, in that order."""
        lengths = self.lengths_of(rows)
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        positions = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return RaggedArray(positions, starts)

    def take(self, rows: Indices) -> "RaggedArray":
        """Return a copy of the rows at the given indices, in that order; a row may be repeated."""
        positions = self.positions(rows)
        return RaggedArray(self.values[positions.values], positions.starts)

    def count(self, size: int) -> Array:
        """Return how often each value below ``size`` occurs, ``(size,)``."""
        counts = np.zeros(size, np.int64)
        # bincount copies its input.
        for first in range(0, len(self.values), _COUNTED):
            counts += np.bincount(self.values[first : first + _COUNTED], minlength=size)
        return counts

    def reversed(self) -> "RaggedArray":
        """Return rows in the same order, with the values of each row reversed."""
        # Position p of a row from s to e has the value of position s + e - p.
        mirrors = np.repeat(self.starts[:-1] + self.starts[1:] - 1, self.lengths)
        return RaggedArray(self.values[mirrors - np.arange(len(mirrors))], self.starts)

    def expand(self, pieces: "RaggedArray") -> "RaggedArray":
        """Replace each value v by row v of ``pieces``, which is not empty."""
        if len(pieces.values) == len(pieces):  # one piece each
            return RaggedArray(pieces.values[self.values], self.starts)
        split = pieces.take(self.values)
        return RaggedArray(split.values, split.starts[self.starts])

    def owners(self) -> Indices:
        """Return the row index of each value."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))


class RaggedBuilder:
    """Collects rows of integers below 2^31, without a Python object per row."""

    def __init__(self) -> None:
        self._values, self._lengths = array("i"), array("i")

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, row: Sequence[int]) -> int:
        """Add a row; return its index."""
        self._values.extend(row)
        self._lengths.append(len(row))
        return len(self) - 1

    def build(self) -> RaggedArray:
        """Return the rows that were added."""
        return RaggedArray.from_lengths(np.array(self._values, np.int32), np.array(self._lengths))


def map_array(path: Path, kind: Any) -> Array:
    """Memory-map a file of numbers for reading."""
    check_plain(path, MAX_ARRAYS)
    if path.stat().st_size == 0:  # which cannot be mapped
        return np.zeros(0, kind)
    # A plain array over the map: indexing a numpy.memmap makes Python objects at every step.
    return np.asarray(np.memmap(path, kind, mode="r"))
