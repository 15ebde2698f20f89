"""Add columns of feature values to a phrase table: blocks of lines in, their bytes out."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, tee
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from moses_integration.table_blocks import TableBlock
from moses_integration.table_line import HIGHEST_LOG
from phrasescore.records import PhraseBlock, PhrasePair


class Column(Protocol):
    """Anything that gives one natural logarithm a phrase pair, in order."""

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        """Yield one value a pair; it may read ahead."""
        ...


@runtime_checkable
class BlockColumn(Column, Protocol):
    """A column that does without an object a pair."""

    def values_of_blocks(self, blocks: Iterable[PhraseBlock]) -> Iterator[NDArray[np.float64]]:
        """Yield the same values, in arrays of whatever length; it may read ahead."""
        ...


def annotate(
    blocks: Iterable[TableBlock], columns: Sequence[Column]
) -> Iterator[tuple[TableBlock, bytes]]:
    """Yield each block, and its lines with one more score a column, in order.

    The bytes end as the block did. A value above 88 (a count: no log-probability is) is written as
    88, because Moses reads the exp of more as infinity. Only as many blocks are held as the columns
    read ahead.

    :raises ValueError: if a column gives more or fewer values than there are lines.
    :raises ModelError: if a value is not finite.
    """
    blocks, *copies = tee(blocks, len(columns) + 1)
    streams = [_Values(column, copy) for column, copy in zip(columns, copies, strict=True)]
    for block in blocks:
        yield block, block.with_scores([stream.take(block.num_lines) for stream in streams])
    for stream in streams:
        stream.check_end()


class _Values:
    """The values of a column, as many at a time as are wanted."""

    def __init__(self, column: Column, blocks: Iterable[TableBlock]) -> None:
        self._arrays = _arrays(column, blocks)
        self._left: NDArray[np.float64] = np.empty(0)

    def take(self, count: int) -> NDArray[np.float64]:
        """Return the next values."""
        parts, missing = [self._left], count - len(self._left)
        while missing > 0:
            array = next(self._arrays, None)
            if array is None:
                raise ValueError(f"a column gives {missing} values too few")
            parts.append(array)
            missing -= len(array)
        values = np.concatenate(parts)
        self._left = values[count:]
        values = values[:count]
        # What is not finite stays so, and is refused.
        return np.where(np.isfinite(values), np.minimum(values, HIGHEST_LOG), values)

    def check_end(self) -> None:
        """Check that there are no more values."""
        if len(self._left) or any(len(array) for array in self._arrays):
            raise ValueError("a column gives more values than there are lines")


def _arrays(column: Column, blocks: Iterable[TableBlock]) -> Iterator[NDArray[np.float64]]:
    if isinstance(column, BlockColumn):
        return column.values_of_blocks(block.phrase_block() for block in blocks)
    # Not more at a time than a block has: a column may be asked for values as they come.
    counts, pairs = tee(blocks)
    values = column.values(chain.from_iterable(block.pairs() for block in pairs))
    taken = (np.fromiter(islice(values, block.num_lines), np.float64) for block in counts)
    rest = (np.fromiter(islice(values, 1), np.float64) for _ in range(1))
    return chain(taken, rest)
