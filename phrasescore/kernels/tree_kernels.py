"""Prefix trees in compiled code: sort the sequences, and their nodes follow in order.

In sequences sorted by root and words, those with a common prefix stand side by side, the prefix
itself first. What a sequence shares with the one before it, it shares with all earlier ones; the
rest of its words are new nodes. They come in the order of their parents at every depth.
"""

import numpy as np

from phrasescore.io.kernel_cache import kept_njit

_KERNEL = kept_njit()


@_KERNEL
def _shared(ids, starts, lengths, one, other):  # type: ignore[no-untyped-def]
    """Return how many first words two sequences have in common."""
    count = min(lengths[one], lengths[other])
    a, b = starts[one], starts[other]
    for place in range(count):
        if ids[a + place] != ids[b + place]:
            return place
    return count


@_KERNEL
def _is_after(ids, starts, lengths, one, other):  # type: ignore[no-untyped-def]
    """Return whether a sequence comes after another one; of equal ones neither does."""
    shared = _shared(ids, starts, lengths, one, other)
    if shared == lengths[one] or shared == lengths[other]:
        return lengths[one] > lengths[other]
    return ids[starts[one] + shared] > ids[starts[other] + shared]


@_KERNEL
def _sort(ids, starts, lengths, order, spare):  # type: ignore[no-untyped-def]
    """Sort some sequences by their words: merge sort, fast where they are in order.

    :param order: their numbers, which get into order.
    :param spare: room for at least as many.
    """
    size = len(order)
    width = 1
    while width < size:
        for begin in range(0, size - width, 2 * width):
            middle, end = begin + width, min(begin + 2 * width, size)
            if not _is_after(ids, starts, lengths, order[middle - 1], order[middle]):
                continue
            left, right = begin, middle
            for place in range(begin, end):
                if right >= end or (
                    left < middle and not _is_after(ids, starts, lengths, order[left], order[right])
                ):
                    spare[place] = order[left]
                    left += 1
                else:
                    spare[place] = order[right]
                    right += 1
            for place in range(begin, end):
                order[place] = spare[place]
        width *= 2


@_KERNEL
def keys(ids, starts, lengths, roots, word_bits, num_words):  # type: ignore[no-untyped-def]
    """Return a number for each sequence: its root and its first words, one after another.

    :param word_bits: those of a word's id plus 1: 0 is no word.
    :param num_words: how many words a number holds.
    """
    found = np.empty(len(lengths), np.int64)
    for sequence in range(len(lengths)):
        key, start = roots[sequence], starts[sequence]
        for place in range(num_words):
            key <<= word_bits
            if place < lengths[sequence]:
                key |= ids[start + place] + 1
        found[sequence] = key
    return found


@_KERNEL
def _sort_equal(ids, starts, lengths, values, order):  # type: ignore[no-untyped-def]
    """Sort the sequences whose numbers, from :func:`keys`, are equal, by all of their words."""
    spare = np.empty_like(order)
    begin = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or values[order[end]] != values[order[begin]]:
            if end - begin > 1:
                _sort(ids, starts, lengths, order[begin:end], spare)
            begin = end


@_KERNEL
def _common(ids, starts, lengths, roots, order):  # type: ignore[no-untyped-def]
    """Return what each sorted sequence shares with the one before it, in words."""
    common = np.zeros(len(order), np.int64)
    for place in range(1, len(order)):
        one, other = order[place - 1], order[place]
        if roots[one] == roots[other]:
            common[place] = _shared(ids, starts, lengths, one, other)
    return common


@_KERNEL
def grow(ids, starts, lengths, roots, values, order):  # type: ignore[no-untyped-def]
    """Return the nodes of all levels, one level after another, and where each sequence ends.

    :param values: of :func:`keys`.
    :param order: the sequences in the order of these; of equal ones in any.
    :return: where each level's nodes begin in what follows, and where those of the last end; the
        parents in the level above (at the top: the roots) and the words of the nodes; where the
        sequences begin in the last array that end at each level; those sequences, in their order;
        and the node of its level at which each of the latter ends.
    """
    _sort_equal(ids, starts, lengths, values, order)
    common = _common(ids, starts, lengths, roots, order)
    depth = 0
    for length in lengths:
        depth = max(depth, length)
    level_starts, end_starts = np.zeros(depth + 1, np.int64), np.zeros(depth + 1, np.int64)
    for place in range(len(order)):
        length = lengths[order[place]]
        for level in range(common[place], length):
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
    for place in range(len(order)):
        sequence = order[place]
        length = lengths[sequence]
        for level in range(common[place], length):
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
