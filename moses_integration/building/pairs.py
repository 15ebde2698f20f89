"""Count and score the phrase pairs in sorted rows, and write their lines, in compiled code."""

import numpy as np

from moses_integration.building.lexicon import look_up
from moses_integration.building.numerals import MAX_NUMERAL, put_count, put_number, round_count
from moses_integration.building.rows import COUNT_BITS, KERNEL, count_of, get_word, has_link

_SPACE, _BAR, _MINUS, _ZERO, _NEWLINE = 32, 124, 45, 48, 10


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
        if index == 0 or not _is_equal(rows, index, index - 1, 0, links):
            num_pairs += 1
    best, inverse = np.empty(num_pairs, np.int64), np.empty(num_pairs, np.int64)
    counts, source_counts = np.zeros(num_pairs, np.int64), np.empty(num_pairs, np.int64)
    orientations = np.zeros((num_pairs, 2, 5), np.int64)
    pair = source_pair = -1
    start = source_count = 0
    end = 0
    while start < len(rows):
        if start == 0 or not _is_equal(rows, start, start - 1, 0, source_columns):
            source_counts[max(source_pair, 0) : pair + 1] = source_count
            source_pair, source_count = pair + 1, 0
        pair += 1
        best_count = 0
        end = start
        while end < len(rows) and _is_equal(rows, end, start, 0, links):
            # Rows with this alignment, which differ in their orientations.
            first, count = end, 0
            while end < len(rows) and _is_equal(rows, end, first, 0, rows.shape[1] - 1):
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
def _is_equal(rows, one, other, first, after):  # type: ignore[no-untyped-def]
    for column in range(first, after):  # noqa: SIM110 (numba has no generator expressions)
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
def score_words(row, layout, lexicon, nulls):  # type: ignore[no-untyped-def]
    """Return the lexical weight p(target | source) of a pair with its alignment (Koehn, 2003)."""
    source, target, links = layout
    starts, targets, forward = lexicon
    length = source[4]
    score = 1.0
    for index in range(length):
        word = get_word(row, target, index)
        if word < 0:
            break
        total, count = 0.0, 0
        for other in range(length):
            if has_link(row, links, length, other, index):
                linked = get_word(row, source, other)
                total += look_up(starts, targets, forward, linked, word)
                count += 1
        if count == 0:
            score *= look_up(starts, targets, forward, nulls[0], word)
        else:
            score *= total / count
    return np.float32(score)


@KERNEL
def score_words_inverse(row, layout, lexicon, nulls):  # type: ignore[no-untyped-def]
    """Return the lexical weight p(source | target) of a pair with its alignment."""
    source, target, links = layout
    starts, targets, backward = lexicon
    length = source[4]
    score = 1.0
    for index in range(length):
        word = get_word(row, source, index)
        if word < 0:
            break
        total, count = 0.0, 0
        for other in range(length):
            if has_link(row, links, length, index, other):
                linked = get_word(row, target, other)
                total += look_up(starts, targets, backward, word, linked)
                count += 1
        if count == 0:
            score *= look_up(starts, targets, backward, word, nulls[1])
        else:
            score *= total / count
    return np.float32(score)


@KERNEL
def _text_size(row, packing, starts):  # type: ignore[no-untyped-def]
    size = 0
    for index in range(packing[4]):
        word = get_word(row, packing, index)
        if word < 0:
            break
        size += starts[word + 1] - starts[word]
    return size


@KERNEL
def _put_phrase(out, at, row, packing, text, starts):  # type: ignore[no-untyped-def]
    """Write the words of a phrase, each with a space after it, and ``|||``."""
    for index in range(packing[4]):
        word = get_word(row, packing, index)
        if word < 0:
            break
        for position in range(starts[word], starts[word + 1]):
            out[at] = text[position]
            at += 1
    return _put_bars(out, at)


@KERNEL
def _put_bars(out, at):  # type: ignore[no-untyped-def]
    out[at] = out[at + 1] = out[at + 2] = _BAR
    return at + 3


