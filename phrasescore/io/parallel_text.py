"""Parallel text: two files, line by line each other's translation.

Words are separated by U+0020 only and lines by U+000A only, as in Moses; several spaces are one,
and one ``\\r`` at the end of a line is not part of it.
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from phrasescore.errors import DataError, shown_path
from phrasescore.io.monolingual_text import sentence_words
from phrasescore.io.text import read_lines
from phrasescore.records import PhrasePair


class ParallelLine(NamedTuple):
    """A line of both files: their bytes, with a newline between them, and their words."""

    raw: bytes
    pair: PhrasePair


def read_parallel_text(source: str, target: str) -> Iterator[ParallelLine]:
    """Yield each sentence with its translation, in order, lazily.

    An empty line on either side is an error, also if the other side is empty as well: aligners and
    cleaning scripts write none, so that it says that the files are not of one origin, or not clean.

    :param source: a path, ``.gz`` included; one of the two may be ``-``.
    :param target: likewise.
    :raises DataError: on reading, naming file and line: as `sentence_words`; if a line has no word,
        if one of the files has more lines than the other, or none has any; and as
        :func:`phrasescore.io.text.read_lines`.
    """
    number = 0
    lines = zip_longest(read_lines(source), read_lines(target))
    for number, (source_line, target_line) in enumerate(lines, start=1):
        if source_line is None or target_line is None:
            ended, other = (source, target) if source_line is None else (target, source)
            problem = (
                f"expected as many lines as {shown_path(other)} has, found the end of the file"
            )
            raise DataError(ended, number, problem)
        pair = PhrasePair(_words(source, number, source_line), _words(target, number, target_line))
        yield ParallelLine(b"%b\n%b" % (source_line, target_line), pair)
    if number == 0:
        raise DataError(source, None, "expected parallel text, found an empty file")


def _words(path: str, number: int, line: bytes) -> tuple[str, ...]:
    words = sentence_words(path, number, line)
    if not words:
        raise DataError(path, number, "expected a sentence, found an empty line")
    return words
