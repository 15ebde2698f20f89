"""Extract phrase pairs and their orientations, as Moses' extract does, in compiled code.

A phrase pair is consistent with the alignment if no word in it is aligned to a word outside, and at
least one link is inside (Och and Ney, 2004). Unaligned words at its borders are optional.
"""

from typing import Any

import numba
import numpy as np

from moses_integration.building.corpus import SentenceBlock
from moses_integration.building.rows import COUNT_BITS, KERNEL, RowLayout, Rows, put_phrase

# The lexicalised reordering model: the order of words is of three classes, monotone, swapped or
# discontinuous, to the previous and to the next phrase.
REORDERING = "wbe-msd-bidirectional-fe"

# Orientations to the neighbours; all that are neither of the first two are discontinuous.
MONOTONE, SWAP, OTHER = range(3)


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
    at = 0
    for sentence in range(len(source_starts) - 1):
        source_start, target_start = source_starts[sentence], target_starts[sentence]
        num_sources = source_starts[sentence + 1] - source_start
        num_targets = target_starts[sentence + 1] - target_start
        inside = links[link_starts[sentence] : link_starts[sentence + 1]]
        spans = _find_spans(inside, num_sources, num_targets)
        if len(rows) == 0:
            for _ in _phrases(spans, length):
                at += 1
            continue
        linked = _mark_links(inside, num_sources, num_targets)
        for start, end, source_begin, source_end in _phrases(spans, length):
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


# Not cached: numba cannot compile a caller of a generator that it loads from the cache.
@numba.njit(nogil=True, error_model="numpy")
def _phrases(spans, longest):  # type: ignore[no-untyped-def]
    """Yield the first and last target and source words of all phrase pairs."""
    target_spans, source_spans = spans
    num_targets, num_sources = len(target_spans), len(source_spans)
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
                    yield start, end, source_begin, source_end
                    source_end += 1
                source_begin -= 1


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
