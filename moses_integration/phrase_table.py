"""Read Moses' text phrase tables and lexical tables; add scores to the former."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_integration import table_line
from moses_integration.nbest_kernels import insert_texts
from phrasescore.errors import DataError
from phrasescore.io.text import count_lines, read_blocks
from phrasescore.records import PhraseBlock, PhrasePair

_NEWLINE = 10


class PhraseTableLine(NamedTuple):
    """A valid line of a phrase table."""

    number: int  # 1-based, counted after decompression
    raw: bytes  # the whole line without its newline, byte for byte
    pair: PhrasePair
    num_scores: int  # the same in all lines of a table


class TableBlock(NamedTuple):
    """A block of valid phrase table lines, with the offsets of their parts."""

    before: int  # number of lines in the file before this block
    num_scores: int  # the same in all lines of a table
    # UTF-8 text that contains the lines, possibly with other lines before and after. For lines that
    # are not plain, copies of their phrases with single spaces are appended.
    data: bytes
    # (lines + 1,): where each line begins, and where the last line ends, with its newline if any.
    begins: NDArray[np.int64]
    score_ends: NDArray[np.int64]  # (lines,): where the last score of each line ends
    phrases: NDArray[np.int64]  # (lines, 4): begin and end of the source, then of the target
    # (lines,): which lines get new scores, and are written; None for all.
    wanted: NDArray[np.bool_] | None = None

    @property
    def num_lines(self) -> int:
        """The number of lines in the block."""
        return len(self.score_ends)

    @property
    def raw(self) -> bytes:
        """The bytes of the lines."""
        return self.data[self.begins[0] : self.begins[-1]]

    def lines(self, first: int, after: int) -> "TableBlock":
        """Return a block with the lines from ``first`` up to but excluding ``after`` (0-based)."""
        return self._replace(
            before=self.before + first,
            begins=self.begins[first : after + 1],
            score_ends=self.score_ends[first:after],
            phrases=self.phrases[first:after],
            wanted=None if self.wanted is None else self.wanted[first:after],
        )

    @property
    def block(self) -> PhraseBlock:
        """The phrase pairs that get new scores, as offsets into the bytes."""
        wanted = self.phrases if self.wanted is None else self.phrases[self.wanted]
        return PhraseBlock(self.data, wanted)

    def of_pairs(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Select the values for lines that get new scores, given one value per line."""
        return values if self.wanted is None else values[self.wanted]

    def with_scores(self, columns: Sequence[NDArray[np.float64]]) -> bytes:
        """Return the wanted lines with new scores appended to field 3, all else unchanged.

        :param columns: natural logarithms, one array per column with one value per pair; see
            `table_line.format_scores`. Values above 88 can only be counts.
        """
        begins, ends, score_ends = self.begins[:-1], self.begins[1:], self.score_ends
        if self.wanted is not None:
            begins, ends = begins[self.wanted], ends[self.wanted]
            score_ends = score_ends[self.wanted]
        added = np.frombuffer(table_line.format_scores(columns), np.uint8)
        stops = np.flatnonzero(added == _NEWLINE)
        starts = np.concatenate([[0], stops[:-1] + 1])
        text = np.frombuffer(self.data, np.uint8)
        return insert_texts(text, begins, ends, score_ends, added, starts, stops).tobytes()  # type: ignore[no-any-return]

    def above_limit(self, columns: Sequence[NDArray[np.float64]]) -> list[int]:
        """Return the numbers of the lines with a value that `with_scores` writes as 88."""
        indices = np.concatenate(
            [np.flatnonzero(values > table_line.HIGHEST_LOG) for values in columns]
        )
        if self.wanted is not None:
            indices = np.flatnonzero(self.wanted)[indices]
        return [self.before + index + 1 for index in sorted(indices.tolist())]

    def table_lines(self) -> Iterator[PhraseTableLine]:
        """Yield the lines of the block one by one."""
        new = tuple.__new__  # as in a NamedTuple's own __new__, twice as fast
        data, num_scores = self.data, self.num_scores
        begins, stops = self.begins[:-1].tolist(), (self.begins[1:] - 1).tolist()
        if data[stops[-1]] != _NEWLINE:
            stops[-1] += 1
        parts = zip(begins, stops, self.block.pairs(), strict=True)
        for number, (begin, stop, pair) in enumerate(parts, start=self.before + 1):
            yield new(PhraseTableLine, (number, data[begin:stop], pair, num_scores))


def read_table_blocks(path: str) -> Iterator[TableBlock]:
    """Yield the lines of a phrase table in blocks of a few thousand, checked, lazily and in order.

    :raises DataError: at the first ``next`` if the file cannot be opened, has no lines, or contains
        hierarchical rules. Later, for an invalid line or damaged data, after all preceding lines
        were yielded.
    """
    before = num_scores = 0
    for data in read_blocks(path):
        if before == 0:
            num_scores = table_line.parse_line(path, 1, data.partition(b"\n")[0], None)[1]
            table_line.check_no_rules(path, data)
        block, problem = _check(path, before, num_scores, data)
        if block.num_lines:
            yield block
        if problem is not None:
            raise problem
        before += block.num_lines
    if num_scores == 0:
        raise DataError(path, None, "expected a phrase table, found no lines")


def read_phrase_table(path: str) -> Iterator[PhraseTableLine]:
    """Yield the lines of a phrase table one by one, as `read_table_blocks` does in blocks."""
    return chain.from_iterable(block.table_lines() for block in read_table_blocks(path))


def _check(
    path: str, before: int, num_scores: int, data: bytes
) -> tuple[TableBlock, DataError | None]:
    """Return the lines before the first invalid line, and the error for that line, if any."""
    num_lines = count_lines(data)
    begins = np.empty(num_lines + 1, np.int64)
    score_ends = np.empty(num_lines, np.int64)
    phrases = np.empty((num_lines, 4), np.int64)
    text = np.frombuffer(data, np.uint8)
    table_line.scan_lines(text, num_scores, begins, score_ends, phrases)
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
            pair, _ = table_line.parse_line(path, before + line + 1, raw, num_scores)
        except DataError as error:
            block, problem = block.lines(0, line), error
            break
        score_ends[line] = begins[line] + table_line.score_span(raw)[1]
        for side, words in enumerate(pair):
            parts.append(" ".join(words).encode())
            phrases[line, 2 * side : 2 * side + 2] = size, size + len(parts[-1])
            size += len(parts[-1])
    return block._replace(data=b"".join(parts)), problem
