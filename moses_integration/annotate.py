"""Add columns of feature values to a phrase table: lines in, lines out."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import tee
from typing import Protocol

from moses_integration.phrase_table import HIGHEST_LOG, PhraseTableLine, add_scores
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

    The bytes end as the line did. A value above 88 (a count: no log-probability is) is written as
    88, because Moses reads the exp of more as infinity. Only as many lines are held as the columns
    read ahead.

    :raises ValueError: if a column gives more or fewer values than there are lines.
    :raises ModelError: if a value is not finite.
    """
    lines, *copies = tee(lines, len(columns) + 1)
    streams = [
        column.values(line.pair for line in copy)
        for column, copy in zip(columns, copies, strict=True)
    ]
    for line, *values in zip(lines, *streams, strict=True):
        yield line, add_scores(line.raw, [_writable(value) for value in values]) + line.end


def _writable(value: float) -> float:
    """Return 88 for more than that; what is not finite stays so, and is refused."""
    return min(value, HIGHEST_LOG) if math.isfinite(value) else value
