"""The sections, tables and figures of a report as plain values, and their file.

A block is a table or a figure; the page shows the same blocks as the file ``report.json``.
"""

import json
from collections.abc import Iterable

import msgspec
from sacremoses import MosesDetokenizer

Cell = str | int | float | None

_DETOKENIZER = MosesDetokenizer()


def shown(words: Iterable[str]) -> str:
    """Join words with blanks and undo Moses' escapes.

    >>> shown(["l&apos;", "&amp;lt;", "&lt;b&gt;"])
    "l' &lt; <b>"
    """
    text = " ".join(words)
    return str(_DETOKENIZER.unescape_xml(text)) if "&" in text else text


class _Block(msgspec.Struct, frozen=True, tag_field="kind", tag=str.lower):
    """A table or a figure; ``name`` (``[a-z0-9-]``) is its anchor. The file has its kind, too."""

    name: str
    title: str


class Table(_Block, frozen=True):
    """A table.

    :ivar formats: how the page shows the numbers of each column: a format specification such as
        ``.2f``, ``p`` for p-values, or "" for six significant digits.
    :ivar spans: headings that span columns, each with its number of columns. The columns below one
        have it in their names, as in "test: BLEU", and the page shows the rest.
    :ivar strong: the row and column indices of cells in bold.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    formats: tuple[str, ...] = ()
    spans: tuple[tuple[str, int], ...] = ()
    strong: tuple[tuple[int, int], ...] = ()


class Points(_Block, frozen=True):
    """A scatter plot of two numbers with one unit, or a map, of which only distances count.

    :ivar labels: one text per point, shown on hover, and next to the first points on a map.
    :ivar groups: one name per point, which determines its colour; empty for a single group.
    """

    x_label: str
    y_label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    labels: tuple[str, ...]
    groups: tuple[str, ...] = ()
    is_map: bool = False
    caption: str = ""


class Matrix(_Block, frozen=True):
    """Attention weights: a row for each predicted word, a column for each word that is read."""

    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    caption: str = ""


class Series(msgspec.Struct, frozen=True):
    """The points of a line."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


class Lines(_Block, frozen=True):
    """Lines with common axes; the y axis is logarithmic."""

    x_label: str
    y_label: str
    series: tuple[Series, ...]
    caption: str = ""


class Estimates(msgspec.Struct, frozen=True):
    """Values with the ends of their intervals, one per row; None leaves a gap."""

    name: str
    values: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


class Intervals(_Block, frozen=True):
    """Estimates side by side: a row for each name, from top to bottom, with dots and whiskers.

    :ivar series: one or more values per row; several are drawn below one another in a row.
    :ivar signed: whether the values are differences, which have a line at zero.
    """

    x_label: str
    rows: tuple[str, ...]
    series: tuple[Estimates, ...]
    signed: bool = False
    caption: str = ""


class Pyramid(_Block, frozen=True):
    """The soft parse of a sentence by a gated recursive convolution.

    :ivar words: the leaves.
    :ivar levels: the units of each level above the leaves, from the lowest level up and from left
        to right. A unit has three shares that sum to 1: of a new activation, of the left child and
        of the right child. Level k has ``len(words) - k`` units.
    """

    words: tuple[str, ...]
    levels: tuple[tuple[tuple[float, float, float], ...], ...]
    caption: str = ""


class MarkedLine(msgspec.Struct, frozen=True):
    """A system's translation with marks for each word.

    :ivar score: the sentence BLEU, 0 to 100.
    :ivar matches: the length of the longest matching n-gram that contains the word, 0 to 4.
    :ivar differs: whether the word is missing at this place in the first system's translation.
    """

    name: str
    score: float
    words: tuple[str, ...]
    matches: tuple[int, ...]
    differs: tuple[bool, ...]


class MarkedSentence(msgspec.Struct, frozen=True):
    """All translations of a sentence.

    :ivar number: the 1-based line of the sentence.
    :ivar texts: the names and texts of the source, if known, and of the references.
    """

    number: int
    texts: tuple[tuple[str, str], ...]
    lines: tuple[MarkedLine, ...]


class MarkedGroup(msgspec.Struct, frozen=True):
    """Sentences that were chosen for the same reason."""

    title: str
    sentences: tuple[MarkedSentence, ...]
    caption: str = ""


class MarkedTexts(_Block, frozen=True):
    """Translations of sentences by several systems, in which words are marked."""

    baseline: str
    groups: tuple[MarkedGroup, ...]


Figure = Points | Matrix | Lines | Intervals | Pyramid
Block = Table | Figure | MarkedTexts


class Section(msgspec.Struct, frozen=True):
    """A part of the page with its own heading.

    :ivar key: the section's anchor in the page, consisting of ``[a-z0-9-]``.
    :ivar lead: plain text that explains how to read the section; blank lines separate paragraphs.
    :ivar notes: notes at the end of the section, which the reader has to open.
    """

    key: str
    title: str
    lead: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """All sections of a page.

    :ivar left_out: the keys of other sections, and why they are left out.
    :ivar lead: the result in a sentence.
    """

    title: str
    left_out: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    lead: str = ""
    command: str = ""
    origin: str = ""


def to_json(report: Report) -> str:
    """Convert the report to JSON; a block has its fields and its kind, such as table or points."""
    values = msgspec.to_builtins(report)
    return json.dumps(values, ensure_ascii=False, allow_nan=False, indent=1)
