"""Read Moses' text phrase tables in blocks of lines, as they lie in the file.

For those who do without a Python object a line: what a line is says
:mod:`moses_integration.table_line`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_integration import table_kernels
from moses_integration.table_line import format_scores, parse_line, score_span
from phrasescore.errors import DataError
from phrasescore.io.text import read_blocks
from phrasescore.records import PhraseBlock, PhrasePair


class TableBlock(NamedTuple):
    """Lines of a phrase table that have passed every check, and where their parts are."""

    # How many lines of the file come before.
    before: int
    # How many scores field 3 has; the same in every line of a table.
    num_scores: int
    # UTF-8: the lines among others of the file, and behind those the phrases of odd lines, with
    # single spaces.
    data: bytes
    # (lines + 1,): where each line begins, and where the last one ends, with its newline if any.
    begins: NDArray[np.int64]
    # (lines,): where the last score of each ends.
    score_ends: NDArray[np.int64]
    # (lines, 4): where the source begins and ends, and where the target. Neither is empty.
    phrases: NDArray[np.int64]

    @property
    def num_lines(self) -> int:
        """Return how many lines there are."""
        return len(self.score_ends)

    @property
    def raw(self) -> bytes:
        """Return the bytes of the lines."""
        return self.data[self.begins[0] : self.begins[-1]]

    def lines(self, first: int, after: int) -> "TableBlock":
        """Return some of the lines, from one to before another, counted from 0."""
        return self._replace(
            before=self.before + first,
            begins=self.begins[first : after + 1],
            score_ends=self.score_ends[first:after],
            phrases=self.phrases[first:after],
        )

    def phrase_block(self) -> PhraseBlock:
        """Return the phrase pairs, as features want them."""
        return PhraseBlock(self.data, self.phrases)

    def pairs(self) -> Iterator[PhrasePair]:
        """Yield the phrase pairs."""
        return self.phrase_block().pairs()

    def with_scores(self, columns: Sequence[NDArray[np.float64]]) -> bytes:
        """Return the lines with more scores after the last one, every other byte as it was.

        :param columns: natural logarithms, one array a column, one value a line.
        :raises ModelError: if a value cannot be written.
        """
        added = np.frombuffer(format_scores(columns), np.uint8)
        text = np.frombuffer(self.data, np.uint8)
        return table_kernels.insert(text, self.begins, self.score_ends, added).tobytes()  # type: ignore[no-any-return]


def read_table_blocks(path: str) -> Iterator[TableBlock]:
    """Yield the lines of a phrase table in their order, checked, lazily, some thousands at once.

    :param path: text or gzip; ``-`` is stdin.
    :raises DataError: as :func:`moses_integration.phrase_table.read_phrase_table`, when all lines
        before the wrong one have been yielded.
    """
    before = num_scores = 0
    for data in read_blocks(path):
        if before == 0:
            num_scores = parse_line(path, 1, data.partition(b"\n")[0], None)[1]
        block, problem = _check(path, before, num_scores, data)
        if block.num_lines:
            yield block
        if problem is not None:
            raise problem
        before += block.num_lines
    if before == 0:
        raise DataError(path, None, "expected a phrase table, found no lines")


def _check(
    path: str, before: int, num_scores: int, data: bytes
) -> tuple[TableBlock, DataError | None]:
    """Return the lines of the data up to the first wrong one, and what is wrong with that."""
    num_lines = data.count(b"\n") + (not data.endswith(b"\n"))
    begins = np.empty(num_lines + 1, np.int64)
    score_ends = np.empty(num_lines, np.int64)
    phrases = np.empty((num_lines, 4), np.int64)
    text = np.frombuffer(data, np.uint8)
    table_kernels.scan(text, num_scores, begins, score_ends, phrases)
    # Where bytes are not UTF-8 every line is looked at, to find the first.
    odd = np.flatnonzero(score_ends < 0) if _is_utf8(data) else np.arange(num_lines)
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


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
