"""Compiled parts of reading an ARPA file: lines of n-grams go from bytes into the tables."""

from typing import Any

import numpy as np

from moses_integration.decoder.ngram_table import (
    KERNEL,
    NgramTables,
    extends,
    find,
    first_hash,
    longer_hash,
    make_tables,
)

# What `parse_block` stops for.
DONE, FULL, NO_NUMBER, POSITIVE, UNKNOWN_WORD, FIELDS, NO_CONTEXT, HIGHEST_BACKOFF = range(8)


def hash_vocabulary(words: dict[str, int]) -> tuple[Any, Any]:
    """Return a table of 64-bit hashes of the bytes of words, and the id of the word in each row.

    :param words: the ids by word.
    """
    encoded = [word.encode() for word in words]
    offsets = np.cumsum([0, *map(len, encoded)])
    keys = np.zeros((2 * len(words) + 16, 1), np.uint64)
    ids = np.zeros(len(keys), np.int32)
    numbers = np.array([*words.values()], np.int32)
    _fill_vocabulary(keys, ids, np.frombuffer(b"".join(encoded), np.uint8), offsets, numbers)
    return keys, ids


@KERNEL
def _hash_bytes(text: Any, start: int, end: int) -> Any:
    """Return FNV-1a of some bytes, mixed once more for its high bits; never 0."""
    value = np.uint64(0xCBF29CE484222325)
    for position in range(start, end):
        value = (value ^ np.uint64(text[position])) * np.uint64(0x100000001B3)
    return longer_hash(value, 0) | np.uint64(1)


@KERNEL
def _fill_vocabulary(keys: Any, ids: Any, text: Any, offsets: Any, numbers: Any) -> None:
    for word in range(len(offsets) - 1):
        key = _hash_bytes(text, offsets[word], offsets[word + 1])
        slot = find(keys, key)
        if slot < 0:
            keys[-1 - slot, 0] = key
            ids[-1 - slot] = numbers[word]


def grow(tables: NgramTables) -> NgramTables:
    """Return the same tables with half as many slots again: the file lacks many suffixes."""
    grown = make_tables(tables.order, tables.num_words, len(tables.keys))
    _move(tables.keys, grown.keys)
    return tables._replace(keys=grown.keys, values=grown.values)


@KERNEL
def _move(old: Any, new: Any) -> None:
    for row in range(len(old)):
        if old[row, 0] != np.uint64(0):
            slot = -1 - find(new, old[row, 0])
            new[slot, 0] = old[row, 0]
            new[slot, 1] = old[row, 1]


@KERNEL
def _is_blank(byte: int) -> bool:
    return byte == 32 or byte == 9 or byte == 13


@KERNEL
def _parse_number(text: Any, start: int, end: int) -> tuple[float, bool]:
    """Return a decimal number, and whether it is one."""
    position = start
    negative = position < end and text[position] == 45
    if position < end and (text[position] == 45 or text[position] == 43):
        position += 1
    mantissa, scale, digits, point = 0.0, 0, 0, False
    while position < end:
        byte = text[position]
        if byte == 46 and not point:
            point = True
        elif 48 <= byte <= 57:
            digits += 1
            if mantissa < 1e15:
                mantissa = mantissa * 10.0 + (byte - 48)
                scale -= 1 if point else 0
            elif not point:
                scale += 1
        else:
            break
        position += 1
    if digits == 0:
        return 0.0, False
    if position < end and (text[position] == 69 or text[position] == 101):
        position += 1
        down = position < end and text[position] == 45
        if position < end and (text[position] == 45 or text[position] == 43):
            position += 1
        exponent, first = 0, position
        while position < end and 48 <= text[position] <= 57 and exponent < 1000:
            exponent = exponent * 10 + int(text[position]) - 48
            position += 1
        if position == first:
            return 0.0, False
        scale += -exponent if down else exponent
    value = mantissa / 10.0 ** (-scale) if scale < 0 else mantissa * 10.0**scale
    return -value if negative else value, position == end


