"""Promises of phrasescore.report.blocks: what no file can hold is refused, by its name."""

import math

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.report.blocks import (
    Block,
    Lines,
    Points,
    Report,
    Section,
    Series,
    Table,
    check_report,
)


def table(name: str = "t", cell: float | None = 1.0) -> Table:
    return Table(name, "Table", ("a",), ((cell,),))


def test_names_are_unique_also_across_sections_and_beside_the_file_of_everything() -> None:
    sections = tuple(Section(key, "", "", (table(),)) for key in ("a", "b"))
    with pytest.raises(PhrasescoreError, match="two blocks are called 't'"):
        check_report(Report("", (), sections))
    with pytest.raises(PhrasescoreError, match="two blocks are called 'report'"):
        check_report(Report("", (), (Section("a", "", "", (table("report"),)),)))


@pytest.mark.parametrize(
    ("block", "number"),
    [
        (table(cell=math.nan), "nan"),
        (Points("t", "", "", "", (1.0,), (math.inf,), ("a",)), "inf"),
        (Lines("t", "", "", "", (Series("s", (1, 2), (None, -math.inf)),)), "-inf"),
    ],
)
def test_a_number_that_is_not_finite_is_refused_with_its_block(block: Block, number: str) -> None:
    check_report(Report("", (), (Section("a", "", "", (table("other", None),)),)))
    with pytest.raises(
        PhrasescoreError, match=f"block 't': expected finite numbers, found {number}"
    ):
        check_report(Report("", (), (Section("a", "", "", (block,)),)))
