"""Compiled loops that read the lines of ARPA files; see :mod:`phrasescore.language_models.arpa`."""

from typing import Any

import numpy as np

from phrasescore.io.hashing import find, hash_word
from phrasescore.io.kernel_cache import borrow
from phrasescore.io.numbers import read_number
from phrasescore.language_models import ngram_table
from phrasescore.language_models.ngram_table import BEGIN, KERNEL, UNKNOWN

# Why a kernel stopped.
DONE, FULL, NO_NUMBER, POSITIVE, UNKNOWN_WORD, FIELDS, NO_CONTEXT, HIGHEST_BACKOFF = range(8)

NOT_LISTED = 1.0  # instead of the log probability of a symbol that is missing from the 1-grams
_MINUS_INFINITY = np.frombuffer(b"-inf", np.uint8)


@KERNEL
def _is_blank(byte: int) -> bool:
    return byte == 32 or byte == 9 or byte == 13


@KERNEL
def parse_unigrams(vocabulary, values, text, position, left, used, new):  # type: ignore[no-untyped-def]
    """Add the words of a block to the vocabulary, and their values by id.

    :param used: number of words in the vocabulary.
    :param new: output, the new words, each after a newline.
    :return: the position of the first unread byte, the numbers of lines and 1-grams read, the
        number of words in the vocabulary, the length of ``new``, and the problem with the line at
        this position.
    """
    starts, ends = np.empty(3, np.int64), np.empty(3, np.int64)
    lines = done = size = 0
    while done < left and position < len(text):
        if text[position] == 92:  # a backslash: the next section
            break
        if used == len(values):
            return position, lines, done, used, size, FULL
        fields, end = _split_line(text, position, starts, ends)
        if fields > 0:
            key = hash_word(text, starts[1], ends[1]) if fields > 1 else np.uint64(0)
            slot = find(vocabulary, key)
            word = np.int64(vocabulary[slot, 1]) if slot >= 0 else used
            problem, log_prob, backoff = _read_values(text, starts, ends, fields, 1, word == BEGIN)
            if problem != DONE:
                return position, lines, done, used, size, problem
            # A backoff is -0.0 until a longer n-gram begins with the word.
            if word in (used, UNKNOWN) or values[word, 0] == NOT_LISTED:
                values[word, 0], values[word, 1] = log_prob, backoff
            if word == used:
                vocabulary[-1 - slot, 0], vocabulary[-1 - slot, 1] = key, word
                used += 1
                new[size] = 10
                size += 1
                for place in range(starts[1], ends[1]):
                    new[size] = text[place]
                    size += 1
            done += 1
        position = end + 1
        lines += 1
    return position, lines, done, used, size, DONE


@KERNEL
def parse_ngrams(tables, vocabulary, text, position, order, left, used):  # type: ignore[no-untyped-def]
    """Insert the n-grams of a block into the tables, up to the end of the section.

    :return: the position of the first unread byte, the number of lines read, the number of n-grams
        read, the number of n-grams in the tables, and the problem with the line at this position.
    """
    tables, vocabulary = borrow((tables, vocabulary))
    words, hashes = np.empty(order, np.int32), np.empty(order + 1, np.uint64)
    starts, ends = np.empty(order + 2, np.int64), np.empty(order + 2, np.int64)
    log_probs, room = tables.unigram_log_probs, len(tables.keys) - len(tables.keys) // 8
    lines = done = 0
    while done < left and position < len(text):
        if text[position] == 92:  # a backslash: the next section
            break
        if used + order > room:
            return position, lines, done, used, FULL
        fields, end = _split_line(text, position, starts, ends)
        if fields > 0:
            problem, log_prob, backoff = _read_values(text, starts, ends, fields, order, False)
            if problem == DONE and backoff != 0.0 and order == tables.order:
                problem = HIGHEST_BACKOFF
            if problem != DONE:
                return position, lines, done, used, problem
            for field in range(order):
                slot = find(vocabulary, hash_word(text, starts[field + 1], ends[field + 1]))
                if slot < 0 or log_probs[vocabulary[slot, 1]] == NOT_LISTED:
                    return position, lines, done, used, UNKNOWN_WORD
                words[field] = vocabulary[slot, 1]
            if np.isnan(_remember(tables, words, 0, order - 1)):
                return position, lines, done, used, NO_CONTEXT
            used += _insert(tables, words, log_prob, backoff, hashes)
            done += 1
        position = end + 1
        lines += 1
    return position, lines, done, used, DONE


