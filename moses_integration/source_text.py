"""Source texts, and the keys of phrases that occur in them or in the lines of a table.

A text is tokenised, with one sentence per line. The key of a phrase is a 64-bit hash of its words
(`phrasescore.io.hashing`), regardless of the blanks between words. The key of a table's line is
that of the words in the first field (a source phrase) or in the first two (a phrase pair).
"""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import DataError
from phrasescore.io.characters import split_line
from phrasescore.io.hashing import EMPTY, NO_BYTES, add_byte, add_key, combine, find, make_table
from phrasescore.io.kernel_cache import kept_njit
from phrasescore.io.text import check_markup, decode, read_lines, shorten
from phrasescore.records import split_words

_KERNEL = kept_njit()

_SEPARATOR = np.uint64(0x9E3779B97F4A7C15)  # hashed like a word at the end of a field
_LOOKED_UP = 7  # number of words by which phrases are looked up: the first ones of longer phrases


def read_source(path: str, *, characters: bool = False) -> list[tuple[str, ...]]:
    """Return the words, or the characters, of each line; see `parse_sentence`."""
    sentences = [
        parse_sentence(path, number, raw) for number, raw in enumerate(read_lines(path), start=1)
    ]
    if not characters:
        return sentences
    return [tuple(split_line(path, number, words)) for number, words in enumerate(sentences, 1)]


def parse_sentence(path: str, number: int, raw: bytes) -> tuple[str, ...]:
    """Return the words of a line; reject markup that a decoder would interpret, and factors."""
    line = decode(path, number, raw)
    check_markup(path, number, line)
    words = split_words(line)
    for word in words:
        if "|" in word:
            problem = f"expected words without factors, found {shorten(word)}"
            raise DataError(path, number, f"{problem}; write &#124; for '|' in a word")
    return words


class TextPhrases:
    """All sequences of consecutive words in the given sentences.

    Moses' filter-model-given-input.pl uses them to select lines of a phrase table.
    """

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        # UTF-8, one sentence per line, one space between words.
        self.text = "".join(" ".join(words) + "\n" for words in sentences if words).encode()
        self._keys = _phrase_keys(self.text, _LOOKED_UP)
        # The text with a space on both sides of each word.
        self._spaced = b" " + self.text.replace(b"\n", b" \n ")

    @classmethod
    def read(cls, paths: Iterable[str], *, characters: bool = False) -> Self:
        """Read tokenised texts, as `read_source` does; each must contain at least one word."""
        sentences: list[tuple[str, ...]] = []
        for path in paths:
            text = read_source(path, characters=characters)
            if not any(text):
                raise DataError(path, None, "expected a tokenised text, found no words")
            sentences += text
        return cls(sentences)

    def contain(self, text: bytes, phrases: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each phrase whether its words occur consecutively in a sentence.

        :param text: UTF-8, with one space between the words of a phrase.
        :param phrases: ``(phrases, 2)``: the begin and end of each phrase in ``text``.
        """
        occurs, is_longer = np.empty((2, len(phrases)), np.bool_)
        _look_up(np.frombuffer(text, np.uint8), phrases, self._keys, occurs, is_longer)
        for phrase in np.flatnonzero(occurs & is_longer):
            begin, end = phrases[phrase]
            occurs[phrase] = b" %b " % text[begin:end] in self._spaced
        return occurs


def keys_of_sentences(sentences: Iterable[Sequence[str]], max_length: int) -> Any:
    """Return a table of the keys of all phrases in sentences."""
    distinct = {" ".join(sentence) for sentence in sentences}
    text = "".join(f"{sentence}\n" for sentence in sorted(distinct)).encode()
    return _phrase_keys(text, max_length)


def _phrase_keys(text: bytes, max_length: int) -> Any:
    keys = make_table(max_length * (text.count(b" ") + text.count(b"\n")))
    _add_phrases(np.frombuffer(text, np.uint8), max_length, keys)
    return keys


@_KERNEL
def _add_phrases(text: Any, max_length: int, keys: Any) -> None:
    begin = 0
    while begin < len(text):
        key, word, length, position = EMPTY, NO_BYTES, 0, begin
        following = -1  # where the second word begins
        while length < max_length:
            byte = text[position]
            if byte == 32 or byte == 10:
                if word != NO_BYTES:
                    length += 1
                    key = combine(key, word)
                    add_key(keys, combine(key, _SEPARATOR))
                    word = NO_BYTES
                if following < 0:
                    following = position + 1
                if byte == 10:
                    break
            else:
                word = add_byte(word, byte)
            position += 1
        begin = following


@_KERNEL
def _look_up(text: Any, phrases: Any, keys: Any, found: Any, is_longer: Any) -> None:
    """Mark the phrases that occur; of longer phrases, compare only ``_LOOKED_UP`` words."""
    for phrase in range(len(phrases)):
        end = phrases[phrase, 1]
        key, word, words, position = EMPTY, NO_BYTES, 0, phrases[phrase, 0]
        while True:
            if position == end or text[position] == 32:
                key, word, words = combine(key, word), NO_BYTES, words + 1
                if position == end or words == _LOOKED_UP:
                    break
            else:
                word = add_byte(word, text[position])
            position += 1
        found[phrase] = find(keys, combine(key, _SEPARATOR)) >= 0
        is_longer[phrase] = position < end


@_KERNEL
def read_key(text: Any, position: int, num_fields: int) -> tuple[Any, int, int]:
    """Return a line's key, the number of complete fields, and where reading stopped."""
    key, word, fields = EMPTY, NO_BYTES, 0
    while fields < num_fields and position < len(text):
        byte = text[position]
        if byte == 10:
            break
        is_bar = byte == 124 and position + 2 < len(text)
        is_end = is_bar and text[position + 1] == 124 and text[position + 2] == 124
        # The bytes in `phrasescore.records.BLANKS` except the newline.
        if is_end or byte == 32 or (byte < 14 and (byte > 8 or byte == 0)):
            if word != NO_BYTES:
                key, word = combine(key, word), NO_BYTES
            if is_end:
                key, fields = combine(key, _SEPARATOR), fields + 1
                position += 2
        else:
            word = add_byte(word, byte)
        position += 1
    return key, fields, position
