"""Extract phrase pairs and their orientations, as Moses' extract does, in compiled code.

A phrase pair is consistent with the alignment if no word in it is aligned to a word outside, and at
least one link is inside (Och and Ney, 2004). Unaligned words at its borders are optional.
"""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from moses_integration.building.corpus import SentenceBlock
from moses_integration.building.rows import COUNT_BITS, KERNEL, RowLayout, Rows, put_phrase
from phrasescore.errors import ArgumentError

# Orientations; `OTHER` is only in models of three classes, and `LEFT` and `RIGHT` in the others.
MONOTONE, SWAP, LEFT, RIGHT, OTHER = range(5)
_KINDS, _CLASSES = ("wbe", "phrase", "hier"), {"msd": 3, "mslr": 4}
_DIRECTIONS = ("bidirectional", "backward", "forward")


@dataclass(frozen=True)
class Reordering:
    """A lexicalised reordering model with a name such as ``wbe-msd-bidirectional-fe``.

    :ivar kind: whether words (``wbe``), phrases or hierarchical phrases (``hier``) are the
        neighbours whose order counts.
    :ivar classes: 3 for monotone, swap and discontinuous; 4 for monotone, swap, left and right.
    :ivar direction: ``backward`` looks at the previous phrase, ``forward`` at the next one.
    """

    name: str
    kind: str
    classes: int
    direction: str

    @classmethod
    def parse(cls, name: str) -> "Reordering":
        """Return the model with a name."""
        kind, classes, direction, given = [*name.split("-"), "", "", "", ""][:4]
        is_known = kind in _KINDS and classes in _CLASSES and direction in _DIRECTIONS
        if not is_known or name.count("-") != 3 or given != "fe":
            raise ArgumentError(
                "expected a reordering model such as wbe-msd-bidirectional-fe, from "
                f"{'|'.join(_KINDS)}-{'|'.join(_CLASSES)}-{'|'.join(_DIRECTIONS)}-fe, got {name!r}"
            )
        return cls(name, kind, _CLASSES[classes], direction)

    @property
    def num_scores(self) -> int:
        """Number of scores of a phrase pair."""
        return self.classes * (2 if self.direction == "bidirectional" else 1)


def extract_rows(block: SentenceBlock, layout: RowLayout, reordering: Reordering) -> Rows:
    """Return one row for each phrase pair in a block of sentences, unsorted."""
    arrays = tuple(vars(block).values())
    packing = (tuple(layout.source), tuple(layout.target), layout.links)
    model = (_KINDS.index(reordering.kind), reordering.classes == 4)
    empty: Any = np.empty((0, layout.columns), np.uint64)
    count = _extract(arrays, packing, model, empty)
    rows = np.empty((count, layout.columns), np.uint64)
    _extract(arrays, packing, model, rows)
    return rows


@KERNEL
def _extract(arrays, packing, model, rows):  # type: ignore[no-untyped-def]
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
        before, after = linked, linked
        if model[0] > 0:
            longest = length if model[0] == 1 else max(num_sources, num_targets)
            before, after = _mark_corners(spans, longest)
        corners = (linked, before, after)
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
            previous = _orient(corners, model, start - 1, source_begin - 1, source_end + 1, -1)
            following = _orient(corners, model, end + 1, source_end + 1, source_begin - 1, 1)
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
def _mark_corners(spans, longest):  # type: ignore[no-untyped-def]
    """Return which cells are the last target word and the last, or first, source word of a pair.

    Moses looks at the last target word also where it needs the first one of the next phrase; its
    tables can only be reproduced with this error.
    """
    target_spans, source_spans = spans
    lasts = np.zeros((len(target_spans) + 2, len(source_spans) + 2), np.bool_)
    firsts = np.zeros_like(lasts)
    for _, end, source_begin, source_end in _phrases(spans, longest):
        lasts[end + 1, source_end + 1] = firsts[end + 1, source_begin + 1] = True
    return lasts, firsts


@KERNEL
def _orient(corners, model, target, monotone, swapped, step):  # type: ignore[no-untyped-def]
    """Return the orientation of a phrase to its neighbour.

    :param target: the target word beside the phrase.
    :param monotone: the source word beside the phrase if the order is monotone, and beyond which
        the neighbour is searched in steps of ``step``; ``swapped`` for the other side.
    """
    linked, lasts, firsts = corners
    kind, has_four = model
    before, after = (lasts, firsts) if step < 0 else (firsts, lasts)
    is_monotone = linked[target + 1, monotone + 1]
    is_swapped = linked[target + 1, swapped + 1]
    if (is_monotone and not is_swapped) or (kind > 0 and before[target + 1, monotone + 1]):
        return MONOTONE
    if (is_swapped and not is_monotone) or (kind > 0 and after[target + 1, swapped + 1]):
        return SWAP
    if not has_four:
        return OTHER
    # Moses leaves out the last source word in models of phrases.
    end = linked.shape[1] - 2 - (1 if kind > 0 else 0)
    if kind > 0:
        is_monotone = is_swapped = False
    source = monotone + step
    while 0 <= source < end and not is_monotone:
        is_monotone = before[target + 1, source + 1]
        source += step
    if kind > 0 and is_monotone:
        return RIGHT
    source = swapped - step
    while 0 <= source < end and not is_swapped:
        is_swapped = after[target + 1, source + 1]
        source -= step
    return LEFT if is_swapped and not is_monotone else RIGHT
