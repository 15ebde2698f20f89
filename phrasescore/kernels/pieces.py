"""Split words into random pieces, in compiled code."""

import numpy as np
import numpy.typing as npt

from phrasescore.io.hashing import first_at_least
from phrasescore.io.kernel_cache import kept_njit

_KERNEL = kept_njit()
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11))


def mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Map 64-bit numbers one to one to pseudo-random ones (splitmix64; Steele et al., 2014)."""
    mixed = numbers + _STEP
    mixed = (mixed ^ (mixed >> _SHIFTS[0])) * _FACTORS[0]
    mixed = (mixed ^ (mixed >> _SHIFTS[1])) * _FACTORS[1]
    return mixed ^ (mixed >> _SHIFTS[2])


_mix = _KERNEL(mix)


@_KERNEL
def _merged(pairs, merged, key):  # type: ignore[no-untyped-def]
    """Return the id of the piece that a pair of pieces forms, or 0."""
    place = first_at_least(pairs, 0, len(pairs), key)
    return merged[place] if place < len(pairs) and pairs[place] == key else 0


@_KERNEL
def split_words(values, starts, words, states, pairs, merged, size, dropout, step):  # type: ignore[no-untyped-def]
    """Return the ids of words' pieces, concatenated, and the number of pieces of each word.

    In each step, each possible merge is skipped with the probability ``dropout``. Of the others,
    the merge with the lowest id is applied; among equal ids, the leftmost one (Provilkov et al.,
    2020, algorithm 1).

    :param values: the ids of the characters of word w are ``values[starts[w]:starts[w + 1]]``.
    :param words: the words to split.
    :param states: ``(words,)`` uint64: the state of each word's random numbers.
    :param pairs: sorted int64 keys of the pairs that can be merged: first id * ``size`` + second.
    :param merged: ``(pairs,)``: the ids of the pieces that they form.
    :param step: -1 to return the pieces of each word in reverse order, otherwise 1.
    """
    lengths = np.empty(len(words), np.int64)
    capacity = longest = 0
    for word in words:
        capacity += starts[word + 1] - starts[word]
        longest = max(longest, starts[word + 1] - starts[word])
    pieces = np.empty(capacity, np.int64)
    symbols, found = np.empty(longest, np.int64), np.empty(longest, np.int64)
    end = 0
    for index, word in enumerate(words):
        state = states[index]
        count = starts[word + 1] - starts[word]
        for place in range(count):
            symbols[place] = values[starts[word] + place]
        for place in range(count - 1):
            found[place] = _merged(pairs, merged, symbols[place] * size + symbols[place + 1])
        while True:
            best, chosen = size, -1
            for place in range(count - 1):
                # A draw that could not change the result is left out.
                if 0 < found[place] < best:
                    draw = _mix(state) >> _SHIFTS[3]
                    state += _STEP
                    if draw * 2.0**-53 >= dropout:
                        best, chosen = found[place], place
            if chosen < 0:
                break
            count -= 1
            symbols[chosen] = best
            for place in range(chosen + 1, count):
                symbols[place] = symbols[place + 1]
            for place in range(chosen, count - 1):
                found[place] = found[place + 1]
            for place in range(max(chosen - 1, 0), min(chosen + 1, count - 1)):
                found[place] = _merged(pairs, merged, symbols[place] * size + symbols[place + 1])
        for place in range(count):
            pieces[end + place] = symbols[place if step > 0 else count - 1 - place]
        lengths[index] = count
        end += count
    return pieces[:end], lengths
