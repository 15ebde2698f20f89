"""Extract phrase pairs and their orientations into rows, as Moses' extract does, in compiled code.

A phrase pair is consistent with the alignment if no word in it is aligned to a word outside, and at
least one link is inside (Och and Ney, 2004). Unaligned words at its borders are optional.

A row of 64-bit numbers sorts as Moses' text does. It has, in this order, the ranks of the source
words, the ranks of the target words, the word alignment as one bit per cell, and one number with
both orientations above a count. A phrase shorter than the longest one ends with the rank of
``|||``, so that rows have the order of the lines ``source ||| target ||| …`` under
``LC_ALL=C sort``.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from moses_integration.building.corpus import SentenceBlock, Side
from phrasescore.io.kernel_cache import kept_njit
from phrasescore.io.sorted_rows import sort_bytes

KERNEL = kept_njit()

Rows = npt.NDArray[np.uint64]

# An orientation is a number below 8; both are above the count.
COUNT_BITS = 48
_COUNT_MASK = np.uint64((1 << COUNT_BITS) - 1)
_BITS = 64

# The lexicalised reordering model: the order of words is of three classes, monotone, swapped or
# discontinuous, to the previous and to the next phrase.
REORDERING = "wbe-msd-bidirectional-fe"

# Orientations to the neighbours; all that are neither of the first two are discontinuous.
MONOTONE, SWAP, OTHER = range(3)


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


def extract_rows(block: SentenceBlock, layout: RowLayout) -> Rows:
    """Return one row for each phrase pair in a block of sentences, unsorted."""
    arrays = tuple(vars(block).values())
    packing = (tuple(layout.source), tuple(layout.target), layout.links)
    empty: Any = np.empty((0, layout.columns), np.uint64)
    count = _extract(arrays, packing, empty)
    rows = np.empty((count, layout.columns), np.uint64)
    _extract(arrays, packing, rows)
    return rows


@KERNEL
def _extract(arrays, packing, rows):  # type: ignore[no-untyped-def]
    """Fill the rows of phrase pairs as far as there is room; return the number of pairs."""
    source, source_starts, target, target_starts, links, link_starts = arrays
    source_packing, target_packing, link_column = packing
    length = source_packing[4]
    phrases = np.empty((1000, 4), np.int64)
    at = 0
    for sentence in range(len(source_starts) - 1):
        source_start, target_start = source_starts[sentence], target_starts[sentence]
        num_sources = source_starts[sentence + 1] - source_start
        num_targets = target_starts[sentence + 1] - target_start
        inside = links[link_starts[sentence] : link_starts[sentence + 1]]
        spans = _find_spans(inside, num_sources, num_targets)
        count = _find_phrases(spans, length, phrases)
        if len(rows) == 0:
            at += count
            continue
        if count > len(phrases):
            phrases = np.empty((count, 4), np.int64)
            _find_phrases(spans, length, phrases)
        linked = _mark_links(inside, num_sources, num_targets)
        for found in range(count):
            start, end, source_begin, source_end = phrases[found]
            row = rows[at]
            first, last = source_start + source_begin, source_start + source_end
            put_phrase(row, source_packing, source, first, last + 1)
            first, last = target_start + start, target_start + end
            put_phrase(row, target_packing, target, first, last + 1)
            for column in range(link_column, len(row)):
                row[column] = 0
            for word in range(start, end + 1):
                for other in range(source_begin, source_end + 1):
                    if linked[word + 1, other + 1]:
                        bit = (word - start) * length + other - source_begin
                        column = link_column + bit // 64
                        row[column] |= np.uint64(1) << np.uint64(bit % 64)
            previous = _orient(linked, start - 1, source_begin - 1, source_end + 1)
            following = _orient(linked, end + 1, source_end + 1, source_begin - 1)
            orientations = np.uint64(8 * previous + following)
            row[len(row) - 1] = orientations << np.uint64(COUNT_BITS) | np.uint64(1)
            at += 1
    return at


@KERNEL
def _find_spans(links, num_sources, num_targets):  # type: ignore[no-untyped-def]
    """Return the first and last linked word of each target and each source word; -1 for none."""
    target_spans = np.full((num_targets, 2), -1)
    source_spans = np.full((num_sources, 2), -1)
    for index in range(len(links)):
        source, target = links[index, 0], links[index, 1]
        for spans, word, other in ((target_spans, target, source), (source_spans, source, target)):
            if spans[word, 0] < 0 or other < spans[word, 0]:
                spans[word, 0] = other
            spans[word, 1] = max(spans[word, 1], other)
    return target_spans, source_spans


# It is no generator, because a generator of numba never releases its arguments.
@KERNEL
def _find_phrases(spans, longest, phrases):  # type: ignore[no-untyped-def]
    """Write the first and last target and source words of phrase pairs as far as there is room.

    :return: the number of phrase pairs.
    """
    target_spans, source_spans = spans
    num_targets, num_sources = len(target_spans), len(source_spans)
    count = 0
    for start in range(num_targets):
        low, high = num_sources, -1
        for end in range(start, min(num_targets, start + longest)):
            if target_spans[end, 1] >= 0:
                low, high = min(low, target_spans[end, 0]), max(high, target_spans[end, 1])
            if high < 0:
                continue
            if high - low >= longest:
                break
            is_consistent = True
            for word in range(low, high + 1):
                first, last = source_spans[word, 0], source_spans[word, 1]
                if last >= 0 and (first < start or last > end):
                    is_consistent = False
                    break
            if not is_consistent:
                continue
            source_begin = low
            while (
                source_begin >= 0
                and source_begin > high - longest
                and (source_begin == low or source_spans[source_begin, 1] < 0)
            ):
                source_end = high
                while (
                    source_end < num_sources
                    and source_end < source_begin + longest
                    and (source_end == high or source_spans[source_end, 1] < 0)
                ):
                    if count < len(phrases):
                        found = phrases[count]
                        found[0], found[1] = start, end
                        found[2], found[3] = source_begin, source_end
                    count += 1
                    source_end += 1
                source_begin -= 1
    return count


@KERNEL
def _mark_links(links, num_sources, num_targets):  # type: ignore[no-untyped-def]
    """Return the alignment as a matrix, framed by words whose corners are linked."""
    linked = np.zeros((num_targets + 2, num_sources + 2), np.bool_)
    for index in range(len(links)):
        linked[links[index, 1] + 1, links[index, 0] + 1] = True
    linked[0, 0] = linked[num_targets + 1, num_sources + 1] = True
    return linked


@KERNEL
def _orient(linked, target, monotone, swapped):  # type: ignore[no-untyped-def]
    """Return the orientation of a phrase to its neighbour.

    :param target: the target word beside the phrase.
    :param monotone: the source word beside the phrase if the order is monotone; ``swapped`` for the
        other side.
    """
    is_monotone = linked[target + 1, monotone + 1]
    is_swapped = linked[target + 1, swapped + 1]
    if is_monotone and not is_swapped:
        return MONOTONE
    if is_swapped and not is_monotone:
        return SWAP
    return OTHER
