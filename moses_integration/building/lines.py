"""Write the lines of a phrase table and a reordering table, in compiled code.

Each item is written with a space after it; at the end of a line, a newline replaces the space.

Numbers are written as C's ``%g`` does it, to the last digit. Six digits of a number are the integer
next to its product with a power of ten. The product is computed as a sum of two float64 without
error (Dekker, 1971), so that ties are recognised; as in glibc, a tie goes to the even digit.
"""

import math

import numpy as np

from moses_integration.building.extraction import KERNEL, get_word, has_link
from moses_integration.building.pairs import score_words

_SPACE, _BAR, _MINUS, _ZERO, _NEWLINE = 32, 124, 45, 48, 10
_POINT, _PLUS, _E = 46, 43, 101
_SMOOTHING = 0.5  # is added to the count of each orientation, as by train-model.perl
_POWERS = np.array([float(f"1e{power}") for power in range(23)])  # exact in float64
_SPLITTER = 134217729.0  # 2^27 + 1
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
                    at = _put(out, put_count(out, at, source), _MINUS)
                    at = _put(out, put_count(out, at, target), _SPACE)
        at = _put_bars(out, at)
        for count in (target_count, source_count, joint):
            at = _put(out, put_count(out, at, count), _SPACE)
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
def _multiply(high, low, factor):  # type: ignore[no-untyped-def]
    """Return ``(high + low) * factor`` as a sum of two float64; exact if ``low`` is 0."""
    product = high * factor
    big = _SPLITTER * high
    upper = big - (big - high)
    lower = high - upper
    big = _SPLITTER * factor
    factor_upper = big - (big - factor)
    factor_lower = factor - factor_upper
    error = upper * factor_upper - product
    error += upper * factor_lower
    error += lower * factor_upper
    error += lower * factor_lower
    error += low * factor
    total = product + error
    return total, error - (total - product)


@KERNEL
def _scale(value, power):  # type: ignore[no-untyped-def]
    high, low = value, 0.0
    while power > 0:
        step = min(power, 22)
        high, low = _multiply(high, low, _POWERS[step])
        power -= step
    return high, low


@KERNEL
def _put_digits(out, at, digits, exponent):  # type: ignore[no-untyped-def]
    """Write a number of six digits; ``exponent`` is the one of its first digit."""
    length = 6
    while length > 1 and digits % 10 == 0:
        digits //= 10
        length -= 1
    is_scientific = not -4 <= exponent < 6
    if exponent < 0 and not is_scientific:
        out[at], out[at + 1] = _ZERO, _POINT
        at += 2
        for _ in range(-exponent - 1):
            out[at] = _ZERO
            at += 1
    first_digits = length if exponent < 0 and not is_scientific else 1
    if exponent >= 0 and not is_scientific:
        first_digits = exponent + 1
        while length < first_digits:
            digits *= 10
            length += 1
    divisor = 1
    for _ in range(length - 1):
        divisor *= 10
    for index in range(length):
        if index == first_digits:
            out[at] = _POINT
            at += 1
        out[at] = _ZERO + digits // divisor % 10
        divisor //= 10
        at += 1
    if is_scientific:
        out[at], out[at + 1] = _E, _MINUS if exponent < 0 else _PLUS
        out[at + 2], out[at + 3] = _ZERO + abs(exponent) // 10, _ZERO + abs(exponent) % 10
        at += 4
    return at


@KERNEL
def put_number(out, at, value):  # type: ignore[no-untyped-def]
    """Write a number from 0 to 999,999 at position ``at``; return the position after it."""
    if value == 0.0:
        out[at] = _ZERO
        return at + 1
    exponent = math.floor(math.log10(value))
    high, low = _scale(value, 5 - exponent)
    # The logarithm may be off by one near a power of ten.
    if high < 1e5 or (high == 1e5 and low < 0.0):
        exponent -= 1
        high, low = _scale(value, 5 - exponent)
    elif high > 1e6 or (high == 1e6 and low >= 0.0):
        exponent += 1
        high, low = _scale(value, 5 - exponent)
    digits = math.floor(high)
    beyond = (high - digits - 0.5) + low
    if beyond > 0.0 or (beyond == 0.0 and digits % 2 == 1):
        digits += 1
    if digits == 1_000_000:
        digits = 100_000
        exponent += 1
    return _put_digits(out, at, digits, exponent)


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


@KERNEL
def put_count(out, at, count):  # type: ignore[no-untyped-def]
    """Write a rounded count (`round_count`) at position ``at``; return the position after it."""
    if count < 1_000_000:
        return put_number(out, at, np.float64(count))
    exponent = 6
    unit = 10
    while count // unit >= 1_000_000:
        unit *= 10
        exponent += 1
    return _put_digits(out, at, count // unit, exponent)
