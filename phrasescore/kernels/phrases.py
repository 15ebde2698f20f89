"""Join blocks of phrase pairs, and build prefix trees of phrases, in compiled code.

A tree is built from sorted sequences, whose nodes are created in order. If sequences are sorted by
root and words, sequences with a common prefix are adjacent, and the prefix itself comes first. No
earlier sequence shares more words with a sequence than the previous one does, so each further word
is a new node. At every depth, nodes are in the order of their parents.
"""

from collections.abc import Sequence

import numpy as np

from phrasescore.io.kernel_cache import kept_njit
from phrasescore.records import PhraseBlock

_KERNEL = kept_njit()


@_KERNEL
def _shared(ids, starts, lengths, one, other):  # type: ignore[no-untyped-def]
    """Return the length of two sequences' longest common prefix."""
    count = min(lengths[one], lengths[other])
    a, b = starts[one], starts[other]
    for index in range(count):
        if ids[a + index] != ids[b + index]:
            return index
    return count


@_KERNEL
def _is_after(ids, starts, lengths, one, other):  # type: ignore[no-untyped-def]
    """Return whether a sequence sorts after another sequence; False for equal sequences."""
    shared = _shared(ids, starts, lengths, one, other)
    if shared == lengths[one] or shared == lengths[other]:
        return lengths[one] > lengths[other]
    return ids[starts[one] + shared] > ids[starts[other] + shared]


@_KERNEL
def _sort(ids, starts, lengths, order, spare):  # type: ignore[no-untyped-def]
    """Sort sequences by their words with merge sort, which is fast if they are nearly in order.

    :param order: the indices of the sequences, sorted in place.
    :param spare: scratch memory of at least the same length.
    """
    size = len(order)
    width = 1
    while width < size:
        for begin in range(0, size - width, 2 * width):
            middle, end = begin + width, min(begin + 2 * width, size)
            if not _is_after(ids, starts, lengths, order[middle - 1], order[middle]):
                continue
            left, right = begin, middle
            for index in range(begin, end):
                if right >= end or (
                    left < middle and not _is_after(ids, starts, lengths, order[left], order[right])
                ):
                    spare[index] = order[left]
                    left += 1
                else:
                    spare[index] = order[right]
                    right += 1
            for index in range(begin, end):
                order[index] = spare[index]
        width *= 2


@_KERNEL
def pack_keys(ids, starts, lengths, roots, word_bits, num_words):  # type: ignore[no-untyped-def]
    """Pack each sequence's root and first words into a number.

    :param word_bits: number of bits for a word's id plus 1; the value 0 stands for no word.
    :param num_words: number of words in a packed number.
    """
    numbers = np.empty(len(lengths), np.int64)
    for sequence in range(len(lengths)):
        key, start = roots[sequence], starts[sequence]
        for index in range(num_words):
            key <<= word_bits
            if index < lengths[sequence]:
                key |= ids[start + index] + 1
        numbers[sequence] = key
    return numbers


@_KERNEL
def _sort_equal(ids, starts, lengths, values, order):  # type: ignore[no-untyped-def]
    """Sort sequences with equal numbers from :func:`pack_keys` by all of their words."""
    spare = np.empty_like(order)
    begin = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or values[order[end]] != values[order[begin]]:
            if end - begin > 1:
                _sort(ids, starts, lengths, order[begin:end], spare)
            begin = end


@_KERNEL
def _common(ids, starts, lengths, roots, order):  # type: ignore[no-untyped-def]
    """Return how many words each sorted sequence shares with the previous one."""
    common = np.zeros(len(order), np.int64)
    for index in range(1, len(order)):
        one, other = order[index - 1], order[index]
        if roots[one] == roots[other]:
            common[index] = _shared(ids, starts, lengths, one, other)
    return common


@_KERNEL
def grow(ids, starts, lengths, roots, values, order):  # type: ignore[no-untyped-def]
    """Return the nodes in all levels, concatenated by level, and the end node of each sequence.

    :param values: the number of each sequence, from :func:`pack_keys`.
    :param order: the sequences sorted by these numbers; ties in any order.
    :return: ``level_starts, parents, words, end_starts, ends, end_nodes``. Level i of ``parents``
        and ``words`` is ``level_starts[i]:level_starts[i + 1]``, and parents are indices into the
        level above, or roots. Level i of ``ends``, the sequences that end there, and of
        ``end_nodes``, the nodes at which they end, is ``end_starts[i]:end_starts[i + 1]``.
    """
    _sort_equal(ids, starts, lengths, values, order)
    common = _common(ids, starts, lengths, roots, order)
    depth = 0
    for length in lengths:
        depth = max(depth, length)
    level_starts, end_starts = np.zeros(depth + 1, np.int64), np.zeros(depth + 1, np.int64)
    for index in range(len(order)):
        length = lengths[order[index]]
        for level in range(common[index], length):
            level_starts[level + 1] += 1
        if length > 0:
            end_starts[length] += 1
    for level in range(depth):
        level_starts[level + 1] += level_starts[level]
        end_starts[level + 1] += end_starts[level]
    parents, words = np.empty(level_starts[-1], np.int64), np.empty(level_starts[-1], np.int64)
    following = level_starts[:-1].copy()
    path = np.zeros(depth, np.int64)
    node_of = np.zeros(len(lengths), np.int64)
    for index in range(len(order)):
        sequence = order[index]
        length = lengths[sequence]
        for level in range(common[index], length):
            node = following[level]
            following[level] += 1
            parents[node] = path[level - 1] if level > 0 else roots[sequence]
            words[node] = ids[starts[sequence] + level]
            path[level] = node - level_starts[level]
        if length > 0:
            node_of[sequence] = path[length - 1]
    ends, end_nodes = np.empty(end_starts[-1], np.int64), np.empty(end_starts[-1], np.int64)
    following = end_starts[:-1].copy()
    for sequence in range(len(lengths)):
        level = lengths[sequence] - 1
        if level >= 0:
            ends[following[level]] = sequence
            end_nodes[following[level]] = node_of[sequence]
            following[level] += 1
    return level_starts, parents, words, end_starts, ends, end_nodes


def join_blocks(blocks: Sequence[PhraseBlock]) -> PhraseBlock:
    """Concatenate blocks; the text of the new block has only the phrases of their pairs."""
    sizes = [int((places[:, 1::2] - places[:, ::2]).sum()) for _, places, _ in blocks]
    text = np.empty(sum(sizes), np.uint8)
    spans = np.empty((sum(len(places) for _, places, _ in blocks), 4), np.int64)
    offset = first = 0
    for (data, places, _), size in zip(blocks, sizes, strict=True):
        after = first + len(places)
        _copy_phrases(np.frombuffer(data, np.uint8), places, offset, text, spans[first:after])
        offset, first = offset + size, after
    known = [block.affiliations for block in blocks if len(block.places)]
    affiliations = None
    if None not in known:
        affiliations = [pair for part in known for pair in part or []]
    return PhraseBlock(text.tobytes(), spans, affiliations)


@_KERNEL
def _copy_phrases(data, places, offset, text, spans):  # type: ignore[no-untyped-def]
    """Copy phrases, concatenated, into ``text`` from ``offset`` on, and set their spans."""
    for pair in range(len(places)):
        for side in range(0, 4, 2):
            spans[pair, side] = offset
            for position in range(places[pair, side], places[pair, side + 1]):
                text[offset] = data[position]
                offset += 1
            spans[pair, side + 1] = offset
