"""Sort n-grams, and estimate their probabilities, in compiled code.

An n-gram is a row of uint32 numbers: the ids of its words, the keys, and then its values. A float32
value is stored as its bits. In suffix order the keys are the words from last to first; in context
order the last word follows the others. All functions work on parts of longer sequences and return
how far they have come.
"""

import math

import numpy as np

from phrasescore.io.kernel_cache import kept_njit

# The ids of <unk>, <s> and </s>, as lmplz numbers them.
UNKNOWN, BEGIN, END = 0, 1, 2
# The bit of a count that marks a pruned n-gram.
PRUNED = np.uint32(1 << 31)
# Maximum number of bytes of a formatted number.
NUMBER_SIZE = 24
_TAB, _NEWLINE, _SPACE, _MINUS, _POINT, _ZERO, _E = b"\t\n -.0e"

_KERNEL = kept_njit()


@_KERNEL
def _compare(rows, row, others, other, keys):  # type: ignore[no-untyped-def]
    """Return -1, 0 or 1 if a row's keys are less than, equal to or greater than another row's."""
    for key in range(keys):
        if rows[row, key] != others[other, key]:
            return -1 if rows[row, key] < others[other, key] else 1
    return 0


@_KERNEL
def _copy(rows, row, others, other, columns):  # type: ignore[no-untyped-def]
    """Copy the first columns of a row; a loop is compiled faster than slices are."""
    for column in range(columns):
        others[other, column] = rows[row, column]


@_KERNEL
def sorted_indices(rows, keys, num_ids):  # type: ignore[no-untyped-def]
    """Return the indices that sort rows by their first keys; equal rows keep their order.

    This is a radix sort with one digit per key, from the last key to the first.

    :param num_ids: a number greater than all keys.
    """
    indices = np.arange(len(rows)).astype(np.int32)
    other = np.empty_like(indices)
    for key in range(keys - 1, -1, -1):
        starts = np.zeros(num_ids + 1, np.int64)
        for row in range(len(rows)):
            starts[rows[row, key] + 1] += 1
        for number in range(1, num_ids):
            starts[number] += starts[number - 1]
        for place in range(len(rows)):
            row = indices[place]
            number = rows[row, key]
            other[starts[number]] = row
            starts[number] += 1
        indices, other = other, indices
    return indices


@_KERNEL
def count_suffixes(rows, previous, order, size, grams, count):  # type: ignore[no-untyped-def]
    """Count the n-grams of one size in the n-grams of the highest order, in suffix order.

    An adjusted count is the number of different words before an n-gram. It is the count in the text
    for n-grams of the highest order, and for those that begin with ``<s>``.

    :param rows: the keys and the count of each n-gram; a key after an ``<s>`` is ``<s>``, too.
    :param previous: the row before the first one, ``(1, order + 1)``; zeros at the beginning.
    :param grams: the keys, adjusted count and count in the text of each n-gram found. The first
        ``count`` are those found before; the last one may not be complete.
    :return: the number of n-grams in ``grams``.
    """
    before, row_before = previous, 0
    for row in range(len(rows)):
        if size == 1 or rows[row, size - 2] != BEGIN:
            same = 0
            while same < order and same <= size and rows[row, same] == before[row_before, same]:
                same += 1
            if same < size:
                _copy(rows, row, grams, count, size)
                grams[count, size] = grams[count, size + 1] = 0
                count += 1
            if size == order or rows[row, size - 1] == BEGIN:
                grams[count - 1, size] += rows[row, order]
            elif same <= size:
                grams[count - 1, size] += 1
            grams[count - 1, size + 1] += rows[row, order]
        before, row_before = rows, row
    return count


