"""Text of one language, a tokenised sentence a line.

Words are separated by U+0020 only and lines by U+000A only, as in Moses; several spaces are one,
and one ``\\r`` at the end of a line is not part of it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from phrasescore.errors import DataError
from phrasescore.text import decode, read_lines


class TextLine(NamedTuple):
    """A line: its bytes and its words."""

    raw: bytes
    words: tuple[str, ...]


def read_monolingual_text(path: str) -> Iterator[TextLine]:
    """Yield each sentence of a text, in order, lazily.

    An empty line is a sentence without words, as it is for KenLM: its end is predicted.

    :param path: ``.gz`` and ``-`` included.
    :raises DataError: on reading, naming file and line: if a line is not UTF-8; if the file has no
        line, or none with a word; and as :func:`phrasescore.text.read_lines`.
    """
    has_words = False
    for number, raw in enumerate(read_lines(path), start=1):
        text = decode(path, number, raw).removesuffix("\r")
        words = tuple(word for word in text.split(" ") if word)
        has_words = has_words or bool(words)
        yield TextLine(raw, words)
    if not has_words:
        raise DataError(path, None, "expected a tokenised text, found no word")
