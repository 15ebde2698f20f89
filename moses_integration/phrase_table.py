"""Read Moses' text phrase tables in blocks or line by line, and add scores to them.

Lexical translation tables are read, too. :mod:`moses_integration.table_line` describes the lines.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_integration.nbest_lines import parse_number
from moses_integration.table_line import (
    HIGHEST_LOG,
    check_no_rules,
    format_scores,
    insert_scores,
    parse_line,
    scan_lines,
    score_span,
)
from phrasescore.errors import DataError
from phrasescore.io.text import count_lines, decode, read_blocks, read_lines, shorten
from phrasescore.records import PhraseBlock, PhrasePair

_NEWLINE = 10


class PhraseTableLine(NamedTuple):
    """A valid line of a phrase table."""

    # 1-based, counted after decompression.
    number: int
    # The whole line without its newline, byte for byte.
    raw: bytes
    pair: PhrasePair
    # In field 3; the same in every line of a table.
    num_scores: int
    # b"\n", or b"" where the last line has no newline: raw + end are the bytes of the file.
    end: bytes


class TableBlock(NamedTuple):
    """Valid lines of a phrase table, and the offsets of their parts."""

    # The number of lines of the file before these.
    before: int
    # In field 3; the same in every line of a table.
    num_scores: int
    # UTF-8: the lines, among other lines of the file. The phrases of lines that are not plain
    # follow behind, with single spaces.
    data: bytes
    # (lines + 1,): where each line begins, and where the last one ends, with its newline if any.
    begins: NDArray[np.int64]
    # (lines,): where the last score of each line ends.
    score_ends: NDArray[np.int64]
    # (lines, 4): begin and end of the source, then of the target. Neither is empty.
    phrases: NDArray[np.int64]
    # (lines,): which lines get new scores; None for all.
    wanted: NDArray[np.bool_] | None = None
    # The new score of the other lines, a natural logarithm; None leaves these lines out.
    default: float | None = None

    @property
    def num_lines(self) -> int:
        """The number of lines, with or without new scores."""
        return len(self.score_ends)

    @property
    def num_pairs(self) -> int:
        """The number of lines that get new scores."""
        return len(self.score_ends) if self.wanted is None else int(self.wanted.sum())

    @property
    def raw(self) -> bytes:
        """The bytes of the lines."""
        return self.data[self.begins[0] : self.begins[-1]]

    def lines(self, first: int, after: int) -> "TableBlock":
        """Return the lines ``first`` to before ``after``, counted from 0."""
        return self._replace(
            before=self.before + first,
            begins=self.begins[first : after + 1],
            score_ends=self.score_ends[first:after],
            phrases=self.phrases[first:after],
            wanted=None if self.wanted is None else self.wanted[first:after],
        )

    @property
    def block(self) -> PhraseBlock:
        """The phrase pairs that get new scores, as offsets in the bytes."""
        wanted = self.phrases if self.wanted is None else self.phrases[self.wanted]
        return PhraseBlock(self.data, wanted)

    def pairs(self) -> Iterator[PhrasePair]:
        """Yield the phrase pairs that get new scores."""
        return self.block.pairs()

    def of_pairs(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values of the lines that get new scores, from one value per line."""
        return values if self.wanted is None else values[self.wanted]

    def with_scores(self, columns: Sequence[NDArray[np.float64]]) -> bytes:
        """Return the lines with more scores after the last one; every other byte stays.

        :param columns: natural logarithms, one array per column, one value per pair. Values above
            88 can only be counts and are written as 88: Moses reads a larger exp as infinity.
        """
        finite = [
            np.where(np.isinf(values), values, np.minimum(values, HIGHEST_LOG))
            for values in columns
        ]
        begins, ends, score_ends = self.begins[:-1], self.begins[1:], self.score_ends
        if self.wanted is not None and self.default is not None:
            spread = np.full((len(finite), self.num_lines), self.default)
            spread[:, self.wanted] = finite
            finite = list(spread)
        elif self.wanted is not None:
            begins, ends, score_ends = (
                array[self.wanted] for array in (begins, ends, self.score_ends)
            )
        added = np.frombuffer(format_scores(finite), np.uint8)
        text = np.frombuffer(self.data, np.uint8)
        return insert_scores(text, begins, ends, score_ends, added).tobytes()  # type: ignore[no-any-return]

    def table_lines(self) -> Iterator[PhraseTableLine]:
        """Yield the lines one by one."""
        new = tuple.__new__  # as in a NamedTuple's own __new__, twice as fast
        data, num_scores = self.data, self.num_scores
        stops = (self.begins[1:] - 1).tolist()
        ends = [b"\n"] * len(stops)
        if data[stops[-1]] != _NEWLINE:
            stops[-1] += 1
            ends[-1] = b""
        number = self.before
        for begin, stop, end, pair in zip(
            self.begins[:-1].tolist(), stops, ends, self.pairs(), strict=True
        ):
            number += 1
            yield new(PhraseTableLine, (number, data[begin:stop], pair, num_scores, end))


