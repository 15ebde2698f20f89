"""The folder of a report, and its page: a self-contained HTML file without scripts.

The page's content security policy forbids all scripts and all requests.
"""

import os
import re
from collections.abc import Sequence
from importlib import resources
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
NOTHING, MINUS = "–", "\u2212"


def check_folder(folder: str, inputs: Sequence[str]) -> None:
    """Check that the report can be written without replacing an input or an unrelated folder."""
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
    for path in inputs:
        if target in Path(os.path.abspath(path)).parents:
            raise PhrasescoreError(f"{folder}: would replace {path}, which is an input")


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
    """Words of a marked line that belong to one match, or to none."""

    kind: str  # the match: none, word, short (2 or 3 words) or long
    parts: list[tuple[str, bool]]  # words, and whether they differ from the first system


def _marked_runs(line: blocks.MarkedLine) -> list[_MarkedRun]:
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
