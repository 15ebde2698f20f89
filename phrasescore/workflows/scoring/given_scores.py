"""Scores that another program has made: a number per line of a phrase table or an n-best list."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from moses_integration.nbest_lines import LARGEST_VALUE, parse_number
from phrasescore.errors import DataError, shown_path
from phrasescore.io.journal import new_digest
from phrasescore.io.text import (
    InputLines,
    count_lines,
    is_stream,
    read_blocks,
    read_lines,
    shorten,
)

_Lines = TypeVar("_Lines", bound=InputLines)


class GivenScores:
    """Scores of the lines of an input, in their order; all are in memory, 8 bytes each.

    ``str()`` says how many there are, for the end of a run.

    :ivar fingerprint: a digest of the scores.

    :param path: a number per line; plain or gzip, ``-`` is stdin.
    :param highest: a larger number is refused.
    :raises DataError: if the file cannot be read, or a line is not a finite number.
    """

    def __init__(self, path: str, highest: float = LARGEST_VALUE) -> None:
        self._path = path
        numbers = self._read(highest)
        self._values: NDArray[np.float64] = np.fromiter(numbers, np.float64)
        self.fingerprint = new_digest(self._values.tobytes()).hexdigest()

    def __str__(self) -> str:
        return f"{len(self._values):,} scores from {shown_path(self._path)}"

    def of(self, lines: InputLines) -> NDArray[np.float64]:
        """Return the score of each of some lines."""
        return self._values[lines.before : lines.before + lines.num_lines]

    def check_count(self, num_lines: int, path: str) -> None:
        """Check that the number of scores equals the number of lines.

        :param path: the path of the file with the lines.
        :raises DataError: with the first line that lacks a score, or the first score of no line.
        """
        given = len(self._values)
        if given < num_lines:
            where = shown_path(self._path)
            problem = f"expected a score for each of {num_lines:,} lines, {where} has {given:,}"
            raise DataError(path, given + 1, problem)
        if given > num_lines:
            where = shown_path(path)
            problem = f"expected {num_lines:,} scores, one per line of {where}, found {given:,}"
            raise DataError(self._path, num_lines + 1, problem)

    def _read(self, highest: float) -> Iterator[float]:
        for number, raw in enumerate(read_lines(self._path), start=1):
            value = parse_number(raw.strip(b" \t\r"), self._path, number)
            if value > highest:
                problem = f"expected a natural logarithm of at most {highest:g}"
                raise DataError(self._path, number, f"{problem}, found {shorten(raw)}")
            yield value


def check_counts(
    lines: Iterator[_Lines], path: str, scores: Sequence[GivenScores]
) -> Iterator[_Lines]:
    """Return the lines of an input, each of which has its scores.

    A file's lines are counted at the call, a stream's while it is read.

    :param path: the path of the input.
    :raises DataError: at the call, or on reaching the end of a stream or of its scores, as
        :meth:`GivenScores.check_count`.
    """
    if scores and is_stream(path):
        return _counted(lines, path, scores)
    if scores:
        _check_all(scores, sum(map(count_lines, read_blocks(path))), path)
    return lines


def _counted(lines: Iterable[_Lines], path: str, scores: Sequence[GivenScores]) -> Iterator[_Lines]:
    count = 0
    for part in lines:
        count = part.before + part.num_lines
        if all(len(each.of(part)) == part.num_lines for each in scores):
            yield part  # if a score is missing, the rest is read only for the count
    _check_all(scores, count, path)


def _check_all(scores: Sequence[GivenScores], num_lines: int, path: str) -> None:
    for each in scores:
        each.check_count(num_lines, path)
