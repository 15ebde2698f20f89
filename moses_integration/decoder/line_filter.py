"""Find in a table the lines that begin with some phrases, at about the speed of the file.

A line is looked at in compiled code up to the end of its key: the words of its first field (a
source phrase), or of its first two (a phrase pair). A key is known by a 64-bit hash of its words,
whatever blanks stand between them; the lines that match are parsed by the caller, in Python.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from moses_integration.decoder.ngram_table import KERNEL, find
from phrasescore.errors import DataError
from phrasescore.io.text import read_blocks, shorten

# FNV-1a over the bytes of a word, the mixing of splitmix64 (Steele et al., 2014) over words.
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_FACTOR, _SHIFT = np.uint64(0xBF58476D1CE4E5B9), np.uint64(29)
_SEPARATOR = np.uint64(0x9E3779B97F4A7C15)  # in the place of a word, where a field ends
_EMPTY = np.uint64(0)


class LineFilter:
    """A set of keys, and the lines of a file that have one of them."""

    def __init__(self, keys: Any, num_fields: int) -> None:
        self._keys = keys
        self._num_fields = num_fields

    @classmethod
    def of_phrases(cls, sentences: Iterable[Sequence[str]], max_length: int) -> "LineFilter":
        """Return a filter of lines whose first field is a phrase of some sentences.

        :param max_length: of a phrase, in words.
        """
        distinct = {" ".join(sentence) for sentence in sentences}
        text = "".join(f"{sentence}\n" for sentence in sorted(distinct)).encode()
        words = [sentence.count(" ") + 1 for sentence in distinct]
        keys = _make_keys(sum(min(max_length, count) * count for count in words))
        _insert_phrases(np.frombuffer(text, np.uint8), max_length, keys)
        return cls(keys, 1)

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[bytes, bytes]]) -> "LineFilter":
        """Return a filter of lines whose first two fields are one of these pairs of phrases."""
        lines = [b"%b|||%b|||\n" % pair for pair in pairs]
        keys = _make_keys(len(lines))
        _insert_keys(np.frombuffer(b"".join(lines), np.uint8), 2, keys)
        return cls(keys, 2)

    def matching_lines(self, path: str) -> Iterator[tuple[int, bytes]]:
        """Yield number, from 1, and text of the lines with a key of this set, in their order.

        :raises DataError: if the file cannot be read, or a line has too few fields.
        """
        number = 1
        for block in read_blocks(path):
            text = np.frombuffer(block, np.uint8)
            found, lines, problem = _scan(text, self._num_fields, self._keys)
            for start, end, line in found.tolist():
                yield number + line, block[start:end]
            if problem >= 0:
                line = block[problem:].partition(b"\n")[0]
                wanted = f"expected at least {self._num_fields + 1} fields separated by '|||'"
                raise DataError(path, number + lines, f"{wanted}, found {shorten(line)}")
            number += lines


def _make_keys(how_many: int) -> Any:
    return np.zeros((how_many + how_many // 2 + 16, 1), np.uint64)


@KERNEL
def _with_word(key: Any, word: Any) -> Any:
    mixed = (key ^ word) * _FACTOR
    return mixed ^ (mixed >> _SHIFT)


@KERNEL
def _insert(keys: Any, key: Any) -> None:
    slot = find(keys, key)
    if slot < 0:
        keys[-1 - slot, 0] = key


@KERNEL
def _insert_phrases(text: Any, max_length: int, keys: Any) -> None:
    """Insert the keys of all phrases of the lines of a text."""
    begin = 0
    while begin < len(text):
        key, word, length, position = _EMPTY, _BASIS, 0, begin
        following = -1  # where the second word begins
        while length < max_length:
            byte = text[position]
            if byte == 32 or byte == 10:
                if word != _BASIS:
                    length += 1
                    key = _with_word(key, word)
                    _insert(keys, _with_word(key, _SEPARATOR))
                    word = _BASIS
                if following < 0:
                    following = position + 1
                if byte == 10:
                    break
            else:
                word = (word ^ np.uint64(byte)) * _PRIME
            position += 1
        if length == 0:  # the line is at its end
            following = position + 1
        begin = following


@KERNEL
def _read_key(text: Any, position: int, num_fields: int) -> tuple[Any, int, int]:
    """Return the key of a line, how many of its fields have ended, and where it was left."""
    key, word, fields = _EMPTY, _BASIS, 0
    while fields < num_fields and position < len(text):
        byte = text[position]
        if byte == 10:
            break
        is_bar = byte == 124 and position + 2 < len(text)
        is_end = is_bar and text[position + 1] == 124 and text[position + 2] == 124
        if is_end or byte == 32 or byte == 9:
            if word != _BASIS:
                key, word = _with_word(key, word), _BASIS
            if is_end:
                key, fields = _with_word(key, _SEPARATOR), fields + 1
                position += 2
        else:
            word = (word ^ np.uint64(byte)) * _PRIME
        position += 1
    return key, fields, position


@KERNEL
def _insert_keys(text: Any, num_fields: int, keys: Any) -> None:
    position = 0
    while position < len(text):
        key, _, position = _read_key(text, position, num_fields)
        _insert(keys, key)
        position += 1  # over the newline


@KERNEL
def _scan(text: Any, num_fields: int, keys: Any) -> tuple[Any, int, int]:
    """Return start, end and number of the lines that match, how many lines there are, an error.

    The error is where a line begins that has too few fields, -1 if there is none.
    """
    found = np.empty((64, 3), np.int64)
    size, line, start = 0, 0, 0
    while start < len(text):
        key, fields, position = _read_key(text, start, num_fields)
        if fields < num_fields:
            return found[:size], line, start
        while position < len(text) and text[position] != 10:
            position += 1
        if find(keys, key) >= 0:
            if size == len(found):
                longer = np.empty((2 * size, 3), np.int64)
                longer[:size] = found
                found = longer
            found[size, 0], found[size, 1], found[size, 2] = start, position, line
            size += 1
        line += 1
        start = position + 1
    return found[:size], line, -1
