"""Put new phrase pairs into a sorted phrase table, beside the pairs that are there.

The table is read source by source, so it has to be sorted as Moses' training sorts it: lines by
their bytes (``LC_ALL=C sort``), and so all lines of a source side by side.

A new pair says where it comes from in field 7, the properties. Moses takes only the keys that it
has a class for, and ends with "Phrase property is not registered" at any other
(moses/PP/Factory.cpp). ``Tree`` is one whose value is any text, and is read by the feature
TreeStructureFeature alone; so the property is ``{{Tree generated}}``, and ``{{Origin ...}}`` is not
possible. Field 5, the counts, is skipped by Moses: it has 0, as no corpus has the pair.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from moses_integration.phrase_table import PhraseTableLine
from moses_integration.table_line import add_scores, format_probability, joint_count
from phrasescore.errors import DataError
from phrasescore.io.text import shorten

ORIGIN = b"{{Tree generated}}"
# Follows a phrase in a line, and so counts when lines are sorted by their bytes.
_SEPARATOR = b" ||| "


class SourceBlock(NamedTuple):
    """A source and its lines of the table; an empty list if the table lacks it."""

    source: tuple[str, ...]
    lines: list[PhraseTableLine]

    @property
    def key(self) -> bytes:
        """The bytes that sources are sorted by."""
        return _key(self.source)

    @property
    def times_extracted(self) -> float:
        """How often the source was extracted: the sum of the joint counts in field 5."""
        return sum(joint_count(line.raw) for line in self.lines)

    def lacks(self, target: tuple[str, ...]) -> bool:
        """Return whether the table has no such pair."""
        return all(line.pair.target != target for line in self.lines)


class NewPair(NamedTuple):
    """A new target of a source."""

    target: tuple[str, ...]
    # Natural logarithms, one per score of a line of the table.
    log_scores: tuple[float, ...]


def read_sources(
    path: str, lines: Iterable[PhraseTableLine], *, after: tuple[str, ...] | None = None
) -> Iterator[SourceBlock]:
    """Yield the sources of a table with their lines, in order, one at a time.

    :param path: of the table, for messages.
    :param after: the source of the line before these.
    :raises DataError: on reaching a source that sorts before the one that precedes it.
    """
    source = after
    block: list[PhraseTableLine] = []
    for line in lines:
        if line.pair.source != source:
            if source is not None and _key(line.pair.source) < _key(source):
                found, before = " ".join(line.pair.source), " ".join(source)
                raise DataError(
                    path,
                    line.number,
                    f"expected a table sorted as LC_ALL=C sort does, found {shorten(found)} after "
                    f"{shorten(before)}; sort it",
                )
            if block:
                yield SourceBlock(block[0].pair.source, block)
            source, block = line.pair.source, []
        block.append(line)
    if block:
        yield SourceBlock(block[0].pair.source, block)


def with_missing(
    blocks: Iterable[SourceBlock],
    sources: Iterable[tuple[str, ...]],
    *,
    after: tuple[str, ...] | None = None,
) -> Iterator[SourceBlock]:
    """Yield the blocks, and one without lines for each of ``sources`` that they lack, sorted.

    :param after: the source before the first block; sources up to that one are left out.
    """
    waiting = sorted(set(sources), key=_key, reverse=True)
    while after is not None and waiting and _key(waiting[-1]) <= _key(after):
        waiting.pop()
    for block in blocks:
        while waiting and _key(waiting[-1]) < block.key:
            yield SourceBlock(waiting.pop(), [])
        if waiting and waiting[-1] == block.source:
            waiting.pop()
        yield block
    while waiting:
        yield SourceBlock(waiting.pop(), [])


def is_writable(phrase: Sequence[str]) -> bool:
    """Return whether Moses would read these words unchanged as a phrase.

    ``|`` separates factors, and blanks words; a phrase has words.
    """
    return bool(phrase) and not any(set(word) & set("| \t\r\n") for word in phrase)


def write_block(
    block: SourceBlock, pairs: Iterable[NewPair], *, indicator: bool
) -> Iterator[bytes]:
    """Yield the lines of a source, new pairs among the old ones where they sort.

    :param indicator: whether each line gets one more score: 1 for an old pair, e for a new one, of
        which Moses takes the logarithms 0 and 1. Without it old lines stay byte for byte.
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
    """Yield lines; one without a newline gets one if another line follows."""
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