@KERNEL
def _read_values(text, starts, ends, fields, order, is_begin):  # type: ignore[no-untyped-def]
    """Return the problem with a line, its log probability and its backoff, -0.0 for 0 or none.

    :param is_begin: whether the n-gram is ``<s>``, whose log probability may be -inf.
    """
    if fields < order + 1 or fields > order + 2:
        return FIELDS, 0.0, 0.0
    stop, log_prob, _ = read_number(text, starts[0], ends[0])
    are_numbers, backoff = stop == ends[0], -0.0
    if is_begin and _is_minus_infinity(text, starts[0], ends[0]):
        are_numbers, log_prob = True, -99.0
    if fields == order + 2:
        stop, backoff, _ = read_number(text, starts[order + 1], ends[order + 1])
        are_numbers = are_numbers and stop == ends[order + 1]
    if not are_numbers:
        return NO_NUMBER, 0.0, 0.0
    problem = POSITIVE if log_prob > 0.0 else DONE
    return problem, log_prob, -0.0 if backoff == 0.0 else backoff


@KERNEL
def _is_minus_infinity(text: Any, start: int, end: int) -> bool:
    if end - start != len(_MINUS_INFINITY):
        return False
    same = True
    for place in range(len(_MINUS_INFINITY)):
        same = same and text[start + place] == _MINUS_INFINITY[place]
    return same


@KERNEL
def _split_line(text: Any, position: int, starts: Any, ends: Any) -> tuple[int, int]:
    """Fill in where fields start and end; return the number of all fields and the line's end."""
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
def _remember(tables, words, first, after):  # type: ignore[no-untyped-def]
    """Return the backoff of the n-gram ``words[first:after]``, or NaN if it is missing."""
    # Mark that a longer n-gram begins with it.
    if after - first == 1:
        backoffs = tables.unigram_backoffs
        if not ngram_table.extends(backoffs[words[first]]):
            backoffs[words[first]] = 0.0
        return backoffs[words[first]]
    keys, values = tables.keys, tables.values
    key = ngram_table.first_hash(words[after - 1])
    for position in range(after - 2, first - 1, -1):
        key = ngram_table.longer_hash(key, words[position])
    slot = find(keys, key)
    if slot < 0:
        return np.float32(np.nan)
    if not ngram_table.extends(values[slot, 3]):
        values[slot, 3] = 0.0
    return values[slot, 3]


@KERNEL
def _insert(tables, words, log_prob, backoff, hashes):  # type: ignore[no-untyped-def]
    """Insert an n-gram and blanks for its missing suffixes; return the number of added n-grams.

    A blank has the backed-off probability and no backoff weight (KenLM's AdjustLower). An n-gram
    that is already in the tables is not replaced.

    :param hashes: ``(order + 1,)``, for the hash of the suffix of each length.
    """
    order, added = len(words), 0
    keys, values = tables.keys, tables.values
    hashes[1] = ngram_table.first_hash(words[order - 1])
    for length in range(2, order + 1):
        hashes[length] = ngram_table.longer_hash(hashes[length - 1], words[order - length])
    # The suffixes of a suffix in the tables are there, too.
    suffix_log_prob = tables.unigram_log_probs[words[order - 1]]
    known = order - 1
    while known > 1:
        slot = find(keys, hashes[known])
        if slot >= 0:
            suffix_log_prob = values[slot, 2]
            break
        known -= 1
    for length in range(known + 1, order + 1):
        slot = -1 - find(keys, hashes[length])
        if slot < 0:
            continue  # the n-gram is listed twice
        added += 1
        keys[slot, 0] = hashes[length]
        if length == order:
            values[slot, 2] = log_prob
            values[slot, 3] = backoff
        else:
            context_backoff = _remember(tables, words, order - length, order - 1)
            if not np.isnan(context_backoff):
                suffix_log_prob += context_backoff
            values[slot, 2] = suffix_log_prob
            values[slot, 3] = -0.0
    return added
