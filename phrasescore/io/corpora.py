"""Text: of one language, or two files line by line each other's translation.

Words are separated by U+0020 only and lines by U+000A only, as in Moses; several spaces are one,
and one ``\\r`` at the end of a line is not part of it.
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from phrasescore.errors import DataError, shown_path
from phrasescore.io.text import MARKUP, decode, read_lines, split_words
from phrasescore.records import PhrasePair

# Models put them around each sentence by themselves.
_MARKS = ("<s>", "</s>")
# Of Moses' files; in text, Moses has "&#124;" for each of the three.
FIELD_SEPARATOR = "|||"


class TextLine(NamedTuple):
    """A line: its bytes and its words."""

    raw: bytes
    words: tuple[str, ...]


def read_monolingual_text(path: str, *, refuse_marks: bool = False) -> Iterator[TextLine]:
    """Yield each sentence of a text, in order, lazily.

    An empty line is a sentence without words, as it is for KenLM: its end is predicted.

    :param path: ``.gz`` and ``-`` included.
    :param refuse_marks: whether ``<s>`` and ``</s>`` are errors, as in text that a language model
        learns from or is measured on.
    :raises DataError: on reading, naming file and line: as `sentence_words` and `check_no_marks`;
        if the file has no line, or none with a word; and as :func:`phrasescore.io.text.read_lines`.
    """
    has_words = False
    for number, raw in enumerate(read_lines(path), start=1):
        words = sentence_words(path, number, raw)
        if refuse_marks:
            check_no_marks(path, number, raw, words)
        has_words = has_words or bool(words)
        yield TextLine(raw, words)
    if not has_words:
        raise DataError(path, None, "expected a tokenised text, found no word")


class ParallelLine(NamedTuple):
    """A line of both files: their bytes, with a newline between them, and their words."""

    raw: bytes
    pair: PhrasePair


def read_parallel_text(
    source: str, target: str, *, allow_empty: bool = False
) -> Iterator[ParallelLine]:
    """Yield each sentence with its translation, in order, lazily.

    In training text an empty line on either side is an error, also if the other side is empty as
    well: aligners and cleaning scripts write none, so that it says that the files are not of one
    origin, or not clean. So are ``<s>`` and ``</s>``.

    :param source: a path, ``.gz`` included; one of the two may be ``-``.
    :param target: likewise.
    :param allow_empty: whether this is not training text: a line may have no word, as translations
        may, or any.
    :raises DataError: on reading, naming file and line: as `sentence_words`; if a line has no word,
        if one of the files has more lines than the other, or none has any; and as
        :func:`phrasescore.io.text.read_lines`.
    """
    words = sentence_words if allow_empty else _words
    number = 0
    lines = zip_longest(read_lines(source), read_lines(target))
    for number, (source_line, target_line) in enumerate(lines, start=1):
        if source_line is None or target_line is None:
            ended, other = (source, target) if source_line is None else (target, source)
            problem = (
                f"expected as many lines as {shown_path(other)} has, found the end of the file"
            )
            raise DataError(ended, number, problem)
        sides = (words(source, number, source_line), words(target, number, target_line))
        yield ParallelLine(b"%b\n%b" % (source_line, target_line), PhrasePair._make(sides))
    if number == 0:
        raise DataError(source, None, "expected parallel text, found an empty file")


def sentence_words(path: str, number: int, line: bytes) -> tuple[str, ...]:
    """Return the words of a line, which may have none.

    :param number: of the line, from 1.
    :raises DataError: if it is not UTF-8 or has markup; or, of the first line, if it has fields as
        phrase tables and n-best lists have.
    """
    text = decode(path, number, line).removesuffix("\r")
    MARKUP.check(path, number, text)
    words = split_words(text)
    # Further on it may be a word of some odd sentence; those files have it from the first line on.
    if number == 1 and FIELD_SEPARATOR in words:
        problem = f"expected a sentence, found {FIELD_SEPARATOR!r} among its words"
        raise DataError(path, number, f"{problem}: is it a phrase table, or an n-best list?")
    return words


def check_no_marks(path: str, number: int, raw: bytes, words: tuple[str, ...]) -> None:
    """Check that a sentence has no ``<s>`` and no ``</s>``, which would be unknown words.

    lmplz refuses them, too; IRSTLM wants them.

    :param raw: the line, which may have more text.
    :raises DataError: naming file and line.
    """
    if b"s>" not in raw:
        return
    for mark in _MARKS:
        if mark in words:
            problem = f"expected text without <s> and </s>, found {mark} as a word"
            cure = r"models add them: remove them, as with sed 's/^<s> //; s/ <\/s>$//'"
            raise DataError(path, number, f"{problem}; {cure}")


def _words(path: str, number: int, line: bytes) -> tuple[str, ...]:
    words = sentence_words(path, number, line)
    if not words:
        raise DataError(path, number, "expected a sentence, found an empty line")
    check_no_marks(path, number, line, words)
    return words
