"""Select phrases that occur in some texts, the ones that a search of these texts can use.

Moses' filter-model-given-input.pl selects lines of a phrase table in the same way.
"""

from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from moses_integration.decoder.source import read_source
from phrasescore.errors import DataError
from phrasescore.io.kernel_cache import kept_njit

_KERNEL = kept_njit()

_NEWLINE, _SPACE = 10, 32
# FNV-1a, 64 bits; its upper half chooses the slot.
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_FREE = -1

# Phrases of up to this many words are hashed; of a longer one, this many first words.
_LOOKED_UP = 7
_LEAST_SLOTS = 1 << 12


class TextPhrases:
    """All sequences of consecutive words of some sentences, in a hash table of their offsets.

    Bytes are compared, so hash collisions cause no errors.

    :ivar text: UTF-8, one sentence per line, one space between words.
    """

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        lines = [" ".join(words) + "\n" for words in sentences if words]
        self.text = "".join(lines).encode()
        self._text = np.frombuffer(self.text or b"\n", np.uint8)
        self._slots = self._fill()
        # With a space on both sides of each word.
        self._spaced = b" " + self.text.replace(b"\n", b" \n ")

    @classmethod
    def read(cls, paths: Iterable[str]) -> Self:
        """Read texts; each must contain a word."""
        sentences: list[tuple[str, ...]] = []
        for path in paths:
            text = read_source(path)
            if not any(text):
                raise DataError(path, None, "expected a tokenised text, found no word")
            sentences += text
        return cls(sentences)

    def contain(self, text: bytes, phrases: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each phrase whether it occurs as consecutive words of a sentence.

        :param text: UTF-8; one space between the words of a phrase.
        :param phrases: ``(phrases, 2)``, begin and end of each in ``text``.
        """
        begins_like, is_longer = np.empty((2, len(phrases)), np.bool_)
        data = np.frombuffer(text, np.uint8)
        _look_up(data, phrases, self._text, self._slots, begins_like, is_longer)
        for phrase in np.flatnonzero(begins_like & is_longer):
            begin, end = phrases[phrase]
            begins_like[phrase] = b" %b " % text[begin:end] in self._spaced
        return begins_like

    def _fill(self) -> NDArray[np.int64]:
        """Return the offsets of all phrases of up to `_LOOKED_UP` words, by their hashes."""
        size = _LEAST_SLOTS
        while True:
            slots = np.full(size, _FREE, np.int64)
            if _add_phrases(self._text, _LOOKED_UP, slots):
                return slots
            size *= 2


@_KERNEL
def _hash(hashed, byte):  # type: ignore[no-untyped-def]
    return (hashed ^ np.uint64(byte)) * _PRIME


@_KERNEL
def _find(data, begin, end, hashed, text, slots):  # type: ignore[no-untyped-def]
    """Return the slot of a phrase, or the free slot where it belongs."""
    mask = len(slots) - 1
    slot = np.int64(hashed >> np.uint64(32)) & mask
    while slots[slot] != _FREE:
        start, length = slots[slot], 0
        # The text ends with a newline, which no phrase contains, so the loop stays inside.
        while begin + length < end and text[start + length] == data[begin + length]:
            length += 1
        if begin + length == end and text[start + length] in (_SPACE, _NEWLINE):
            return slot
        slot = (slot + 1) & mask
    return slot


@_KERNEL
def _add_phrases(text, longest, slots):  # type: ignore[no-untyped-def]
    """Store the offset of each phrase of up to ``longest`` words; return False if out of slots."""
    count, is_begin = 0, True
    for begin in range(len(text)):
        if is_begin and text[begin] != _NEWLINE:
            hashed, position, words = _BASIS, begin, 0
            while words < longest and text[position] != _NEWLINE:
                hashed = _hash(hashed, text[position])
                position += 1
                if text[position] == _SPACE or text[position] == _NEWLINE:
                    words += 1
                    slot = _find(text, begin, position, hashed, text, slots)
                    if slots[slot] == _FREE:
                        slots[slot] = begin
                        count += 1
                        if 2 * count > len(slots):
                            return False
        is_begin = text[begin] == _SPACE or text[begin] == _NEWLINE
    return True


@_KERNEL
def _look_up(data, phrases, text, slots, found, is_longer):  # type: ignore[no-untyped-def]
    """Mark the phrases that occur, by their first words if they are longer than the table's."""
    for phrase in range(len(phrases)):
        begin, end = phrases[phrase, 0], phrases[phrase, 1]
        hashed, words, position = _BASIS, 0, begin
        while position < end:
            words += data[position] == _SPACE
            if words == _LOOKED_UP:
                break
            hashed = _hash(hashed, data[position])
            position += 1
        found[phrase] = slots[_find(data, begin, position, hashed, text, slots)] != _FREE
        is_longer[phrase] = position < end
