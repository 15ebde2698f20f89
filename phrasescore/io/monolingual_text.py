"""Text of one language, a tokenised sentence a line.

Words are separated by U+0020 only and lines by U+000A only, as in Moses; several spaces are one,
and one ``\\r`` at the end of a line is not part of it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from phrasescore.errors import DataError
from phrasescore.io.text import decode, read_lines

# Of Moses' files; in text, Moses has "&#124;" for each of the three.
FIELD_SEPARATOR = "|||"


class TextLine(NamedTuple):
    """A line: its bytes and its words."""

    raw: bytes
    words: tuple[str, ...]


def read_monolingual_text(path: str) -> Iterator[TextLine]:
    """Yield each sentence of a text, in order, lazily.

    An empty line is a sentence without words, as it is for KenLM: its end is predicted.

    :param path: ``.gz`` and ``-`` included.
    :raises DataError: on reading, naming file and line: as `sentence_words`; if the file has no
        line, or none with a word; and as :func:`phrasescore.io.text.read_lines`.
    """
    has_words = False
    for number, raw in enumerate(read_lines(path), start=1):
        words = sentence_words(path, number, raw)
        has_words = has_words or bool(words)
        yield TextLine(raw, words)
    if not has_words:
        raise DataError(path, None, "expected a tokenised text, found no word")


def sentence_words(path: str, number: int, line: bytes) -> tuple[str, ...]:
    """Return the words of a line, which may have none.

    :param number: of the line, from 1.
    :raises DataError: if it is not UTF-8; or, of the first line, if it has fields as phrase tables
        and n-best lists have.
    """
    text = decode(path, number, line).removesuffix("\r")
    words = tuple(word for word in text.split(" ") if word)
    # Further on it may be a word of some odd sentence; those files have it from the first line on.
    if number == 1 and FIELD_SEPARATOR in words:
        problem = f"expected a sentence, found {FIELD_SEPARATOR!r} among its words"
        raise DataError(path, number, f"{problem}: is it a phrase table, or an n-best list?")
    return words
