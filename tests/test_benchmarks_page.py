"""The table of all benchmarks and the page about them hold what was measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.benchmarks.commands import compare_commands
from tests.benchmarks.page import FIGURES, PAGE, TEMPLATE, write_page
from tests.benchmarks.results import Book, Report, Row

MACHINE = {"cpu": "a CPU", "cores": "2", "vector instructions": "AVX2", "date": "2026-11-26"}


def test_a_part_that_is_measured_again_replaces_the_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    for seconds in (2.0, 3.0):
        book = Book(path, MACHINE)
        book.add(Report("tuning", "twice", [Row("tune", [seconds], "s")], ["no mert"]), command="x")
    book.add(Report("search", "once", [Row("speed", [4.0, 6.0, 5.0], "/s", 1)]))
    reports = json.loads(path.read_text())["reports"]
    assert [report["part"] for report in reports] == ["tuning", "search"]
    assert reports[0]["figures"]["tune"]["values"] == [3.0]
    table = (tmp_path / "bench.md").read_text()
    assert "- cpu: a CPU\n" in table
    assert "- tuning: no mert\n" in table
    cells = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
    assert ["", "search", "speed", "5.0 (4.0 to 6.0)", "/s", ""] in cells
    with pytest.raises(ValueError, match="the cores was 2, and is 4 now"):
        Book(path, {**MACHINE, "cores": "4"})


def test_a_page_has_the_figures_and_leaves_out_what_was_not_measured() -> None:
    book = Book(None, MACHINE)
    book.add(Report("search", "", [Row("  speed", [4.0, 6.0, 5.0], "/s", 1)], ["No moses"]))
    template = (
        "Speeds\n\n| {{search | speed}} | {{search | speed | -}} |\n| {{search | other}} |\n"
        "- At {{search | speed | -}}\n  per second.\n- At {{search | other}}\n  or more.\n"
        "\n{{left_out}}\n"
    )
    assert write_page(book.content, template) == (
        "Speeds\n\n|5.0 (4.0 to 6.0)|5.0|\n- At 5.0\n  per second.\n\n- No moses.\n"
    )


def test_the_page_in_the_repository_has_the_figures_in_the_repository() -> None:
    content = json.loads(FIGURES.read_text(encoding="utf-8"))
    page = write_page(content, TEMPLATE.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page


def test_commands_take_turns(tmp_path: Path) -> None:
    ours = [sys.executable, "-c", "open('ours', 'a').write('x')"]
    theirs = [sys.executable, "-c", "open('theirs', 'a').write('x')"]
    rows = compare_commands(ours, theirs, tmp_path, 2, names=("one", "other"))
    assert (tmp_path / "ours").read_text() == "xxx"  # one more, to compile
    assert (tmp_path / "theirs").read_text() == "xx"
    values = {row.label: row.values for row in rows}
    walls = zip(values["other: seconds"], values["one: seconds"], strict=True)
    assert values["one: times as fast"] == [b / a for b, a in walls]
    with pytest.raises(RuntimeError, match="no such thing"):
        compare_commands(
            [sys.executable, "-c", "exit('no such thing')"], None, tmp_path, 1, names=("a", "b")
        )


def test_a_row_has_the_median_and_the_range() -> None:
    assert Row("speed", [3.0, 1.0, 2.5], "lines/s", 1).text().endswith(" 2.5 lines/s (1.0 to 3.0)")
    assert Row("size", [4.0], digits=0).text().endswith(" 4")
