"""Compiled loops over the lines in n-best lists; see :mod:`moses_integration.nbest`.

Phrase tables are read with some of them.
"""

import numpy as np

from phrasescore.io.kernel_cache import kept_njit
from phrasescore.io.numbers import read_number

_KERNEL = kept_njit()

_RETURN, _SPACE, _BAR = 13, 32, 124


@_KERNEL
def find_bars(text, begin, end):  # type: ignore[no-untyped-def]
    """Return the position of the first ``|||``, or -1."""
    for position in range(begin, end - 2):
        if text[position] == _BAR and text[position + 1] == _BAR and text[position + 2] == _BAR:
            return position
    return -1


@_KERNEL
def _skip_spaces(text, begin, end):  # type: ignore[no-untyped-def]
    while begin < end and text[begin] == _SPACE:
        begin += 1
    return begin


@_KERNEL
def _read_exact(text, begin, end):  # type: ignore[no-untyped-def]
    """Return where a number ends, or -1, and its value: NaN if it cannot be computed exactly."""
    stop, value, is_exact = read_number(text, begin, end)
    return stop, value if is_exact else np.nan


@_KERNEL
def _read_values(text, begin, end, pattern, row):  # type: ignore[no-untyped-def]
    """Read fields 3 and 4; return where the last value ends, or -1 if the features do not match."""
    names, name_ends, sizes, sign, is_spaced = pattern
    start = number = 0
    value_end = begin  # where there is no feature
    position = _skip_spaces(text, begin, end)
    for feature in range(len(sizes)):
        for index in range(start, name_ends[feature]):
            if position >= end or text[position] != names[index]:
                return -1
            position += 1
        start = name_ends[feature]
        if position >= end or text[position] != sign:
            return -1
        position += 1
        for value in range(sizes[feature]):
            first = position
            if is_spaced or value > 0:
                first = _skip_spaces(text, position, end)
                if first == position:
                    return -1
            value_end, row[number] = _read_exact(text, first, end)
            if value_end < 0:
                return -1
            number += 1
            position = value_end
        position = _skip_spaces(text, value_end, end)
        if feature + 1 < len(sizes) and position == value_end:
            return -1
    if find_bars(text, position, min(position + 3, end)) < 0:
        return -1
    position, row[number] = _read_exact(text, _skip_spaces(text, position + 3, end), end)
    if position < 0:
        return -1
    while position < end and (text[position] == _SPACE or text[position] == _RETURN):
        position += 1
    if position < end and find_bars(text, position, min(position + 3, end)) < 0:
        return -1
    return value_end


@_KERNEL
def scan_lines(text, begins, pattern, spans, numbers, is_new):  # type: ignore[no-untyped-def]
    """Locate the fields of lines, and read the numbers in lines whose features match the pattern.

    :param begins: ``(lines + 1,)``: where each line begins, and where the next line would begin.
    :param pattern: the concatenated feature names, where each name ends, the number of values per
        feature, the byte after a name, and whether spaces follow it.
    :param spans: output, ``(lines, 4)``: the end of field 1, the begin and end of field 2, and the
        end of the last value in field 3, or -1 if the line must be parsed in Python.
    :param numbers: output, ``(lines, values + 1)``: the feature values and the total.
    :param is_new: output, ``(lines,)``: whether field 1 differs from the previous line.
    """
    last = last_end = 0
    for line in range(len(is_new)):
        begin, end = begins[line], begins[line + 1] - 1
        key_end = find_bars(text, begin, end)
        is_new[line] = line == 0 or key_end < 0 or key_end - begin != last_end - last
        if not is_new[line]:
            for index in range(key_end - begin):
                if text[begin + index] != text[last + index]:
                    is_new[line] = True
                    break
        last, last_end = begin, max(key_end, begin)
        spans[line, 0], spans[line, 3] = key_end, -1
        if key_end < 0:
            continue
        spans[line, 1], spans[line, 2] = key_end + 3, find_bars(text, key_end + 3, end)
        if spans[line, 2] >= 0:
            start = spans[line, 2] + 3
            spans[line, 3] = _read_values(text, start, end, pattern, numbers[line])


@_KERNEL
def insert_texts(text, begins, ends, positions, added, starts, stops):  # type: ignore[no-untyped-def]
    """Return the bytes of lines, each with a text inserted.

    :param begins: ``(lines,)``: where each line begins in ``text``; ``ends``: where it ends.
    :param positions: ``(lines,)``: where to insert the text of each line.
    :param starts: ``(lines,)``: where this text begins in ``added``; ``stops``: where it ends.
    """
    size = to = 0
    for line in range(len(positions)):
        size += ends[line] - begins[line] + stops[line] - starts[line]
    out = np.empty(size, np.uint8)
    for line in range(len(positions)):
        for part, begin, end in (
            (text, begins[line], positions[line]),
            (added, starts[line], stops[line]),
            (text, positions[line], ends[line]),
        ):
            for position in range(begin, end):
                out[to] = part[position]
                to += 1
    return out
