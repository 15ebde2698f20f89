"""The blocks of a report and the files that hold their values."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.report.blocks import (
    Block,
    Estimates,
    Fact,
    Intervals,
    Lines,
    MarkedGroup,
    MarkedLine,
    MarkedSentence,
    MarkedTexts,
    Matrix,
    Points,
    Pyramid,
    Report,
    Section,
    Series,
    Table,
    to_tsv,
    write_data,
)

BLOCKS: tuple[Block, ...] = (
    Table("table", "A <b>", ("w\tx", "n"), (("a\tb\nc\\n\r", 1), ("\u2028\x85", None), ("", 0.1))),
    Points("points", "", "x", "y", (0.1, 1 / 3), (1e-300, -2.0), ("a", "é\n"), ("g", "h")),
    Points("map", "", "", "", (1.0,), (2.0,), ("a",), is_map=True),
    Matrix("matrix", "", ("r",), ("c", "c", ""), ((0.0, 1.0, 1 / 3),), "rows", "columns"),
    Lines("lines", "", "epoch", "BLEU", (Series("dev", (1, "2"), (3.5, None), (0.5, 0.0)),)),
    Intervals(
        "intervals",
        "",
        "BLEU",
        ("base", "+"),
        (Estimates("dev", (1.5, None), (1.0, None), (2.25, None)), Estimates("test", (2.0, 3.0))),
    ),
    MarkedTexts(
        "marked",
        "",
        "base",
        (
            MarkedGroup(
                "gains",
                (
                    MarkedSentence(
                        7,
                        "note",
                        (("source", "s\t"),),
                        (MarkedLine("+", 1.5, ("a", "b"), (2, 2), (False, True), (True, False)),),
                    ),
                ),
            ),
        ),
    ),
    Pyramid("pyramid", "", ("a", "b", "</s>"), (((0.5, 0.25, 0.25),) * 2, ((1.0, 0.0, 0.0),))),
)
REPORT = Report(
    "Title & <title>",
    (Fact("model", "a/b", "../a/b"),),
    (Section("one", "One", "Lead.\n\nMore.", BLOCKS[:3]), Section("two", "Two", "", BLOCKS[3:])),
)


def cells_of(tsv: str) -> list[list[str]]:
    meaning = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}

    def plain(cell: str) -> str:
        return re.sub(r"\\(.)", lambda found: meaning[found[1]], cell)

    assert tsv.endswith("\n")
    return [[plain(cell) for cell in line.split("\t")] for line in tsv[:-1].split("\n")]


def test_there_is_a_file_for_each_block_and_one_for_all(tmp_path: Path) -> None:
    write_data(REPORT, tmp_path)
    names = {f"{block.name}.tsv" for block in BLOCKS} | {"report.json"}
    assert {path.name for path in tmp_path.rglob("*.*")} == names
    for block in BLOCKS:
        assert (tmp_path / "data" / f"{block.name}.tsv").read_bytes().decode() == to_tsv(block)


def test_the_json_file_has_everything(tmp_path: Path) -> None:
    write_data(REPORT, tmp_path)
    read = json.loads((tmp_path / "report.json").read_text("utf-8"))
    expected = json.loads(json.dumps(asdict(REPORT)))
    kinds = [block.pop("kind") for section in read["sections"] for block in section["blocks"]]
    assert read == expected
    assert kinds == [
        "table",
        "points",
        "points",
        "matrix",
        "lines",
        "intervals",
        "markedtexts",
        "pyramid",
    ]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (BLOCKS[0], [["w\tx", "n"], ["a\tb\nc\\n\r", "1"], ["\u2028\x85", ""], ["", "0.1"]]),
        (
            BLOCKS[1],
            [
                ["x", "y", "label", "group"],
                ["0.1", "1e-300", "a", "g"],
                ["0.3333333333333333", "-2.0", "é\n", "h"],
            ],
        ),
        (BLOCKS[2], [["x", "y", "label"], ["1.0", "2.0", "a"]]),
        (BLOCKS[3], [["", "c", "c", ""], ["r", "0.0", "1.0", "0.3333333333333333"]]),
        (
            BLOCKS[4],
            [["series", "x", "y", "spread"], ["dev", "1", "3.5", "0.5"], ["dev", "2", "", "0.0"]],
        ),
        (
            BLOCKS[5],
            [
                ["series", "name", "value", "low", "high"],
                ["dev", "base", "1.5", "1.0", "2.25"],
                ["dev", "+", "", "", ""],
                ["test", "base", "2.0", "", ""],
                ["test", "+", "3.0", "", ""],
            ],
        ),
        (
            BLOCKS[6],
            [
                ["group", "sentence", "line", "BLEU", "text", "matches", "linked", "differs"],
                ["gains", "7", "source", "", "s\t", "", "", ""],
                ["gains", "7", "+", "1.5", "a b", "2 2", "0 1", "1 0"],
            ],
        ),
        (
            BLOCKS[7],
            [
                ["level", "unit", "words", "new", "left", "right"],
                ["1", "1", "a b", "0.5", "0.25", "0.25"],
                ["1", "2", "b </s>", "0.5", "0.25", "0.25"],
                ["2", "1", "a b </s>", "1.0", "0.0", "0.0"],
            ],
        ),
    ],
    ids=[block.name for block in BLOCKS],
)
def test_a_tsv_file_has_the_values_of_its_block(block: Block, expected: list[list[str]]) -> None:
    assert cells_of(to_tsv(block)) == expected


@given(st.lists(st.tuples(st.text(), st.text()), max_size=4))
def test_any_text_comes_back_from_tsv(rows: list[tuple[str, str]]) -> None:
    assert cells_of(to_tsv(Table("t", "", ("a", "b"), tuple(rows)))) == [
        ["a", "b"],
        *map(list, rows),
    ]


def test_numbers_of_numpy_are_written_as_numbers() -> None:
    block = Points("p", "", "", "", (np.float64(0.5),), (np.float64(-1),), ("a",))
    assert cells_of(to_tsv(block))[1] == ["0.5", "-1.0", "a"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_data(REPORT, tmp_path / "missing")


def test_a_report_is_a_value_down_to_its_words() -> None:
    assert {REPORT, replace(REPORT)} == {REPORT}
