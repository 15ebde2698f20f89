"""The data files of a report: one TSV file per block, and one JSON file of the whole report.

The first line of a TSV file names the columns; cells are separated by tabs, and lines end at
U+000A. In a cell, a tab, a newline, a carriage return and a backslash are written ``\\t``, ``\\n``,
``\\r`` and ``\\\\``; there are no quotes. None is an empty cell. Numbers have all their digits. The
JSON file keeps the types that TSV loses: the text ``1`` and the number 1, an empty text and None.
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
    check_report,
)

# Bytes of a file name that are not UTF-8, which Python holds as U+DC80 to U+DCFF, are written as
# \udc80 to \udcff.
ENCODE_ERRORS = "backslashreplace"
# The folder of the TSV files.
DATA = "data"
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def write_data(report: Report, folder: Path) -> None:
    """Write ``report.json``, and ``data/NAME.tsv`` for each block.

    :param folder: an existing folder without a folder ``data``.
    :raises PhrasescoreError: as `check_report`, before a file is written.
    """
    check_report(report)
    (folder / DATA).mkdir()
    for section in report.sections:
        for block in section.blocks:
            with open_output(str(folder / DATA / f"{block.name}.tsv")) as stream:
                stream.write(to_tsv(block).encode(errors=ENCODE_ERRORS))
    with open_output(str(folder / "report.json")) as stream:
        stream.write((to_json(report) + "\n").encode(errors=ENCODE_ERRORS))


def to_json(report: Report) -> str:
    """Return the whole report as JSON; a block has its fields and its ``kind``."""
    sections = [
        {**asdict(section), "blocks": [block_fields(block) for block in section.blocks]}
        for section in report.sections
    ]
    whole = {**asdict(report), "sections": sections}
    return json.dumps(whole, ensure_ascii=False, allow_nan=False, indent=1)


def block_fields(block: Block) -> dict[str, object]:
    """Return the ``kind`` of a block, such as table or points, and its fields."""
    return {"kind": type(block).__name__.lower(), **asdict(block)}


def to_tsv(block: Block) -> str:
    """Return a block as TSV.

    A matrix has its row labels in the first column, lines have one row per point of each series,
    and a pyramid has one row per unit, from the lowest level, with the words that it covers.
    """
    columns, rows = _as_rows(block)
    lines = ["\t".join(map(_cell_text, cells)) for cells in (columns, *rows)]
    return "\n".join(lines) + "\n"


def _cell_text(cell: Cell) -> str:
    if cell is None:
        return ""
    # float(): a NumPy number is a float, too, but its repr() shows its type.
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
        for start, shares in enumerate(units):
            yield level, start + 1, " ".join(block.words[start : start + level + 1]), *shares
