"""Insert new phrase pairs into a sorted phrase table.

The table is read source by source, so its lines must be sorted by their bytes (``LC_ALL=C sort``),
as Moses' training sorts them.

Field 7, the properties, marks a new pair. Moses accepts only registered keys there, and ends with
"Phrase property is not registered" at any other (moses/PP/Factory.cpp). ``Tree`` accepts any text
as its value, and only the feature TreeStructureFeature reads it. So the property is ``{{Tree
generated}}``; ``{{Origin ...}}`` is not possible. Field 5, the counts, is 0 because no corpus has
the pair; Moses skips it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from moses_integration.phrase_table import PhraseTableLine
from moses_integration.table_line import add_scores, format_probability, joint_count
from phrasescore.errors import DataError
from phrasescore.io.text import shorten

ORIGIN = b"{{Tree generated}}"
# It follows a phrase in a line, so it affects sorting by bytes.
_SEPARATOR = b" ||| "


class SourceBlock(NamedTuple):
    """A source and its lines in the table, which are empty if the table lacks it."""

    source: tuple[str, ...]
    lines: list[PhraseTableLine]

    @property
    def times_extracted(self) -> float:
        """The sum of the joint counts in field 5."""
        return sum(joint_count(line.raw) for line in self.lines)

    def lacks(self, target: tuple[str, ...]) -> bool:
        """Return whether the table lacks this pair."""
        return all(line.pair.target != target for line in self.lines)


class NewPair(NamedTuple):
    """A new target phrase of a source."""

    target: tuple[str, ...]
    # Natural logarithms, one per score of the table.
    log_scores: tuple[float, ...]


def read_sources(
    path: str, lines: Iterable[PhraseTableLine], *, after: tuple[str, ...] | None = None
) -> Iterator[SourceBlock]:
    """Yield the sources of a sorted table with their lines, in order, one at a time.

    :param after: the source of the line before these.
    """
    previous = after
    for source, group in groupby(lines, lambda line: line.pair.source):
        block = list(group)
        if previous is not None and _key(source) < _key(previous):
            found = f"{shorten(' '.join(source))} after {shorten(' '.join(previous))}"
            problem = f"expected a table sorted as LC_ALL=C sort does, found {found}; sort it"
            raise DataError(path, block[0].number, problem)
        yield SourceBlock(source, block)
        previous = source


def with_missing(
    blocks: Iterable[SourceBlock],
    sources: Iterable[tuple[str, ...]],
    *,
    after: tuple[str, ...] | None = None,
) -> Iterator[SourceBlock]:
    """Yield the blocks in order, with an empty block for each of ``sources`` that they lack.

    :param after: the source before the first block; sources up to this one are left out.
    """
    waiting = sorted(set(sources), key=_key, reverse=True)
    while after is not None and waiting and _key(waiting[-1]) <= _key(after):
        waiting.pop()
    for block in blocks:
        while waiting and _key(waiting[-1]) < _key(block.source):
            yield SourceBlock(waiting.pop(), [])
        if waiting and waiting[-1] == block.source:
            waiting.pop()
        yield block
    while waiting:
        yield SourceBlock(waiting.pop(), [])


def is_writable(phrase: Sequence[str]) -> bool:
    """Return whether Moses would read these words unchanged as a phrase."""
    # "|" separates factors, and blanks separate words.
    return bool(phrase) and not any(set(word) & set("| \t\r\n") for word in phrase)


def write_block(
    block: SourceBlock, pairs: Iterable[NewPair], *, indicator: bool
) -> Iterator[bytes]:
    """Yield the lines of a source, with the new pairs in their sorted positions.

    :param indicator: whether to add a score to each line: 1 for an old pair, e for a new one, so
        that Moses' logarithms are 0 and 1. Without it old lines stay as they are.
    """
    waiting = sorted(pairs, key=lambda pair: _key(pair.target), reverse=True)
    for line in block.lines:
        while waiting and _key(waiting[-1].target) < _key(line.pair.target):
            yield _new_line(block.source, waiting.pop(), indicator=indicator)
        raw = add_scores(line.raw, [0.0]) if indicator else line.raw
        yield raw + line.end
    while waiting:
        yield _new_line(block.source, waiting.pop(), indicator=indicator)


def end_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines; add a missing newline between two lines."""
    ends = True
    for line in lines:
        yield line if ends else b"\n" + line
        ends = line.endswith(b"\n")


def _new_line(source: tuple[str, ...], pair: NewPair, *, indicator: bool) -> bytes:
    scores = [*pair.log_scores, 1.0] if indicator else list(pair.log_scores)
    fields = [
        " ".join(source).encode(),
        " ".join(pair.target).encode(),
        b" ".join(map(format_probability, scores)),
        b"",  # no alignment
        b"0 0 0",
        b"",
        ORIGIN,
    ]
    return _SEPARATOR.join(fields).replace(b"|||  |||", b"||| |||") + b"\n"


def _key(phrase: tuple[str, ...]) -> bytes:
    return " ".join(phrase).encode() + _SEPARATOR
