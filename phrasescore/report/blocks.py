"""The sections, tables and figures of a report: plain values, and the checks of them.

A block is a table or a figure. Who makes one need not know how the page draws it; the data files
of the report have the same values.
"""

import math
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields

from phrasescore.errors import PhrasescoreError
from phrasescore.io.text import shorten

_NAME = re.compile(r"[a-z0-9-]+")
# How far the three shares of a unit, computed in single precision, may be from a sum of 1.
_SHARE_ERROR = 1e-3

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose rows a reader can sort and search.

    :ivar name: name of the data file, without its ending; unique in a report, of ``[a-z0-9-]``.
    :ivar columns: headings; a column whose cells are all numbers or None is aligned right.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Points:
    """A scatter plot, or a map on which similar things are near one another.

    :ivar labels: one text per point, shown on hover; on a map it is also written beside the point
        once the reader has zoomed in enough.
    :ivar groups: one name per point, which sets its colour; empty for a single group.
    :ivar equal: whether both axes measure the same quantity; they then get the same range, and a
        diagonal.
    :ivar is_map: whether only distances have a meaning, and the axes have none.
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
    """A line of a figure.

    :ivar y: None leaves a gap.
    :ivar spread: half the length of each point's error bar; empty for a line without error bars.
    """

    name: str
    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    spread: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Lines:
    """Several series over one horizontal axis, of numbers or of names in their order.

    :ivar bars: whether the series are drawn as bars beside one another.
    """

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
    :ivar levels: per level above the leaves, from the lowest, and per unit in it, from the left:
        the unit's shares of a new activation, of its left child and of its right child; each is 0
        or more, and the three sum to 1. Level k has ``len(words) - k`` units, the last level one.
    """

    name: str
    title: str
    words: tuple[str, ...]
    levels: tuple[tuple[tuple[float, float, float], ...], ...]
    caption: str = ""


Block = Table | Points | Matrix | Lines | Pyramid


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with a heading of its own.

    :ivar key: the section's address in the page, of ``[a-z0-9-]``; unique in a report.
    :ivar lead: explains how to read the section, in plain text; a blank line begins a paragraph.
    """

    key: str
    title: str
    lead: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All sections of a page.

    :ivar facts: names and values of the files, models and counts that the report was made from.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]


# Checks


def check_report(report: Report) -> None:
    """Check that a report can be drawn and that its names are unique.

    :raises PhrasescoreError: naming the block, if a name or a key is not of ``[a-z0-9-]`` or occurs
        twice, lengths do not agree, a number is not finite, a matrix or a pyramid has a number
        outside 0 to 1, or a figure with a logarithmic axis has one that is not positive.
    """
    _check_names("section", [section.key for section in report.sections])
    blocks = [block for section in report.sections for block in section.blocks]
    _check_names("block", [block.name for block in blocks])
    # report.json holds the whole report.
    if any(block.name == "report" for block in blocks):
        raise PhrasescoreError("report: block 'report': this name is taken by report.json")
    for block in blocks:
        try:
            _check_block(block)
        except ValueError as error:
            raise PhrasescoreError(f"report: block {block.name!r}: {error}") from error


def _check_names(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not _NAME.fullmatch(name):
            raise PhrasescoreError(
                f"report: expected the name of a {kind} of a-z, 0-9 and -, found {shorten(name)}"
            )
        if name in seen:
            raise PhrasescoreError(f"report: two {kind}s are called {name!r}")
        seen.add(name)


def _check_block(block: Block) -> None:
    _check_values(block)
    match block:
        case Table():
            _check_lengths("cells in each row", block.rows, len(block.columns))
        case Points():
            groups = [block.groups] if block.groups else []
            columns: list[Collection[object]] = [block.y, block.labels, *groups]
            _check_lengths("values for as many points", columns, len(block.x))
        case Matrix():
            _check_lengths("rows", [block.values], len(block.row_labels))
            _check_lengths("values in each row", block.values, len(block.column_labels))
            _check_shares(value for row in block.values for value in row)
        case Lines():
            _check_lines(block)
        case Pyramid():
            _check_lengths("levels", [block.levels], max(len(block.words) - 1, 0))
            for level, units in enumerate(block.levels, start=1):
                _check_lengths(f"units in level {level}", [units], len(block.words) - level)
                for unit in units:
                    _check_shares(unit)
                    if abs(sum(unit) - 1) > _SHARE_ERROR:
                        raise ValueError(f"expected shares that sum to 1, found {unit}")


def _check_lines(block: Lines) -> None:
    names = [series.name for series in block.series]
    if len(set(names)) != len(names):
        raise ValueError(f"expected series of different names, found {shorten(', '.join(names))}")
    for series in block.series:
        spreads = [series.spread] if series.spread else []
        columns: list[Collection[object]] = [series.y, *spreads]
        _check_lengths(f"values in series {series.name!r}", columns, len(series.x))
        if any(spread < 0 for spread in series.spread):
            raise ValueError(f"expected spreads of 0 or more in series {series.name!r}")
        if block.log_y and any(y is not None and y <= 0 for y in series.y):
            raise ValueError(f"expected numbers above 0 on a log axis in series {series.name!r}")


def _check_lengths(unit: str, columns: Iterable[Collection[object]], expected: int) -> None:
    for column in columns:
        if len(column) != expected:
            raise ValueError(f"expected {expected} {unit}, found {len(column)}")


def _check_shares(values: Iterable[float]) -> None:
    for value in values:
        if not 0 <= value <= 1:
            raise ValueError(f"expected numbers from 0 to 1, found {value}")


def _check_values(value: object) -> None:
    """Check that JSON can express a value and all its parts."""
    match value:
        case str() | int() | None:
            pass
        case float():
            if not math.isfinite(value):
                raise ValueError(f"expected finite numbers, found {value}")
        case tuple() | list():
            for part in value:
                _check_values(part)
        case Table() | Points() | Matrix() | Lines() | Pyramid() | Series():
            for field in fields(value):
                _check_values(getattr(value, field.name))
        case _:
            raise ValueError(f"expected a text or a number, found {type(value).__name__}")
