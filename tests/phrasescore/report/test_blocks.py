"""Promises of phrasescore.report.blocks: what cannot be drawn is refused, by its name."""

import math

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.report.blocks import (
    Block,
    Lines,
    Matrix,
    Points,
    Pyramid,
    Report,
    Section,
    Series,
    Table,
    check_report,
)


def report_of(*blocks: Block, key: str = "part") -> Report:
    return Report("Report", (), (Section(key, "Part", "", blocks),))


def table(name: str = "t", cell: str | float | None = 1.0) -> Table:
    return Table(name, "Table", ("a",), ((cell,),))


def pyramid(*levels: tuple[tuple[float, float, float], ...]) -> Pyramid:
    return Pyramid("p", "Parse", ("a", "b"), levels)


def lines(y: tuple[float | None, ...], *, log_y: bool = False, spread: float = 0.0) -> Lines:
    series = Series("dev", tuple(range(len(y))), y, (spread,) * len(y))
    return Lines("l", "Lines", "x", "y", (series,), log_y=log_y)


def test_what_can_be_drawn_is_accepted() -> None:
    check_report(Report("", (), ()))
    check_report(
        report_of(
            table(cell=None),
            Points("empty", "", "", "", (), (), ()),
            Matrix("m", "", ("a",), ("b", "b"), ((0.0, 1.0),)),
            lines((1.0, None, 2.0), log_y=True),
            # Shares in single precision, which sum to 0.99990.
            pyramid(((0.3333, 0.3333, 0.3333),)),
            Pyramid("one-word", "", ("a",), ()),
        )
    )


@pytest.mark.parametrize("name", ["", "Table", "a b", "../a", "a.b", "é", "a\n"])
def test_names_are_safe_as_those_of_files_and_addresses(name: str) -> None:
    with pytest.raises(PhrasescoreError, match="expected the name of a block of a-z, 0-9 and -"):
        check_report(report_of(table(name)))
    with pytest.raises(PhrasescoreError, match="expected the name of a section of a-z, 0-9 and -"):
        check_report(report_of(table(), key=name))


def test_names_are_unique_also_across_sections() -> None:
    sections = tuple(Section(key, "", "", (table(),)) for key in ("a", "b"))
    with pytest.raises(PhrasescoreError, match="two blocks are called 't'"):
        check_report(Report("", (), sections))
    with pytest.raises(PhrasescoreError, match="two sections are called 'a'"):
        check_report(Report("", (), (Section("a", "", "", ()), Section("a", "", "", ()))))


def test_the_name_of_the_file_of_everything_is_taken() -> None:
    with pytest.raises(PhrasescoreError, match=r"taken by report\.json"):
        check_report(report_of(table("report")))


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        (table(cell=math.nan), "block 't': expected finite numbers, found nan"),
        (Table("t", "", ("a", "b"), (("x",),)), "expected 2 cells in each row, found 1"),
        (Points("p", "", "", "", (1.0,), (), ("a",)), "expected 1 values for as many points"),
        (Points("p", "", "", "", (1.0,), (math.inf,), ("a",)), "finite numbers, found inf"),
        (Points("p", "", "", "", (1.0,), (1.0,), ("a",), ("g", "h")), "points, found 2"),
        (Matrix("m", "", ("a",), ("b",), ()), "expected 1 rows, found 0"),
        (Matrix("m", "", ("a",), ("b",), ((0.1, 0.2),)), "expected 1 values in each row, found 2"),
        (Matrix("m", "", ("a",), ("b",), ((1.5,),)), "expected numbers from 0 to 1, found 1.5"),
        (lines((1.0, 0.0), log_y=True), "expected numbers above 0 on a log axis in series 'dev'"),
        (lines((1.0,), spread=-1.0), "expected spreads of 0 or more in series 'dev'"),
        (Lines("l", "", "", "", (Series("s", (1,), ()),)), "1 values in series 's', found 0"),
        (Lines("l", "", "", "", (Series("s", (), ()),) * 2), "series of different names"),
        (pyramid(), "expected 1 levels, found 0"),
        (pyramid(((1.0, 0.0, 0.0),) * 2), "expected 1 units in level 1, found 2"),
        (pyramid(((0.5, 0.2, 0.2),)), "expected shares that sum to 1"),
        (pyramid(((1.5, -0.5, 0.0),)), "expected numbers from 0 to 1, found 1.5"),
    ],
)
def test_a_block_that_cannot_be_drawn_is_refused_by_name(block: Block, problem: str) -> None:
    with pytest.raises(PhrasescoreError, match=f"report: block '{block.name}': ") as caught:
        check_report(report_of(block))
    assert problem in str(caught.value)
