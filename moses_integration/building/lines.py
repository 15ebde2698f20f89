"""Write the lines of a phrase table and a reordering table, in compiled code.

Each item is written with a space after it; at the end of a line, a newline replaces the space.
"""

import numpy as np

from moses_integration.building.numerals import MAX_NUMERAL, put_count, put_number, round_count
from moses_integration.building.pairs import score_words
from moses_integration.building.rows import KERNEL, get_word, has_link

_SPACE, _BAR, _MINUS, _ZERO, _NEWLINE = 32, 124, 45, 48, 10
_SMOOTHING = 0.5  # is added to the count of each orientation, as by train-model.perl


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
