"""The sections, tables and figures of a report as plain values, and their data files.

A block is a table or a figure; the page shows the same blocks as the data files. Each block has a
TSV file, and one JSON file has the whole report.

The first line of a TSV file names the columns; cells are separated by tabs, and lines end at
U+000A. In a cell, a tab, a newline, a carriage return and a backslash are written ``\\t``, ``\\n``,
``\\r`` and ``\\\\``; there are no quotes. None is an empty cell. Numbers have all their digits. The
JSON file keeps the types that TSV loses: the text ``1`` and the number 1, an empty text and None.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from phrasescore.errors import PhrasescoreError
from phrasescore.io.output import open_output

Cell = str | int | float | None

# Bytes of a file name that are not UTF-8, which are U+DC80 to U+DCFF in Python, are written as
# \udc80 to \udcff.
ENCODE_ERRORS = "backslashreplace"
# The folder of the TSV files.
DATA = "data"
_TSV_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})

# The escapes of Moses' tokeniser (scripts/tokenizer/escape-special-chars.perl). The ampersand comes
# last, or "&amp;lt;" would be unescaped twice.
_ESCAPES = (
    ("&#124;", "|"),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&apos;", "'"),
    ("&quot;", '"'),
    ("&#91;", "["),
    ("&#93;", "]"),
    ("&amp;", "&"),
)


def shown(words: Iterable[str]) -> str:
    """Return words as plain text: joined by blanks, without Moses' escapes.

    >>> shown(["l&apos;", "&amp;lt;", "&lt;b&gt;"])
    "l' &lt; <b>"
    """
    text = " ".join(words)
    if "&" in text:
        for escape, character in _ESCAPES:
            text = text.replace(escape, character)
    return text


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose rows a reader can sort and search; columns of numbers are aligned right.

    :ivar name: the data file's name without its ending, of ``[a-z0-9-]``, as in every block.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Points:
    """A scatter plot, or a map on which similar things are near one another.

    :ivar labels: one text per point, shown on hover, and beside the point on an enlarged map.
    :ivar groups: one name per point, which sets its colour; empty for a single group.
    :ivar equal: whether both axes have the same range, and a diagonal is drawn.
    :ivar is_map: whether only distances have a meaning, not the axes.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    labels: tuple[str, ...]
    groups: tuple[str, ...] = ()
    equal: bool = False
    is_map: bool = False
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A heat map of numbers from 0 to 1: one row of values per row label, from the top."""

    name: str
    title: str
    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    row_title: str = ""
    column_title: str = ""
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a figure; a y of None leaves a gap.

    :ivar spread: half the length of each point's error bar; empty for no error bars.
    """

    name: str
    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    spread: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Lines:
    """Series over one axis of numbers or names, drawn as lines, or as bars side by side."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    bars: bool = False
    log_y: bool = False
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Pyramid:
    """The soft parse of a sentence by a gated recursive convolution.

    :ivar words: the leaves.
    :ivar levels: for each level above the leaves, from the lowest, and each of its units, from the
        left: the shares of a new activation, of the left child and of the right child, which sum
        to 1. Level k has ``len(words) - k`` units.
    """

    name: str
    title: str
    words: tuple[str, ...]
    levels: tuple[tuple[tuple[float, float, float], ...], ...]
    caption: str = ""


Block = Table | Points | Matrix | Lines | Pyramid


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with its own heading.

    :ivar key: the section's address in the page, of ``[a-z0-9-]``.
    :ivar lead: explains how to read the section, in plain text; a blank line begins a paragraph.
    """

    key: str
    title: str
    lead: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All sections of a page; ``facts`` are names and values of its files, models and counts."""

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]


def check_report(report: Report) -> None:
    """Check that names are unique, and that JSON can express all numbers."""
    blocks = [block for section in report.sections for block in section.blocks]
    # The file report.json has a name, too.
    names = Counter(["report", *(block.name for block in blocks)])
    for block in blocks:
        if names[block.name] > 1:
            raise PhrasescoreError(f"report: two blocks are called {block.name!r}")
        number = _find_infinite(astuple(block))
        if number is not None:
            raise PhrasescoreError(
                f"report: block {block.name!r}: expected finite numbers, found {number}"
            )


def _find_infinite(value: object) -> float | None:
    """Return the first infinite number or NaN in a value or its parts."""
    if isinstance(value, tuple | list):
        numbers = map(_find_infinite, value)
        return next((number for number in numbers if number is not None), None)
    return value if isinstance(value, float) and not math.isfinite(value) else None


def write_data(report: Report, folder: Path) -> None:
    """Check a report, and write ``report.json`` and ``data/NAME.tsv`` for each block."""
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
    return repr(float(cell)) if isinstance(cell, float) else str(cell).translate(_TSV_ESCAPES)


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
