"""The layout of an extracted phrase pair: a row of 64-bit numbers that sorts as Moses' text does.

A row has, in this order, the ranks of the source words, the ranks of the target words, the word
alignment as one bit per cell, and one number with both orientations above a count. A phrase shorter
than the longest one ends with the rank of ``|||``, so that rows have the order of the lines
``source ||| target ||| …`` under ``LC_ALL=C sort``.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moses_integration.building.corpus import Side
from phrasescore.io.kernel_cache import drop_stale_kernels, kept_njit
from phrasescore.io.sorted_rows import sort_bytes

drop_stale_kernels(Path(__file__).parent)
KERNEL = kept_njit()

Rows = npt.NDArray[np.uint64]

# An orientation is a number below 8; both are above the count.
COUNT_BITS = 48
_COUNT_MASK = np.uint64((1 << COUNT_BITS) - 1)
_BITS = 64


class Packing(NamedTuple):
    """How a phrase is packed into columns; a tuple, for compiled code."""

    first: int  # the first column
    columns: int
    bits: int  # per word
    per_column: int  # words
    length: int  # of the longest phrase
    end: int  # the rank that ends a shorter phrase


@dataclass(frozen=True)
class RowLayout:
    """The columns of a row."""

    source: Packing
    target: Packing
    links: int  # the first column of the alignment
    columns: int

    @classmethod
    def of(cls, source: Side, target: Side, length: int) -> "RowLayout":
        """Return the layout for phrases of at most ``length`` words."""
        first = _pack(source, 0, length)
        second = _pack(target, first.columns, length)
        links = first.columns + second.columns
        return cls(first, second, links, links - -length * length // _BITS + 1)


def _pack(side: Side, first: int, length: int) -> Packing:
    per_column = _BITS // max(side.bits, 1)
    return Packing(first, -(-length // per_column), side.bits, per_column, length, side.end)


@KERNEL
def put_phrase(row, packing, words, begin, end):  # type: ignore[no-untyped-def]
    """Pack ``words[begin:end]`` into a row."""
    first, columns, bits, per_column, length, separator = packing
    for column in range(first, first + columns):
        row[column] = 0
    for index in range(min(end - begin + 1, length)):
        word = words[begin + index] if begin + index < end else separator
        shift = np.uint64(bits * (per_column - 1 - index % per_column))
        row[first + index // per_column] |= np.uint64(word) << shift


@KERNEL
def get_word(row, packing, index):  # type: ignore[no-untyped-def]
    """Return the word at an index of a phrase, or -1 after its end."""
    first, _, bits, per_column, length, separator = packing
    if index >= length:
        return -1
    shift = np.uint64(bits * (per_column - 1 - index % per_column))
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    word = np.int64((row[first + index // per_column] >> shift) & mask)
    return -1 if word == separator else word


@KERNEL
def has_link(row, links, length, source, target):  # type: ignore[no-untyped-def]
    """Return whether two words of a pair are aligned."""
    bit = target * length + source
    return (row[links + bit // 64] >> np.uint64(bit % 64)) & np.uint64(1) == np.uint64(1)


@KERNEL
def count_of(row):  # type: ignore[no-untyped-def]
    """Return how often a row occurred."""
    return np.int64(row[len(row) - 1] & _COUNT_MASK)


def sort_rows(rows: Rows) -> Rows:
    """Sort rows in place, which are then aggregated (`merge_equal`)."""
    sort_bytes(rows.byteswap(inplace=True))
    return rows[: merge_equal(rows)]


@KERNEL
def merge_equal(rows):  # type: ignore[no-untyped-def]
    """Join sorted rows that differ in their counts only; return how many remain."""
    last = rows.shape[1] - 1
    kept = 0
    for index in range(len(rows)):
        is_new = kept == 0
        if not is_new:
            for column in range(last):
                if rows[index, column] != rows[kept - 1, column]:
                    is_new = True
                    break
        if not is_new:
            kinds = rows[index, last] ^ rows[kept - 1, last]
            is_new = kinds >> np.uint64(COUNT_BITS) != np.uint64(0)
        if is_new:
            rows[kept] = rows[index]
            kept += 1
        else:
            rows[kept - 1, last] += rows[index, last] & _COUNT_MASK
    return kept
