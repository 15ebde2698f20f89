"""Where the parts of a phrase table's lines are, and lines with scores added, in compiled code.

Nearly every line of a table is plain: single spaces between words and around separators, scores
without a sign. Those are found here, a hundred times as fast as in Python. What is not plain is
left to :func:`moses_integration.table_line.parse_line`, which decides about it and alone makes
errors: nothing may be taken for plain here that it would refuse, or read in another way.
"""

import numba
import numpy as np

_KERNEL = numba.njit(nogil=True, cache=True, error_model="numpy")

_NEWLINE, _TAB, _SPACE, _BAR = 10, 9, 32, 124
_PLUS, _MINUS, _POINT, _ZERO, _NINE, _E = 43, 45, 46, 48, 57, 101
_SEPARATOR = 5  # " ||| "
# Digits before the point of a plain score, and the largest first digit of a two-digit exponent:
# less than 10^8 times 10^29 is never out of float32's range.
_MOST_DIGITS, _LARGEST_TENS = 8, 50


@_KERNEL
def _is_bars(text, position, end):  # type: ignore[no-untyped-def]
    """Return whether ``|||`` stands here."""
    return (
        position + 3 <= end
        and text[position] == _BAR
        and text[position + 1] == _BAR
        and text[position + 2] == _BAR
    )


@_KERNEL
def _is_separator(text, position, end):  # type: ignore[no-untyped-def]
    """Return whether `` ||| `` stands here."""
    return (
        position + _SEPARATOR <= end
        and text[position] == _SPACE
        and _is_bars(text, position + 1, end)
        and text[position + 4] == _SPACE
    )


@_KERNEL
def _phrase_end(text, begin, end):  # type: ignore[no-untyped-def]
    """Return where a phrase ends that a separator follows; -1 if it is not plain."""
    for position in range(begin, end):
        byte = text[position]
        if byte == _SPACE:
            if position == begin or text[position - 1] == _SPACE:
                return -1
            if _is_separator(text, position, end):
                return position
        elif byte == _TAB or (byte == _BAR and _is_bars(text, position, end)):
            return -1
    return -1


@_KERNEL
def _digits_end(text, begin, end):  # type: ignore[no-untyped-def]
    position = begin
    while position < end and _ZERO <= text[position] <= _NINE:
        position += 1
    return position


@_KERNEL
def _score_end(text, begin, end):  # type: ignore[no-untyped-def]
    """Return where a score ends, as 12, 0.5 or 1.25e-07; -1 if it is not plain."""
    position = _digits_end(text, begin, end)
    if not 0 < position - begin <= _MOST_DIGITS:
        return -1
    if position < end and text[position] == _POINT:
        first = position + 1
        position = _digits_end(text, first, end)
        if position == first:
            return -1
    if position < end and text[position] == _E:
        sign, first = position + 1, position + 2
        position = _digits_end(text, first, end)
        if position == first:
            return -1
        small = text[sign] == _PLUS and position == first + 2 and text[first] <= _LARGEST_TENS
        if not (small or text[sign] == _MINUS):
            return -1
    return position


@_KERNEL
def _read_line(text, begin, end, num_scores, phrases):  # type: ignore[no-untyped-def]
    """Return where the last score of a line ends; -1 if the line is not plain."""
    for side in range(2):
        stop = _phrase_end(text, begin, end)
        if stop < 0:
            return -1
        phrases[2 * side], phrases[2 * side + 1] = begin, stop
        begin = stop + _SEPARATOR
    for number in range(num_scores):
        if number > 0:
            if begin >= end or text[begin] != _SPACE:
                return -1
            begin += 1
        begin = _score_end(text, begin, end)
        if begin < 0:
            return -1
    return begin if begin == end or _is_separator(text, begin, end) else -1


@_KERNEL
def scan(text, num_scores, begins, score_ends, phrases):  # type: ignore[no-untyped-def]
    """Find the parts of lines.

    :param text: whole lines; the last one may lack its newline.
    :param num_scores: that each line is to have.
    :param begins: gets where each line begins, and where the last one ends.
    :param score_ends: gets where each line's last score ends, or -1 if the line is not plain.
    :param phrases: ``(lines, 4)``, gets where the source begins and ends, and where the target.
    """
    position = 0
    for line in range(len(score_ends)):
        begins[line] = end = position
        while end < len(text) and text[end] != _NEWLINE:
            end += 1
        score_ends[line] = _read_line(text, position, end, num_scores, phrases[line])
        position = end + 1
    begins[len(score_ends)] = len(text)


@_KERNEL
def insert(text, begins, places, added):  # type: ignore[no-untyped-def]
    """Return lines with something inserted into each.

    :param begins: where each line begins, and where the last one ends.
    :param places: where it goes, in each.
    :param added: what goes there, without the newline that ends it.
    """
    out = np.empty(begins[-1] - begins[0] + len(added) - len(places), np.uint8)
    to, new = 0, 0
    for line in range(len(places)):
        for position in range(begins[line], places[line]):
            out[to] = text[position]
            to += 1
        while added[new] != _NEWLINE:
            out[to] = added[new]
            to += 1
            new += 1
        new += 1
        for position in range(places[line], begins[line + 1]):
            out[to] = text[position]
            to += 1
    return out
