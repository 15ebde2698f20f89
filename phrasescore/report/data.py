"""The data of a report, for other programs: a TSV file for each block, and one JSON of everything.

In a TSV file the first line has the columns; cells are separated by tabs and lines end at U+000A.
Inside of a cell, a tab, a newline, a carriage return and a backslash are written ``\\t``, ``\\n``,
``\\r`` and ``\\\\``; everything else is as it was, and there are no quotes. Nothing (None) is an
empty cell. Numbers have all their digits. What a TSV file cannot tell apart (the text ``1`` from
the number, an empty text from nothing) the JSON does.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from phrasescore.io.output import open_output
from phrasescore.report.blocks import (
    Block,
    Cell,
    Lines,
    Matrix,
    Points,
    Pyramid,
    Report,
    Table,
)
from phrasescore.report.check import check_report

# A name of a file may have bytes that are no UTF-8. They stand as Python has them, as \udc80 to
# \udcff, which is how JSON writes them, too.
_ODD = "backslashreplace"
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def write_data(report: Report, folder: Path) -> None:
    """Write ``report.json`` and a ``.tsv`` for each block, named by it, each whole or not at all.

    :param folder: is there already.
    :raises PhrasescoreError: as `check_report`, before anything is written; or if a file cannot be
        written.
    """
    check_report(report)
    for section in report.sections:
        for block in section.blocks:
            with open_output(str(folder / f"{block.name}.tsv")) as stream:
                stream.write(to_tsv(block).encode(errors=_ODD))
    with open_output(str(folder / "report.json")) as stream:
        stream.write((to_json(report) + "\n").encode(errors=_ODD))


def to_json(report: Report) -> str:
    """Return the whole report; a block is its fields, and its ``kind``."""
    sections = [
        {
            "key": section.key,
            "title": section.title,
            "lead": section.lead,
            "blocks": [block_fields(block) for block in section.blocks],
        }
        for section in report.sections
    ]
    whole = {"title": report.title, "facts": report.facts, "sections": sections}
    return json.dumps(whole, ensure_ascii=False, allow_nan=False, indent=1)


def block_fields(block: Block) -> dict[str, object]:
    """Return a block as JSON has it: ``kind`` (table, points, ...), then its fields."""
    return {"kind": type(block).__name__.lower(), **asdict(block)}


def to_tsv(block: Block) -> str:
    """Return a block as TSV, see above.

    Of a matrix, the first column has the row labels, the others are its columns. Of lines, there is
    a row for each point of each series. Of a pyramid, there is a row for each unit, from the lowest
    level, with the words that it covers.
    """
    columns, rows = _as_rows(block)
    lines = ["\t".join(map(_cell_text, cells)) for cells in (columns, *rows)]
    return "\n".join(lines) + "\n"


def _cell_text(cell: Cell) -> str:
    if cell is None:
        return ""
    # float() because NumPy's numbers, which are floats, write their type as well.
    return repr(float(cell)) if isinstance(cell, float) else str(cell).translate(_ESCAPES)


def _as_rows(block: Block) -> tuple[tuple[str, ...], Iterable[tuple[Cell, ...]]]:
    match block:
        case Table():
            return block.columns, block.rows
        case Points():
            columns = (block.x, block.y, block.labels)
            if block.groups:
                return ("x", "y", "label", "group"), zip(*columns, block.groups, strict=True)
            return ("x", "y", "label"), zip(*columns, strict=True)
        case Matrix():
            labelled = zip(block.row_labels, block.values, strict=True)
            return ("", *block.column_labels), ((label, *values) for label, values in labelled)
        case Lines():
            return ("series", "x", "y", "spread"), _line_rows(block)
        case Pyramid():
            return ("level", "unit", "words", "new", "left", "right"), _unit_rows(block)


def _line_rows(block: Lines) -> Iterable[tuple[Cell, ...]]:
    for series in block.series:
        spreads = series.spread or (None,) * len(series.x)
        for x, y, spread in zip(series.x, series.y, spreads, strict=True):
            yield series.name, x, y, spread


def _unit_rows(block: Pyramid) -> Iterable[tuple[Cell, ...]]:
    for level, units in enumerate(block.levels, start=1):
        for place, shares in enumerate(units):
            yield level, place + 1, " ".join(block.words[place : place + level + 1]), *shares
