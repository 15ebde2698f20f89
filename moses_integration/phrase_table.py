"""Read Moses' text phrase tables, line by line."""

from collections.abc import Iterator
from typing import NamedTuple

from moses_integration.table_blocks import read_table_blocks
from phrasescore.records import PhrasePair

_NEWLINE = 10


class PhraseTableLine(NamedTuple):
    """A line of a phrase table that has passed every check."""

    # 1-based, counted after decompression.
    number: int
    # The whole line without its newline, byte for byte.
    raw: bytes
    # The words of both sides, neither of them empty.
    pair: PhrasePair
    # How many scores field 3 has; the same in every line of a table.
    num_scores: int
    # b"\n", or b"" for a last line without one: raw + end are the bytes of the file.
    end: bytes


def read_phrase_table(path: str) -> Iterator[PhraseTableLine]:
    """Yield the lines of a phrase table in their order, checked, lazily.

    Joining ``line.raw + line.end`` gives the file back byte for byte. Nothing is skipped: a line
    that is not a phrase pair is an error. Sorted and unsorted tables are alike to it.

    :param path: text or gzip; ``-`` is stdin.
    :raises DataError: at the first ``next`` if the file cannot be opened or has no lines; later, on
        reaching the line, for too few fields, an empty source or target, a score that is not
        a number Moses can use, another number of scores than the first line has, bytes that are not
        UTF-8, or damaged gzip data.
    """
    new = tuple.__new__  # what a NamedTuple does in its own __new__, twice as fast
    for block in read_table_blocks(path):
        data, num_scores = block.data, block.num_scores
        stops = (block.begins[1:] - 1).tolist()
        ends = [b"\n"] * len(stops)
        if data[stops[-1]] != _NEWLINE:
            stops[-1] += 1
            ends[-1] = b""
        number = block.before
        for begin, stop, end, pair in zip(
            block.begins[:-1].tolist(), stops, ends, block.pairs(), strict=True
        ):
            number += 1
            yield new(PhraseTableLine, (number, data[begin:stop], pair, num_scores, end))
