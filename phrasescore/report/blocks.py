"""What a report is made of: sections of tables and figures, which the page draws as they are.

A block holds plain values. Whoever makes one need not know how it is drawn, and the same values are
what the report's data files have.
"""

from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that can be sorted and searched.

    :ivar columns: headings; a column whose cells are all numbers or None is set to the right.
    :ivar name: of its data file, without an ending; unique in a report, of ``[a-z0-9-]``.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Points:
    """A scatter plot, or a map: what is near belongs together.

    :ivar labels: what is shown on hover, a text a point; on a map beside the point, too, when one
        comes near enough.
    :ivar groups: a name a point, by which it is coloured; empty for a single group.
    :ivar equal: whether both axes measure the same: they get the same range, and a diagonal.
    :ivar is_map: whether the axes mean nothing by themselves.
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
    """A heat map of numbers from 0 to 1: a row of values for each row label, from the top."""

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

    :ivar spread: half the length of each point's error bar; empty for none.
    """

    name: str
    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    spread: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Lines:
    """Some series over one horizontal axis: numbers, or names in their order.

    :ivar bars: whether they are drawn as bars beside one another.
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
    """How a gated recursive convolution joins the words of a sentence, from below.

    :ivar words: the leaves, ``</s>`` among them.
    :ivar levels: for each level above the leaves, from the lowest, and each unit in it, from the
        left: how much of it comes from a new activation, from its left and from its right child;
        the three are 0 or more and sum to one. Level k has ``len(words) - k`` units, the last 1.
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

    :ivar key: its address in the page, of ``[a-z0-9-]``; unique in a report.
    :ivar lead: how it is to be read, in plain text; a blank line begins a new paragraph.
    """

    key: str
    title: str
    lead: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A whole page.

    :ivar facts: what it was made from, as names and values: files, models, counts.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
