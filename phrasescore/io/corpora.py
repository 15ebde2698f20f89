"""Read monolingual text, or two parallel files.

Lines end at U+000A only; `phrasescore.records.split_words` divides them into words.
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from phrasescore.errors import DataError, shown_path
from phrasescore.io.text import check_markup, decode, read_lines
from phrasescore.records import PhrasePair, split_words

_MARKS = ("<s>", "</s>")  # models add these to each sentence
FIELD_SEPARATOR = "|||"  # in text, Moses writes "&#124;" for each of its characters


class TextLine(NamedTuple):
    """The bytes and the words of a line."""

    raw: bytes
    words: tuple[str, ...]


def read_monolingual_text(path: str, *, refuse_unknown: bool = False) -> Iterator[TextLine]:
    """Yield each sentence of a text lazily, in order.

    An empty line is a sentence without words, as in KenLM. A file without words is an error, and so
    are ``<s>`` and ``</s>``, and ``<unk>`` if it is refused.
    """
    words_of = plain_words if refuse_unknown else _unmarked_words
    has_words = False
    for number, raw in enumerate(read_lines(path), start=1):
        words = words_of(path, number, raw)
        has_words = has_words or bool(words)
        yield TextLine(raw, words)
    if not has_words:
        raise DataError(path, None, "expected a tokenised text, found no word")


class ParallelLine(NamedTuple):
    """The lines of all files, joined by newlines, and the words of both texts."""

    raw: bytes
    pair: PhrasePair


def read_parallel_text(
    source: str, target: str, *others: str, allow_empty: bool = False
) -> Iterator[ParallelLine]:
    """Yield each sentence with its translation lazily, in order.

    In training text an empty line is an error: aligners and cleaning scripts write no empty lines,
    so the files are not clean or do not belong together. ``<s>`` and ``</s>`` are errors, too.

    :param others: files with as many lines, such as word alignments.
    :param allow_empty: whether to accept empty lines and all words, as outside of training text.
    """
    words = sentence_words if allow_empty else _words
    number = 0
    for number, lines in enumerate(read_together(source, target, *others), start=1):
        sides = (words(source, number, lines[0]), words(target, number, lines[1]))
        yield ParallelLine(b"\n".join(lines), PhrasePair._make(sides))
    if number == 0:
        raise DataError(source, None, "expected parallel text, found an empty file")


def read_together(*paths: str) -> Iterator[tuple[bytes, ...]]:
    """Yield the lines of several files side by side; files of different lengths are an error."""
    for number, lines in enumerate(zip_longest(*map(read_lines, paths)), start=1):
        if None in lines:
            ended = paths[lines.index(None)]
            other = next(path for path, line in zip(paths, lines, strict=True) if line is not None)
            problem = (
                f"expected as many lines as {shown_path(other)} has, found the end of the file"
            )
            raise DataError(ended, number, problem)
        yield lines


def sentence_words(path: str, number: int, line: bytes) -> tuple[str, ...]:
    """Return the words of a line, possibly none; reject markup, and fields in the first line."""
    text = decode(path, number, line)
    check_markup(path, number, text)
    words = split_words(text)
    # In a later line it may be a word; tables and lists have it from the first line on.
    if number == 1 and FIELD_SEPARATOR in words:
        problem = f"expected a sentence, found {FIELD_SEPARATOR!r} among its words:"
        raise DataError(path, number, f"{problem} is it a phrase table, or an n-best list?")
    return words


def check_no_marks(path: str, number: int, raw: bytes, words: tuple[str, ...]) -> None:
    """Reject a sentence with the words ``<s>`` or ``</s>``, as KenLM's lmplz does."""
    if b"s>" not in raw:
        return
    for mark in _MARKS:
        if mark in words:
            raise DataError(
                path,
                number,
                f"expected text without <s> and </s>, found {mark} as a word; models add them: "
                r"remove them, as with sed 's/^<s> //; s/ <\/s>$//'",
            )


def _unmarked_words(path: str, number: int, line: bytes) -> tuple[str, ...]:
    words = sentence_words(path, number, line)
    check_no_marks(path, number, line, words)
    return words


def _words(path: str, number: int, line: bytes) -> tuple[str, ...]:
    words = _unmarked_words(path, number, line)
    if not words:
        raise DataError(path, number, "expected a sentence, found an empty line")
    return words


def plain_words(path: str, number: int, raw: bytes) -> tuple[str, ...]:
    """Return the words of a line, which may not be symbols of n-gram models."""
    words = _unmarked_words(path, number, raw)
    if b"<unk>" in raw and "<unk>" in words:
        problem = "expected text without <unk>, found it as a word; models add it"
        raise DataError(path, number, problem)
    return words
