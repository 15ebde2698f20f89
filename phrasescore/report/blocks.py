"""The sections, tables and figures of a report, as plain values.

A block is a table or a figure. The page and the data files of a report show the same blocks.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass

from phrasescore.errors import PhrasescoreError

Cell = str | int | float | None

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
    """A table whose rows a reader can sort and search.

    :ivar name: name of the data file, without its ending; unique in a report, of ``[a-z0-9-]``.
    :ivar columns: headings; columns of only numbers and None are aligned right.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Points:
    """A scatter plot, or a map on which similar things are near one another.

    :ivar labels: one text per point, shown on hover, and on an enlarged map beside the point.
    :ivar groups: one name per point, which sets its colour; empty for a single group.
    :ivar equal: whether both axes measure the same quantity, and get the same range and a diagonal.
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


def check_report(report: Report) -> None:
    """Check that names are unique, and that JSON can express all numbers.

    :raises PhrasescoreError: with the name of the block.
    """
    blocks = [block for section in report.sections for block in section.blocks]
    # report.json holds the whole report.
    names = Counter(["report", *(block.name for block in blocks)])
    for block in blocks:
        if names[block.name] > 1:
            raise PhrasescoreError(f"report: two blocks are called {block.name!r}")
        number = _find_infinite(astuple(block))
        if number is not None:
            problem = f"expected finite numbers, found {number}"
            raise PhrasescoreError(f"report: block {block.name!r}: {problem}")


def _find_infinite(value: object) -> float | None:
    """Return the first infinite number or NaN of a value or its parts; None if there is none."""
    if isinstance(value, tuple | list):
        return next((found for part in value if (found := _find_infinite(part)) is not None), None)
    return value if isinstance(value, float) and not math.isfinite(value) else None
