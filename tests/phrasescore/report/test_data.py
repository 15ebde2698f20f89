"""The blocks of a report and the file that holds their values."""

import json
from dataclasses import asdict
from pathlib import Path

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
