"""The folder of a report, and its page: a self-contained HTML file without scripts.

The page's content security policy forbids all scripts and all requests.
"""

import os
import re
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import jinja2
from markupsafe import Markup

from phrasescore.errors import PhrasescoreError
from phrasescore.io.folders import check_folder_above, writing_folder
from phrasescore.report import blocks
from phrasescore.report.figures import draw_figure

PAGE, DATA = "index.html", "report.json"

_PARTS = resources.files("phrasescore.report") / "page_parts"
_KINDS = ("none", "word", "short", "short", "long")  # of matches, by their length
NOTHING, MINUS = "–", "\u2212"


def check_folder(folder: str) -> None:
    """Check that the report can be written without replacing an unrelated folder."""
    target = Path(os.path.abspath(folder))
    if not target.name:
        raise PhrasescoreError(f"{folder}: expected the name of a folder for the report")
    check_folder_above(Path(folder))
    if not os.path.lexists(target):
        return
    if target.is_symlink() or not target.is_dir():
        problem = f"{folder}: expected a folder for the report, found a file or a link"
        raise PhrasescoreError(problem)
    if set(os.listdir(target)) not in (set(), {PAGE, DATA}):
        problem = f"{folder}: expected an older report or an empty folder,"
        raise PhrasescoreError(f"{problem} found a folder with other files; use a new folder")


def write_report(report: blocks.Report, folder: Path) -> Path:
    """Write a report's page and its data; return the path of the page."""
    files = {PAGE: render_page(report), DATA: blocks.to_json(report) + "\n"}
    with writing_folder(os.path.abspath(folder)) as new:
        for name, text in files.items():
            # Bytes in file names that are not UTF-8 are U+DC80 to U+DCFF in Python, and are written
            # as \udc80 to \udcff.
            (new / name).write_bytes(text.encode(errors="backslashreplace"))
    return folder / PAGE


def render_page(report: blocks.Report) -> str:
    """Render a report as HTML; equal reports give identical pages."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        kind=lambda block: type(block).__name__.lower(),
        paragraphs=lambda lead: [text.strip() for text in lead.split("\n\n") if text.strip()],
        number_columns=_number_columns,
        heads=_heads,
        rows=_rows,
        runs=_marked_runs,
        shown=_cell,
        draw=draw_figure,
    )
    template, style = (
        _PARTS.joinpath(name).read_text("utf-8") for name in ("page.html.j2", "page.css")
    )
    return environment.from_string(template).render(report=report, style=Markup(style))


def _number_columns(table: blocks.Table) -> list[bool]:
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    return [
        any(cell is not None for cell in cells) and not any(isinstance(cell, str) for cell in cells)
        for cells in columns
    ]


def _heads(table: blocks.Table) -> list[str]:
    spans = [name for name, count in table.spans for _ in range(count)]
    if not spans:
        return list(table.columns)
    named = zip(table.columns, spans, strict=True)
    return [column.removeprefix(f"{span}: ") for column, span in named]


def _rows(table: blocks.Table) -> list[list[str]]:
    formats = table.formats or ("",) * len(table.columns)
    return [[_cell(*each) for each in zip(row, formats, strict=True)] for row in table.rows]


def _cell(cell: blocks.Cell, spec: str) -> str:
    match cell:
        case None:
            return NOTHING
        case str():
            return cell
        case int():
            return f"{cell:,}"
        case float() if spec == "p":
            return "< 0.001" if cell < 0.001 else f"{cell:.3f}"
        case float():
            # Rounding must not leave a minus before zero.
            text = re.sub(r"^[+-](0\.0+)$", r"\1", f"{cell:{spec or ',.6g'}}")
            return text.replace("-", MINUS, 1)


class _MarkedRun(NamedTuple):
    """Words of a marked line in matches of the same kind, or in none."""

    kind: str  # none, word, short (2 or 3 words) or long
    parts: list[tuple[str, bool]]  # words, and whether they differ from the first system


def _marked_runs(line: blocks.MarkedLine) -> list[_MarkedRun]:
    kinds = (_KINDS[match] for match in line.matches)
    marks = zip(line.words, kinds, line.differs, strict=True)
    return [
        _MarkedRun(
            kind,
            [
                (" ".join(word for word, _, _ in part), differs)
                for differs, part in groupby(run, key=lambda mark: mark[2])
            ],
        )
        for kind, run in groupby(marks, key=lambda mark: mark[1])
    ]