@KERNEL
def parse_block(
    tables: Any,
    vocabulary: Any,
    ids: Any,
    text: Any,
    position: int,
    order: int,
    left: int,
    used: int,
) -> tuple[int, int, int, int, int]:
    """Put the n-grams of a block's lines into the tables, up to the section's end.

    :return: the first byte that was not read, the numbers of lines and of n-grams that were, the
        number of n-grams in the tables, and a problem of the line at this byte.
    """
    words = np.empty(order, np.int32)
    starts, ends = np.empty(order + 2, np.int64), np.empty(order + 2, np.int64)
    lines = done = 0
    while done < left and position < len(text):
        if text[position] == 92:  # a backslash: the next section
            break
        if used + order > len(tables.keys) - len(tables.keys) // 8:
            return position, lines, done, used, FULL
        fields, end = _split_line(text, position, starts, ends)
        if fields == 0:
            position = end + 1
            lines += 1
            continue
        if fields < order + 1 or fields > order + 2:
            return position, lines, done, used, FIELDS
        log_prob, good = _parse_number(text, starts[0], ends[0])
        backoff = -0.0
        if fields == order + 2:
            backoff, is_number = _parse_number(text, starts[order + 1], ends[order + 1])
            good = good and is_number
        if not good:
            return position, lines, done, used, NO_NUMBER
        if backoff != 0.0 and order == tables.order:
            return position, lines, done, used, HIGHEST_BACKOFF
        if log_prob > 0.0:
            return position, lines, done, used, POSITIVE
        for field in range(order):
            slot = find(vocabulary, _hash_bytes(text, starts[field + 1], ends[field + 1]))
            if slot < 0:
                return position, lines, done, used, UNKNOWN_WORD
            words[field] = ids[slot]
        if np.isnan(_remember(tables, words[: order - 1])):
            return position, lines, done, used, NO_CONTEXT
        used += _insert(tables, words, log_prob, -0.0 if backoff == 0.0 else backoff)
        position = end + 1
        lines += 1
        done += 1
    return position, lines, done, used, DONE


@KERNEL
def _split_line(text: Any, position: int, starts: Any, ends: Any) -> tuple[int, int]:
    """Find the fields of a line; return their number, even if there is no room, and its end."""
    fields = 0
    while position < len(text) and text[position] != 10:
        if _is_blank(text[position]):
            position += 1
            continue
        start = position
        while position < len(text) and text[position] != 10 and not _is_blank(text[position]):
            position += 1
        if fields < len(starts):
            starts[fields], ends[fields] = start, position
        fields += 1
    return fields, position


@KERNEL
def _remember(tables: Any, words: Any) -> Any:
    """Return the backoff of an n-gram, marked as one that a longer one goes on from.

    :return: NaN if there is no such n-gram.
    """
    if len(words) == 1:
        if not extends(tables.unigram_backoffs[words[0]]):
            tables.unigram_backoffs[words[0]] = 0.0
        return tables.unigram_backoffs[words[0]]
    key = first_hash(words[-1])
    for position in range(len(words) - 2, -1, -1):
        key = longer_hash(key, words[position])
    slot = find(tables.keys, key)
    if slot < 0:
        return np.float32(np.nan)
    if not extends(tables.values[slot, 3]):
        tables.values[slot, 3] = 0.0
    return tables.values[slot, 3]


@KERNEL
def _insert(tables: Any, words: Any, log_prob: float, backoff: float) -> int:
    """Put an n-gram into the tables, and blanks for those of its suffixes that are missing.

    A blank has the probability that backing off gives, and no backoff of its own (KenLM's
    AdjustLower). Of an n-gram that is there twice the first counts.

    :return: how many n-grams were added.
    """
    order, added = len(words), 0
    key = first_hash(words[order - 1])
    suffix_log_prob = tables.unigram_log_probs[words[order - 1]]
    for length in range(2, order + 1):
        first = order - length
        key = longer_hash(key, words[first])
        slot = find(tables.keys, key)
        if slot >= 0:
            suffix_log_prob = tables.values[slot, 2]
            continue
        slot, added = -1 - slot, added + 1
        tables.keys[slot, 0] = key
        if length == order:
            tables.values[slot, 2] = log_prob
            tables.values[slot, 3] = backoff
        else:
            context_backoff = _remember(tables, words[first : order - 1])
            if not np.isnan(context_backoff):
                suffix_log_prob += context_backoff
            tables.values[slot, 2] = suffix_log_prob
            tables.values[slot, 3] = -0.0
    return added
