"""Phrase pairs leave a table in blocks of a fixed size, and scores come into its lines."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from moses_integration.phrase_table import TableBlock, read_table_blocks
from phrasescore.errors import ModelError
from phrasescore.kernels.phrase_blocks import join_blocks

LINES = 7
# A phrase with two spaces, which stands elsewhere with one, and one in two bytes a letter.
TEXT = "".join(
    f"a{number} {'  ' if number == 3 else ''}é ||| b ||| 0.5 ||| 0-0\n" for number in range(LINES)
)


def blocks_of(folder: Path, size: int) -> Iterator[TableBlock]:
    """Yield a small table in blocks of so many lines."""
    path = folder / "table"
    path.write_text(TEXT)
    for block in read_table_blocks(str(path)):
        for first in range(0, block.num_lines, size):
            yield block.lines(first, min(first + size, block.num_lines))


@pytest.mark.parametrize("read", [1, 3, LINES])
def test_joined_phrases_are_those_of_the_lines_with_no_other_bytes(
    tmp_path: Path, read: int
) -> None:
    blocks = list(blocks_of(tmp_path, read))
    joined = join_blocks([block.block for block in blocks])
    assert list(joined.pairs()) == [pair for block in blocks for pair in block.pairs()]
    assert joined.text.decode() == "".join(f"a{number} éb" for number in range(LINES))


def test_each_line_gets_its_own_scores(tmp_path: Path) -> None:
    (block,) = blocks_of(tmp_path, LINES)
    data = block.with_scores([np.log([0.5] * LINES), -np.arange(LINES, dtype=np.float64)])
    assert [line.split(b" ||| ")[2] for line in data.splitlines()] == [
        b"0.5 0.5 %.7g" % math.exp(-number) for number in range(LINES)
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_an_error(tmp_path: Path, value: float) -> None:
    (block,) = blocks_of(tmp_path, LINES)
    with pytest.raises(ModelError, match="expected a finite logarithm"):
        block.with_scores([np.full(LINES, -1.0), np.full(LINES, value)])


@pytest.mark.parametrize(("value", "written"), [(1e3, b"1.651636e+38"), (-1e3, b"3.720076e-44")])
def test_values_end_where_moses_can_read_them(tmp_path: Path, value: float, written: bytes) -> None:
    (block,) = blocks_of(tmp_path, LINES)
    assert block.with_scores([np.full(LINES, value)]).split(b" ||| ")[2] == b"0.5 " + written
