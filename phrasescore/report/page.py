"""The folder of a report, and its page: a self-contained HTML file that works offline.

The page's content security policy forbids all requests, and all scripts except two, which are
identified by their hashes. It allows ``unsafe-eval`` because regl, which draws points for plotly,
compiles its shaders from text.

plotly.js (https://plotly.com/javascript) draws most figures. It is stored compressed, with 2 MB
instead of 5, and decompressed when the reader scrolls to the first figure. Values are stored as
JSON. Jinja escapes HTML, `_json` escapes characters that could end a script, and ``figures.js`` in
``page_parts`` escapes tags that plotly would interpret.
"""

import base64
import functools
import gzip
import hashlib
import json
import math
import os
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from phrasescore.errors import PhrasescoreError
from phrasescore.io.folders import writing_folder
from phrasescore.report import blocks

PAGE = "index.html"
_NAMES = {PAGE, "report.json"}  # in the folder; reports of 0.3 also have a folder of .tsv files

_PARTS = resources.files("phrasescore.report") / "page_parts"
# The parts of the page's script, in order.
_SCRIPTS = (
    *("tables.js", "drawing.js", "figures.js", "map_labels.js", "pyramid.js", "intervals.js"),
    "page.js",
)
NOTHING, MINUS = "–", "\u2212"
_DIGITS = 4  # significant digits of a column's largest number, which set its decimals
_MOST_DECIMALS = 6


def check_folder(folder: str, inputs: Sequence[str]) -> None:
    """Check that the report can be written without replacing an input or an unrelated folder."""
    target = Path(os.path.abspath(folder))
    parent = target.parent
    if not target.name:
        raise PhrasescoreError(f"{folder}: expected the name of a folder for the report")
    if not parent.is_dir():
        raise PhrasescoreError(f"{folder}: cannot write: there is no folder {parent}")
    if not os.access(parent, os.W_OK):
        raise PhrasescoreError(f"{folder}: cannot write: the folder {parent} may not be written to")
    if not os.path.lexists(target):
        return
    if target.is_symlink() or not target.is_dir():
        problem = f"{folder}: expected a folder for the report, found a file or a link"
        raise PhrasescoreError(problem)
    names, data = set(os.listdir(target)), target / "data"
    is_older = data.is_dir() and all(path.suffix == ".tsv" for path in data.iterdir())
    is_report = names - ({"data"} if is_older else set()) == _NAMES
    if names and not is_report:
        problem = f"{folder}: expected an older report or an empty folder,"
        raise PhrasescoreError(f"{problem} found a folder with other files; use a new folder")
    for path in inputs:
        if target in Path(os.path.abspath(path)).parents:
            raise PhrasescoreError(f"{folder}: would replace {path}, which is an input")


def write_report(report: blocks.Report, folder: Path) -> Path:
    """Write a report's page and its data; return the path of the page."""
    page = render_page(report).encode(errors=blocks.ENCODE_ERRORS)
    with writing_folder(os.path.abspath(folder)) as new:
        blocks.write_data(report, new)
        (new / PAGE).write_bytes(page)
    return folder / PAGE


def link_to(path: str, folder: str) -> str:
    """Return a link from the page in a folder to a file.

    The link is relative if the file is in the folder above the page's, or has a relative name, so
    that both can be moved together; otherwise it has the absolute path.
    """
    target, page = Path(os.path.abspath(path)), Path(os.path.abspath(folder))
    if page.parent in target.parents or not os.path.isabs(path):
        return quote(os.fsencode(os.path.relpath(target, page)))
    return target.as_uri()