def read_table_blocks(path: str) -> Iterator[TableBlock]:
    """Yield the lines of a phrase table in order, checked, lazily, some thousands at once.

    The joined raw bytes of the blocks are the file: no line is skipped. The table need not be
    sorted.

    :raises DataError: at the first ``next`` if the file cannot be opened, has no lines, or holds
        hierarchical rules; later, after all lines before it were yielded, for an invalid line or
        damaged data.
    """
    before = num_scores = 0
    for data in read_blocks(path):
        if before == 0:
            num_scores = parse_line(path, 1, data.partition(b"\n")[0], None)[1]
            check_no_rules(path, data)
        block, problem = _check(path, before, num_scores, data)
        if block.num_lines:
            yield block
        if problem is not None:
            raise problem
        before += block.num_lines
    if num_scores == 0:
        raise DataError(path, None, "expected a phrase table, found no lines")


def read_phrase_table(path: str) -> Iterator[PhraseTableLine]:
    """Yield the lines of a phrase table like `read_table_blocks`, one by one.

    The joined ``line.raw + line.end`` are the file, byte for byte.
    """
    return chain.from_iterable(block.table_lines() for block in read_table_blocks(path))


def _check(
    path: str, before: int, num_scores: int, data: bytes
) -> tuple[TableBlock, DataError | None]:
    """Return the lines of the data up to the first invalid one, and the error of that line."""
    num_lines = count_lines(data)
    begins = np.empty(num_lines + 1, np.int64)
    score_ends = np.empty(num_lines, np.int64)
    phrases = np.empty((num_lines, 4), np.int64)
    text = np.frombuffer(data, np.uint8)
    scan_lines(text, num_scores, begins, score_ends, phrases)
    try:
        data.decode()
        odd = np.flatnonzero(score_ends < 0)
    except UnicodeDecodeError:  # parse every line to find the first invalid one
        odd = np.arange(num_lines)
    parts, size = [data], len(data)
    block = TableBlock(before, num_scores, data, begins, score_ends, phrases)
    problem = None
    for line in odd.tolist():
        raw = data[begins[line] : begins[line + 1]].removesuffix(b"\n")
        try:
            pair, _ = parse_line(path, before + line + 1, raw, num_scores)
        except DataError as error:
            block, problem = block.lines(0, line), error
            break
        score_ends[line] = begins[line] + score_span(raw)[1]
        for side, words in enumerate(pair):
            parts.append(" ".join(words).encode())
            phrases[line, 2 * side : 2 * side + 2] = size, size + len(parts[-1])
            size += len(parts[-1])
    return block._replace(data=b"".join(parts)), problem


def read_lexicon(path: str) -> Iterator[tuple[str, str, float]]:
    """Yield (predicted word, given word, probability) of each line of a lexical table, lazily.

    ``lex.f2e`` and ``lex.e2f`` of Moses' train-model.perl have lines ``word word probability`` with
    p(first word | second word), to 7 decimals, for words that were aligned in training; ``NULL``
    stands for no word. Moses calls the source f and the target e: lines of ``lex.f2e`` are ``target
    source p(target | source)`` (scripts/training/LexicalTranslationModel.pm).
    """
    for number, raw in enumerate(read_lines(path), start=1):
        fields = raw.removesuffix(b"\r").split(b" ")
        if len(fields) != 3 or not (fields[0] and fields[1]):
            problem = f"expected 'word word probability', found {shorten(raw)}"
            raise DataError(path, number, problem)
        probability = parse_number(fields[2], path, number)
        if not 0 <= probability <= 1:
            problem = f"expected a probability from 0 to 1, found {shorten(fields[2])}"
            raise DataError(path, number, problem)
        text = decode(path, number, raw)
        predicted, given, _ = text.split(" ")
        yield predicted, given, probability
