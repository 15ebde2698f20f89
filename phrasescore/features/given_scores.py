"""Columns of scores that another program has written into a file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Never, TypeVar

from phrasescore.errors import ArgumentError, DataError, shown_path
from phrasescore.features.columns import Column
from phrasescore.io.journal import new_digest
from phrasescore.io.text import (
    InputLines,
    count_lines,
    is_stream,
    parse_number,
    read_blocks,
    read_lines,
    shorten,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from phrasescore.features.request import ScoringRequest

_Lines = TypeVar("_Lines", bound=InputLines)


@dataclass(frozen=True)
class GivenScores(Column):
    """A file with a number per line of a table or of lists, which need a ``name`` for it."""

    paths: ClassVar[tuple[str, ...]] = ("scores",)

    scores: str  # the name of the file, or "-" for stdin

    def check(self, columns: Sequence[Column], *, of_phrases: bool) -> None:
        super().check(columns, of_phrases=of_phrases)
        if self.name is None and not of_phrases:
            raise ArgumentError(f"scores {self.scores}: a name is required for n-best lists")

    def load(self, _request: "ScoringRequest") -> Never:
        raise NotImplementedError("numbers from a file are not computed")


class ScoreLines:
    """The scores in a file or stdin, one per line of another file."""

    def __init__(self, path: str, highest: float) -> None:
        import numpy as np

        self._path = path
        self._values: NDArray[np.float64] = np.fromiter(self._read(highest), np.float64)
        self.fingerprint = new_digest(self._values.tobytes()).hexdigest()

    def __str__(self) -> str:
        return f"{len(self._values):,} scores from {shown_path(self._path)}"

    def of(self, lines: InputLines) -> "NDArray[np.float64]":
        """Return the scores for the given lines."""
        return self._values[lines.before : lines.before + lines.num_lines]

    def check_count(self, num_lines: int, path: str) -> None:
        """Check that there is one score for each line of ``path``."""
        given = len(self._values)
        if given != num_lines:
            problem = f"expected {num_lines:,} scores, one per line of {shown_path(path)}"
            line = min(given, num_lines) + 1
            raise DataError(self._path, line, f"{problem}, found {given:,}")

    def _read(self, highest: float) -> Iterator[float]:
        for number, raw in enumerate(read_lines(self._path), start=1):
            value = parse_number(raw.strip(b" \t\r"), self._path, number)
            if value > highest:
                problem = f"expected a natural logarithm of at most {highest:g}"
                raise DataError(self._path, number, f"{problem}, found {shorten(raw)}")
            yield value


def check_counts(
    lines: Iterator[_Lines], path: str, scores: Sequence[ScoreLines]
) -> Iterator[_Lines]:
    """Return the lines of ``path``, after checking (a stream: at its end) that each has a score."""
    if scores and is_stream(path):
        return _counted(lines, path, scores)
    if scores:
        num_lines = sum(map(count_lines, read_blocks(path)))
        for each in scores:
            each.check_count(num_lines, path)
    return lines


def _counted(lines: Iterator[_Lines], path: str, scores: Sequence[ScoreLines]) -> Iterator[_Lines]:
    count = 0
    for part in lines:
        count = part.before + part.num_lines
        if all(len(each.of(part)) == part.num_lines for each in scores):
            yield part  # if a score is missing, the rest is read only for the count
    for each in scores:
        each.check_count(count, path)
