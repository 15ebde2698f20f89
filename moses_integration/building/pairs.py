"""Count and score the phrase pairs in sorted rows, in compiled code."""

import numpy as np

from moses_integration.building.extraction import COUNT_BITS, KERNEL, count_of, get_word, has_link
from moses_integration.building.lexicon import look_up


@KERNEL
def count_pairs(rows, layout):  # type: ignore[no-untyped-def]
    """Count the phrase pairs in sorted rows.

    :return: for each pair, a row with its most frequent alignment, a row with the one for the
        inverse direction, its count, and the count of its source phrase; ``(pairs, 2, 5)``: how
        often each orientation to the previous and to the next phrase occurred.
    :param layout: the number of source columns, the first column of the alignment, and the longest
        phrase.
    """
    source_columns, links, length = layout
    num_pairs = 0
    for index in range(len(rows)):
        if index == 0 or not _is_equal(rows, index, index - 1, links):
            num_pairs += 1
    best, inverse = np.empty(num_pairs, np.int64), np.empty(num_pairs, np.int64)
    counts, source_counts = np.zeros(num_pairs, np.int64), np.empty(num_pairs, np.int64)
    orientations = np.zeros((num_pairs, 2, 3), np.int64)
    pair = source_pair = -1
    start = source_count = 0
    while start < len(rows):
        if start == 0 or not _is_equal(rows, start, start - 1, source_columns):
            source_counts[max(source_pair, 0) : pair + 1] = source_count
            source_pair, source_count = pair + 1, 0
        pair += 1
        best_count = 0
        end = start
        while end < len(rows) and _is_equal(rows, end, start, links):
            # Rows with this alignment, which differ in their orientations.
            first, count = end, 0
            while end < len(rows) and _is_equal(rows, end, first, rows.shape[1] - 1):
                row_count = count_of(rows[end])
                kinds = np.int64(rows[end, rows.shape[1] - 1] >> np.uint64(COUNT_BITS))
                orientations[pair, 0, kinds // 8] += row_count
                orientations[pair, 1, kinds % 8] += row_count
                count += row_count
                end += 1
            if count > best_count:
                best[pair] = inverse[pair] = first
                best_count = count
            elif count == best_count:
                if _is_greater(rows[first], rows[best[pair]], links, length, False):
                    best[pair] = first
                if _is_greater(rows[first], rows[inverse[pair]], links, length, True):
                    inverse[pair] = first
            counts[pair] += count
        source_count += counts[pair]
        start = end
    source_counts[max(source_pair, 0) :] = source_count
    return best, inverse, counts, source_counts, orientations


@KERNEL
def _is_equal(rows, one, other, columns):  # type: ignore[no-untyped-def]
    for column in range(columns):  # noqa: SIM110 (numba has no generator expressions)
        if rows[one, column] != rows[other, column]:
            return False
    return True


@KERNEL
def _is_greater(one, other, links, length, is_inverse):  # type: ignore[no-untyped-def]
    """Compare two alignments as Moses does: the set of links of each word, as sorted sequences.

    :param is_inverse: whether words are source words, instead of target words.
    """
    for word in range(length):
        for linked in range(length):
            source, target = (word, linked) if is_inverse else (linked, word)
            has_one = has_link(one, links, length, source, target)
            if has_one == has_link(other, links, length, source, target):
                continue
            # One set goes on with this word. The other one goes on with a later word, or ends.
            shorter = other if has_one else one
            for later in range(linked + 1, length):
                source, target = (word, later) if is_inverse else (later, word)
                if has_link(shorter, links, length, source, target):
                    return not has_one
            return has_one
    return False


@KERNEL
def find_totals(rows, best, totals, first, columns):  # type: ignore[no-untyped-def]
    """Return the count of each pair's target phrase.

    :param totals: ``(phrases, columns + 1)``: sorted target phrases, each with its count.
    :param first: the first column of the target phrase in a row.
    """
    found = np.empty(len(best), np.int64)
    for pair in range(len(best)):
        row = rows[best[pair]]
        low, high = 0, len(totals)
        while low < high:
            middle = (low + high) // 2
            is_less = False
            for column in range(columns):
                if totals[middle, column] != row[first + column]:
                    is_less = totals[middle, column] < row[first + column]
                    break
            if is_less:
                low = middle + 1
            else:
                high = middle
        found[pair] = totals[low, columns]
    return found


@KERNEL
def score_words(row, layout, lexicon, nulls, is_inverse):  # type: ignore[no-untyped-def]
    """Return the lexical weight of a pair with its alignment (Koehn et al., 2003, section 4.4).

    :param lexicon: ``starts`` and ``targets`` of a `WordTables`, and the probabilities to multiply.
    :param nulls: the ranks of `NULL` in both languages.
    :param is_inverse: whether the source words are explained, instead of the target words.
    """
    source, target, links = layout
    starts, targets, probabilities = lexicon
    length = source[4]
    explained, explaining = (source, target) if is_inverse else (target, source)
    score = 1.0
    for index in range(length):
        word = get_word(row, explained, index)
        if word < 0:
            break
        total, count = 0.0, 0
        for other in range(length + 1):
            if other == length:  # an unaligned word
                if count > 0:
                    break
                partner = nulls[1] if is_inverse else nulls[0]
            elif is_inverse:
                if not has_link(row, links, length, index, other):
                    continue
                partner = get_word(row, explaining, other)
            else:
                if not has_link(row, links, length, other, index):
                    continue
                partner = get_word(row, explaining, other)
            first, second = (word, partner) if is_inverse else (partner, word)
            total += look_up(starts, targets, probabilities, first, second)
            count += 1
        score *= total / count
    return np.float32(score)