def render_page(report: blocks.Report) -> str:
    """Render a report as HTML; equal reports give identical pages."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    needs_plotly = any(
        isinstance(block, blocks.PLOTTED) for part in report.sections for block in part.blocks
    )
    plotly_hash, plotly = _pack_plotly() if needs_plotly else (_hash(""), "")
    parts = "\n".join(map(_part, _SCRIPTS))
    script = f'(() => {{\n"use strict";\n{parts}}})();\n'
    environment.filters.update(
        kind=lambda block: type(block).__name__.lower(),
        paragraphs=lambda lead: [text.strip() for text in lead.split("\n\n") if text.strip()],
        number_columns=_number_columns,
        heads=_heads,
        rows=_rows,
        runs=_marked_runs,
        signed=_signed,
        data=_json,
    )
    return environment.from_string(_part("page.html.j2")).render(
        report=report,
        style=Markup(_part("page.css")),
        script=Markup(script),
        hashes=[_hash(script), plotly_hash],
        plotly=plotly,
    )


def _part(name: str) -> str:
    return _PARTS.joinpath(name).read_text("utf-8")


def _hash(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


@functools.cache
def _pack_plotly() -> tuple[str, str]:
    """Return the hash of plotly.js, and the script compressed, as base64."""
    from plotly.offline import get_plotlyjs

    script = get_plotlyjs()
    # With mtime=0, equal scripts give equal bytes.
    return _hash(script), base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode()


class _ShownCell(NamedTuple):
    text: str
    value: str | None  # the sort key: a number with full precision; None for a text


def _number_columns(table: blocks.Table) -> list[bool]:
    """Return for each column whether it has numbers but no texts."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    return [
        any(cell is not None for cell in cells) and not any(isinstance(cell, str) for cell in cells)
        for cells in columns
    ]


def _heads(table: blocks.Table) -> list[str]:
    """Return the headings of the columns, without the headings above them."""
    spans = [name for name, count in table.spans for _ in range(count)]
    if not spans:
        return list(table.columns)
    named = zip(table.columns, spans, strict=True)
    return [column.removeprefix(f"{span}: ") for column, span in named]


def _rows(table: blocks.Table) -> list[tuple[_ShownCell, ...]]:
    formats = table.formats or ("",) * len(table.columns)
    columns = map(_column_cells, zip(*table.rows, strict=True), formats)
    return list(zip(*columns, strict=True))


def _column_cells(cells: Sequence[blocks.Cell], spec: str) -> list[_ShownCell]:
    largest = max((abs(cell) for cell in cells if isinstance(cell, float)), default=0.0)
    digits_before = math.floor(math.log10(largest)) + 1 if largest else 1
    decimals = min(max(_DIGITS - digits_before, 0), _MOST_DECIMALS)
    return [_cell(cell, decimals, spec) for cell in cells]


def _cell(cell: blocks.Cell, decimals: int, spec: str) -> _ShownCell:
    match cell:
        case None:
            return _ShownCell(NOTHING, None)
        case str():
            return _ShownCell(cell, None)
        case int():
            return _ShownCell(f"{cell:,}", str(cell))
        case float():
            is_lost = cell != 0 and abs(cell) < 0.5 * 10**-decimals
            text = f"{cell:.1e}" if is_lost else f"{cell:,.{decimals}f}"
            if spec == "p":
                text = "< 0.001" if cell < 0.001 else f"{cell:.3f}"
            elif spec:
                # Rounding must not leave a minus before zero.
                text = re.sub(r"^[+-](0\.0+)$", r"\1", f"{cell:{spec}}")
            return _ShownCell(text.replace("-", MINUS, 1) if spec else text, repr(float(cell)))


def _signed(number: float) -> str:
    text = f"{number:+.1f}".replace("-", "\N{MINUS SIGN}")
    return text if float(f"{number:.1f}") else "0.0"


class _MarkedRun(NamedTuple):
    """Words of a marked line that belong to one match, or to none."""

    kind: str  # the match: none, word, short (2 or 3 words) or long
    parts: list[tuple[str, bool]]  # words, and whether they differ from the first system


def _marked_runs(line: blocks.MarkedLine) -> list[_MarkedRun]:
    """Split a line into matches, and each match where words begin or cease to differ."""
    runs: list[_MarkedRun] = []
    longest = 0
    marks = zip(line.words, line.matches, line.linked, line.differs, strict=True)
    for word, match, is_linked, differs in marks:
        if runs and (is_linked or longest == match == 0):
            longest = max(longest, match)
            run = runs.pop()
            if run.parts[-1][1] == differs:
                run.parts[-1] = (f"{run.parts[-1][0]} {word}", differs)
            else:
                run.parts.append((word, differs))
        else:
            longest = match
            run = _MarkedRun("", [(word, differs)])
        kind = ("none", "word", "short", "short", "long")[longest]
        runs.append(run._replace(kind=kind))
    return runs


def _json(block: blocks.Block) -> Markup:
    """Convert the values of a figure to JSON that is safe inside a script element."""
    text = json.dumps(
        blocks.block_fields(block), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    # In JSON these characters occur only in strings, where they can be escaped. Without them, no
    # string can end the script element or begin a comment or another element.
    for character in "<>&\u2028\u2029\0":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
