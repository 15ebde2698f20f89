"""Word ids of phrases that lie in a text, in compiled code that lets other threads run."""

import numba
import numpy as np
from numpy.typing import NDArray

from phrasescore.scoring.prefix_tree import Sequences
from phrasescore.vocabulary import Vocabulary

_KERNEL = numba.njit(nogil=True, cache=True, error_model="numpy")

_SPACE = 32
# FNV-1a, 64 bits; its upper half chooses the slot.
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_FREE = -1


@_KERNEL
def _find(text, begin, end, words, word_ends, slots):  # type: ignore[no-untyped-def]
    """Return the slot of a word, or the free one where it would be."""
    hashed = _BASIS
    for position in range(begin, end):
        hashed = (hashed ^ np.uint64(text[position])) * _PRIME
    mask = len(slots) - 1
    slot = np.int64(hashed >> np.uint64(32)) & mask
    while slots[slot] != _FREE:
        number = slots[slot]
        start = word_ends[number - 1] if number > 0 else 0
        if word_ends[number] - start == end - begin:
            place = 0
            while place < end - begin and words[start + place] == text[begin + place]:
                place += 1
            if place == end - begin:
                return slot
        slot = (slot + 1) & mask
    return slot


@_KERNEL
def _fill(words, word_ends, slots):  # type: ignore[no-untyped-def]
    start = 0
    for number in range(len(word_ends)):
        slots[_find(words, start, word_ends[number], words, word_ends, slots)] = number
        start = word_ends[number]


@_KERNEL
def _number(text, begins, ends, words, word_ends, slots, first, unknown):  # type: ignore[no-untyped-def]
    size = 0
    for phrase in range(len(begins)):
        size += (ends[phrase] - begins[phrase] + 1) // 2  # a word and a space have two bytes
    ids, lengths = np.empty(size, np.int64), np.empty(len(begins), np.int64)
    count = 0
    for phrase in range(len(begins)):
        before, begin = count, begins[phrase]
        for position in range(begin, ends[phrase] + 1):
            if position == ends[phrase] or text[position] == _SPACE:
                if position > begin:
                    number = slots[_find(text, begin, position, words, word_ends, slots)]
                    ids[count] = unknown if number == _FREE else first + number
                    count += 1
                begin = position + 1
        lengths[phrase] = count - before
    return ids[:count].copy(), lengths


class WordNumbers:
    """A shortlist, as :meth:`Vocabulary.ids`, for words that are bytes of a text."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._first = len(Vocabulary.SYMBOLS)
        words = [vocabulary.word(number).encode() for number in range(self._first, len(vocabulary))]
        self._words = np.frombuffer(b"".join(words), np.uint8)
        self._word_ends = np.cumsum([len(word) for word in words], dtype=np.int64)
        # At most half full: searches are short.
        self._slots = np.full(1 << (2 * len(words)).bit_length(), _FREE, np.int64)
        _fill(self._words, self._word_ends, self._slots)

    def number(self, text: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Sequences:
        """Return the ids of the words of some phrases, 1 (``<unk>``) outside the shortlist.

        :param begins: where each phrase begins in ``text``; ``ends``: where it ends. One space or
            several are between words.
        """
        found = _number(
            np.frombuffer(text, np.uint8),
            np.ascontiguousarray(begins),
            np.ascontiguousarray(ends),
            *(self._words, self._word_ends, self._slots),
            *(self._first, Vocabulary.UNKNOWN),
        )
        return Sequences(*found)
