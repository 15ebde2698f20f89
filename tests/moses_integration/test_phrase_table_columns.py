"""Columns of values meet the lines of a table, whatever the sizes that both come in."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_integration.phrase_table import BlockColumn, TableBlock, add_columns, read_table_blocks
from phrasescore.errors import ModelError
from phrasescore.records import PhraseBlock, PhrasePair

LINES = 7


class Numbers:
    """A column that counts the pairs by 0.5, and may miss some or have some too many."""

    def __init__(self, surplus: int = 0) -> None:
        self._surplus = surplus

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        how_many = sum(1 for _ in pairs) + self._surplus
        return (-0.5 * number for number in range(how_many))


class NumbersOfBlocks(Numbers):
    """The same, in arrays of so many values."""

    def __init__(self, size: int, surplus: int = 0) -> None:
        super().__init__(surplus)
        self._size = size

    def values_of_blocks(self, blocks: Iterable[PhraseBlock]) -> Iterator[NDArray[np.float64]]:
        values = list(self.values(pair for block in blocks for pair in block.pairs()))
        for first in range(0, len(values), self._size):
            yield np.array(values[first : first + self._size])


class Constant:
    """A column of one value."""

    def __init__(self, value: float) -> None:
        self._value = value

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        return (self._value for _ in pairs)


def blocks_of(folder: Path, size: int) -> Iterator[TableBlock]:
    """Yield a small table in blocks of so many lines."""
    path = folder / "table"
    path.write_text("".join(f"a{number} ||| b ||| 0.5 ||| 0-0\n" for number in range(LINES)))
    for block in read_table_blocks(str(path)):
        for first in range(0, block.num_lines, size):
            yield block.lines(first, min(first + size, block.num_lines))


@pytest.mark.parametrize("size", [1, 3, LINES])
@pytest.mark.parametrize("values_at_once", [1, 2, LINES, 100])
def test_each_line_gets_its_own_values(tmp_path: Path, size: int, values_at_once: int) -> None:
    columns = [Numbers(), NumbersOfBlocks(values_at_once)]
    assert [isinstance(column, BlockColumn) for column in columns] == [False, True]
    found = list(add_columns(blocks_of(tmp_path, size), columns))
    assert b"".join(block.raw for block, _ in found) == (tmp_path / "table").read_bytes()
    expected = [
        b"a%d ||| b ||| 0.5 %.7g %.7g ||| 0-0\n" % (number, *[math.exp(-0.5 * number)] * 2)
        for number in range(LINES)
    ]
    assert b"".join(data for _, data in found) == b"".join(expected)
    assert [block.num_lines for block, _ in found] == [
        min(size, LINES - first) for first in range(0, LINES, size)
    ]


@pytest.mark.parametrize("column", [Numbers(-1), NumbersOfBlocks(3, -1), NumbersOfBlocks(9, -9)])
def test_too_few_values_are_an_error(tmp_path: Path, column: Numbers) -> None:
    with pytest.raises(ValueError, match="values too few"):
        list(add_columns(blocks_of(tmp_path, 3), [column]))


@pytest.mark.parametrize("column", [Numbers(1), NumbersOfBlocks(3, 1), NumbersOfBlocks(7, 1)])
def test_too_many_values_are_an_error(tmp_path: Path, column: Numbers) -> None:
    with pytest.raises(ValueError, match="more values than there are lines"):
        list(add_columns(blocks_of(tmp_path, 3), [column]))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_an_error(tmp_path: Path, value: float) -> None:
    with pytest.raises(ModelError, match="expected a finite logarithm"):
        list(add_columns(blocks_of(tmp_path, 3), [Numbers(), Constant(value)]))


@pytest.mark.parametrize(("value", "written"), [(1e3, b"1.651636e+38"), (-1e3, b"3.720076e-44")])
def test_values_end_where_moses_can_read_them(tmp_path: Path, value: float, written: bytes) -> None:
    ((_, data),) = add_columns(blocks_of(tmp_path, LINES), [Constant(value)])
    assert data.split(b" ")[5] == written


def test_blocks_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    (block,) = blocks_of(tmp_path, LINES)
    read: Sequence[int] = []

    def endless() -> Iterator[TableBlock]:
        for number in count():
            read.append(number)  # type: ignore[attr-defined]
            yield block

    assert len(list(islice(add_columns(endless(), [Constant(0), Constant(1)]), 3))) == 3
    assert len(read) <= 4