@_KERNEL
def discount(rows, size, amounts, ended, grams, gram_values, contexts):  # type: ignore[no-untyped-def]
    """Compute discounted probabilities of n-grams in context order, and weights of contexts.

    :param rows: ``(rows, size + 1)``: the keys and the adjusted count of each n-gram.
    :param amounts: the discounts of the adjusted counts 0, 1, 2 and 3 or more.
    :param ended: whether these are the last rows; otherwise the last context may not be complete.
    :param grams: becomes the keys in suffix order, the probability and the weight of the context
        for each n-gram that is not pruned; ``gram_values`` has the same memory, as float32.
    :param contexts: becomes the keys and the weight (gamma) of each context.
    :return: the number of finished rows, of n-grams and of contexts.
    """
    start = num_grams = num_contexts = 0
    while start < len(rows):
        end = start
        total = pruned = np.int64(0)
        with_count = np.zeros(4, np.int64)
        while end < len(rows) and _compare(rows, start, rows, end, size - 1) == 0:
            count = np.int64(rows[end, size] & ~PRUNED)
            total += count
            if rows[end, size] & PRUNED:
                pruned += count
            else:
                with_count[count if count < 3 else 3] += 1
            end += 1
        if end == len(rows) and not ended:
            break
        weight = np.float32(0)
        for number in range(1, 4):
            weight += amounts[number] * np.float32(with_count[number])
        weight = (weight + np.float32(pruned)) / np.float32(total)
        for row in range(start, end):
            count = np.int64(rows[row, size])
            if not count & PRUNED:
                grams[num_grams, 0] = rows[row, size - 1]
                for key in range(1, size):
                    grams[num_grams, key] = rows[row, key - 1]
                probability = (np.float32(count) - amounts[min(count, 3)]) / np.float32(total)
                gram_values[num_grams, size] = probability
                gram_values[num_grams, size + 1] = weight
                num_grams += 1
        _copy(rows, start, contexts, num_contexts, size - 1)
        contexts[num_contexts, size - 1] = np.float32(weight).view(np.uint32)
        num_contexts += 1
        start = end
    return start, num_grams, num_contexts


@_KERNEL
def find(rows, i, table, j, keys, found):  # type: ignore[no-untyped-def]
    """Look up sorted rows by their first keys in a sorted table, until one of both has ended.

    :param found: gets the value after the keys for each row that is in the table.
    :return: the places after the last finished row, and in the table.
    """
    while i < len(rows) and j < len(table):
        order = _compare(rows, i, table, j, keys)
        if order == 0:
            found[i] = table[j, keys]
        if order <= 0:
            i += 1
        else:
            j += 1
    return i, j


@_KERNEL
def log10(values):  # type: ignore[no-untyped-def]
    """Return the base-10 logarithms of float32 values, as KenLM computes them.

    It calls the C library. The last digits of numpy's logarithms depend on the processor.
    """
    logs = np.empty_like(values)
    for index in range(len(values)):
        logs[index] = math.log10(values[index])
    return logs


@_KERNEL
def _format_number(number, text, place):  # type: ignore[no-untyped-def]
    """Write the shortest decimal number that is read as this float32; return the place after it."""
    # As in lmplz, a number below 1e-6 has an exponent, which is 7 or 8.
    exact = abs(np.float64(number))
    decimals, scale = 5, 1e5
    digits = np.int64(np.rint(exact * scale))
    # Logarithms of probabilities: the smallest, of the float32 number below 1, is 2.6e-8.
    while decimals < 16 and np.float32(digits / scale) != np.float32(exact):
        decimals += 1
        scale *= 10
        digits = np.int64(np.rint(exact * scale))
    while decimals and digits % 10 == 0:
        decimals -= 1
        digits //= 10
    num_digits = 1
    while digits >= 10**num_digits:
        num_digits += 1
    exponent = 0
    if digits and decimals - num_digits >= 6:
        exponent = decimals - num_digits + 1
        decimals = num_digits - 1
    if number < 0:
        text[place] = _MINUS
        place += 1
    width = max(num_digits, decimals + 1)
    for index in range(width - 1, -1, -1):
        text[place + index + (index >= width - decimals)] = _ZERO + digits % 10
        digits //= 10
    if decimals:
        text[place + width - decimals] = _POINT
        width += 1
    if exponent:
        text[place + width] = _E
        text[place + width + 1] = _MINUS
        text[place + width + 2] = _ZERO + exponent
        width += 3
    return place + width


@_KERNEL
def format_ngrams(rows, size, log_probs, backoffs, words, starts, text):  # type: ignore[no-untyped-def]
    """Write n-grams in suffix order as lines of an ARPA file; return the number of bytes.

    :param backoffs: empty for the highest order.
    :param words: all words without separators; a word begins at ``starts[id]``.
    """
    place = 0
    for row in range(len(rows)):
        place = _format_number(log_probs[row], text, place)
        text[place] = _TAB
        for key in range(size - 1, -1, -1):
            word = rows[row, key]
            for index in range(starts[word], starts[word + 1]):
                place += 1
                text[place] = words[index]
            place += 1
            text[place] = _SPACE
        if len(backoffs):
            text[place] = _TAB
            place = _format_number(backoffs[row], text, place + 1)
        text[place] = _NEWLINE
        place += 1
    return place