@KERNEL
def _put_index(out, at, number):  # type: ignore[no-untyped-def]
    divisor = 1
    while number // divisor >= 10:
        divisor *= 10
    while divisor > 0:
        out[at] = _ZERO + number // divisor % 10
        divisor //= 10
        at += 1
    return at


@KERNEL
def _put_alignment(out, at, row, links, length):  # type: ignore[no-untyped-def]
    for target in range(length):
        for source in range(length):
            if has_link(row, links, length, source, target):
                out[at] = _SPACE
                at = _put_index(out, at + 1, source)
                out[at] = _MINUS
                at = _put_index(out, at + 1, target)
    return at


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
def write_phrase_table(rows, pairs, totals, layout, texts, lexicon, nulls, min_count):  # type: ignore[no-untyped-def]
    """Return the lines of a phrase table as bytes."""
    best, inverse, counts, source_counts, _ = pairs
    source, target, links = layout
    source_text, source_starts, target_text, target_starts = texts
    starts, targets, forward, backward = lexicon
    length = source[4]
    size = 0
    for pair in range(len(best)):
        row = rows[best[pair]]
        size += _text_size(row, source, source_starts) + _text_size(row, target, target_starts)
        size += 8 * MAX_NUMERAL + 40 + 8 * _count_links(row, links)
    out = np.empty(size, np.uint8)
    at = 0
    for pair in range(len(best)):
        if counts[pair] < min_count:
            continue
        row = rows[best[pair]]
        at = _put_phrase(out, at, row, source, source_text, source_starts)
        out[at] = _SPACE
        at = _put_phrase(out, at + 1, row, target, target_text, target_starts)
        joint, source_count = round_count(counts[pair]), round_count(source_counts[pair])
        target_count = round_count(totals[pair])
        for score in (
            np.float32(joint) / np.float32(target_count),
            score_words_inverse(rows[inverse[pair]], layout, (starts, targets, backward), nulls),
            np.float32(joint) / np.float32(source_count),
            score_words(row, layout, (starts, targets, forward), nulls),
        ):
            out[at] = _SPACE
            at = put_number(out, at + 1, np.float64(score))
        out[at] = _SPACE
        at = _put_alignment(out, _put_bars(out, at + 1), row, links, length)
        out[at] = _SPACE
        at = _put_bars(out, at + 1)
        for count in (target_count, source_count, joint):
            out[at] = _SPACE
            at = put_count(out, at + 1, count)
        out[at] = _SPACE
        at = _put_bars(out, at + 1)
        out[at] = _SPACE
        at = _put_bars(out, at + 1)
        out[at] = _NEWLINE
        at += 1
    return out[:at]


@KERNEL
def write_reordering(rows, pairs, layout, texts, model, smoothing):  # type: ignore[no-untyped-def]
    """Return the lines of a reordering table as bytes.

    :param model: the number of classes, and whether the previous and the next phrase count.
    """
    best, _, _, _, orientations = pairs
    source, target, _ = layout
    source_text, source_starts, target_text, target_starts = texts
    classes, has_previous, has_next = model
    size = 0
    for pair in range(len(best)):
        row = rows[best[pair]]
        size += _text_size(row, source, source_starts) + _text_size(row, target, target_starts)
        size += 2 * classes * (MAX_NUMERAL + 1) + 10
    out = np.empty(size, np.uint8)
    scores = np.empty(classes)
    at = 0
    for pair in range(len(best)):
        row = rows[best[pair]]
        at = _put_phrase(out, at, row, source, source_text, source_starts)
        out[at] = _SPACE
        at = _put_phrase(out, at + 1, row, target, target_text, target_starts)
        for side in range(2):
            if not (has_previous if side == 0 else has_next):
                continue
            counts = orientations[pair, side]
            total = 0.0
            for number in range(classes):
                count = counts[number]
                if classes == 3 and number == 2:
                    count += counts[3] + counts[4]
                scores[number] = count + smoothing
                total += scores[number]
            for number in range(classes):
                out[at] = _SPACE
                at = put_number(out, at + 1, scores[number] / total)
        out[at] = _NEWLINE
        at += 1
    return out[:at]
