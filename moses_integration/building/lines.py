"""Write the lines of a phrase table and a reordering table, in compiled code.

Each item is written with a space after it; at the end of a line, a newline replaces the space.

Numbers are written as C's ``%g`` does it, to the last digit: with C's own ``gcvt``, or faster.
"""

import math
from typing import Any

import numpy as np
from numba.core import types

from moses_integration.building.extraction import KERNEL, get_word, has_link
from moses_integration.building.pairs import score_words

_SPACE, _BAR, _MINUS, _ZERO, _NEWLINE, _POINT, _E = 32, 124, 45, 48, 10, 46, 101
_SMOOTHING = 0.5  # is added to the count of each orientation, as by train-model.perl
_POWERS = np.array([10.0**power for power in range(23)])  # exact in float64
_types: Any = types
_pointer = _types.voidptr
_gcvt = _types.ExternalFunction("gcvt", _pointer(_types.float64, _types.intc, _pointer))
# Bytes of the longest text of a number, such as 1.23457e-05.
MAX_NUMERAL = 12


@KERNEL
def write_phrase_table(rows, pairs, totals, layout, texts, lexicon, nulls):  # type: ignore[no-untyped-def]
    """Return the lines of a phrase table as bytes.

    :param pairs: the result of `count_pairs`.
    :param totals: the count of each pair's target phrase.
    :param texts: the words of both languages, each with a space after it, and where they begin.
    """
    best, inverse, counts, source_counts, _ = pairs
    links, length = layout[2], layout[0][4]
    starts, targets, forward, backward = lexicon
    size = 0
    for pair in range(len(best)):
        size += _text_size(rows[best[pair]], layout, texts)
        size += 7 * (MAX_NUMERAL + 1) + 16 + 6 * _count_links(rows[best[pair]], links)
    out = np.empty(size, np.uint8)
    at = 0
    for pair in range(len(best)):
        row = rows[best[pair]]
        joint = round_count(counts[pair])
        source_count, target_count = round_count(source_counts[pair]), round_count(totals[pair])
        at = _put_phrases(out, at, row, layout, texts)
        for score in (
            np.float32(joint) / np.float32(target_count),
            score_words(rows[inverse[pair]], layout, (starts, targets, backward), nulls, True),
            np.float32(joint) / np.float32(source_count),
            score_words(row, layout, (starts, targets, forward), nulls, False),
        ):
            at = _put(out, put_number(out, at, np.float64(score)), _SPACE)
        at = _put_bars(out, at)
        for target in range(length):
            for source in range(length):
                if has_link(row, links, length, source, target):
                    at = _put(out, put_number(out, at, source), _MINUS)
                    at = _put(out, put_number(out, at, target), _SPACE)
        at = _put_bars(out, at)
        for count in (target_count, source_count, joint):
            at = _put(out, put_number(out, at, count), _SPACE)
        at = _put_bars(out, _put_bars(out, at))
        out[at - 1] = _NEWLINE
    return out[:at]


@KERNEL
def write_reordering(rows, pairs, layout, texts):  # type: ignore[no-untyped-def]
    """Return the lines of a reordering table, with the shares of the orientations, as bytes."""
    best, orientations = pairs[0], pairs[4]
    classes = orientations.shape[2]
    size = 0
    for pair in range(len(best)):
        size += _text_size(rows[best[pair]], layout, texts)
        size += 2 * classes * (MAX_NUMERAL + 1) + 8
    out = np.empty(size, np.uint8)
    scores = np.empty(classes)
    at = 0
    for pair in range(len(best)):
        at = _put_phrases(out, at, rows[best[pair]], layout, texts)
        for side in range(2):
            counts = orientations[pair, side]
            total = 0.0
            for number in range(classes):
                scores[number] = counts[number] + _SMOOTHING
                total += scores[number]
            for number in range(classes):
                at = _put(out, put_number(out, at, scores[number] / total), _SPACE)
        out[at - 1] = _NEWLINE
    return out[:at]


@KERNEL
def _text_size(row, layout, texts):  # type: ignore[no-untyped-def]
    size = 0
    for packing, starts in ((layout[0], texts[1]), (layout[1], texts[3])):
        for index in range(packing[4]):
            word = get_word(row, packing, index)
            if word < 0:
                break
            size += starts[word + 1] - starts[word]
    return size


@KERNEL
def _count_links(row, links):  # type: ignore[no-untyped-def]
    count = 0
    for column in range(links, len(row) - 1):
        bits = row[column]
        while bits != np.uint64(0):
            bits &= bits - np.uint64(1)
            count += 1
    return count


@KERNEL
def _put_phrases(out, at, row, layout, texts):  # type: ignore[no-untyped-def]
    for packing, text, starts in ((layout[0], texts[0], texts[1]), (layout[1], texts[2], texts[3])):
        for index in range(packing[4]):
            word = get_word(row, packing, index)
            if word < 0:
                break
            for position in range(starts[word], starts[word + 1]):
                at = _put(out, at, text[position])
        at = _put_bars(out, at)
    return at


@KERNEL
def _put_bars(out, at):  # type: ignore[no-untyped-def]
    out[at] = out[at + 1] = out[at + 2] = _BAR
    return _put(out, at + 3, _SPACE)


@KERNEL
def _put(out, at, byte):  # type: ignore[no-untyped-def]
    out[at] = byte
    return at + 1


@KERNEL
def put_number(out, at, value):  # type: ignore[no-untyped-def]
    """Write a number at position ``at``, before a free byte; return the position after it.

    The product with a power of ten is off by less than 1e-9, so it decides unless it is near a tie.

    :param value: a number that is not negative.
    """
    exponent = math.floor(math.log10(value)) if value > 0.0 else 0
    if -18 < exponent < 6:
        scaled = value * _POWERS[5 - exponent]
        digits = math.floor(scaled)
        beyond = scaled - digits - 0.5
        # The logarithm may be off by one near a power of ten.
        if (value == 0.0 or 100_000 <= digits < 999_999) and abs(beyond) > 1e-9:
            return _put_digits(out, at, digits + (beyond > 0.0), exponent)
    _gcvt(value, 6, out[at:].ctypes)
    while out[at] != 0:
        at += 1
    return at


@KERNEL
def _put_digits(out, at, digits, exponent):  # type: ignore[no-untyped-def]
    """Write a number of six digits; ``exponent`` is the one of its first digit."""
    before = max(exponent, 0) + 1  # digits before the point
    length = 6 if exponent < -4 else 6 - min(exponent, 0)
    while length > before and digits % 10 == 0:
        digits //= 10
        length -= 1
    divisor = 1
    for _ in range(length - 1):
        divisor *= 10
    for index in range(length):
        if index == before:
            at = _put(out, at, _POINT)
        at = _put(out, at, _ZERO + digits // divisor % 10)
        divisor //= 10
    if exponent < -4:
        out[at], out[at + 1] = _E, _MINUS
        out[at + 2], out[at + 3] = _ZERO + -exponent // 10, _ZERO + -exponent % 10
        at += 4
    return at


@KERNEL
def round_count(count):  # type: ignore[no-untyped-def]
    """Return a count rounded to six digits: Moses reads the counts that it has written."""
    unit = 1
    while count // unit >= 1_000_000:
        unit *= 10
    digits, rest = count // unit, count % unit
    if 2 * rest > unit or (2 * rest == unit and digits % 2 == 1):
        digits += 1
    return digits * unit
