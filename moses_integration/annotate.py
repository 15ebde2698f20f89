"""Add columns of feature values to a phrase table: lines in, lines out."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import tee
from typing import Protocol

from moses_integration.phrase_table import PhraseTableLine, add_scores
from phrasescore.records import PhrasePair


class Column(Protocol):
    """Anything that gives one natural logarithm a phrase pair, in order."""

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        """Yield one value a pair; it may read ahead."""
        ...


def annotate(
    lines: Iterable[PhraseTableLine], columns: Sequence[Column]
) -> Iterator[tuple[PhraseTableLine, bytes]]:
    """Yield each line, and its bytes with one more score a column, in order.

    The bytes end as the line did. Only as many lines are held as the columns read ahead.

    :raises ValueError: if a column gives more or fewer values than there are lines.
    :raises ModelError: if a value cannot be written as a probability.
    """
    lines, *copies = tee(lines, len(columns) + 1)
    streams = [
        column.values(line.pair for line in copy)
        for column, copy in zip(columns, copies, strict=True)
    ]
    for line, *values in zip(lines, *streams, strict=True):
        yield line, add_scores(line.raw, values) + line.end
