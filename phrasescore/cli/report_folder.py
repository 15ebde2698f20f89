"""The folder of a report: written whole or not at all, and only over an older report."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from phrasescore.errors import PhrasescoreError

if TYPE_CHECKING:
    from phrasescore.report.blocks import Report

_logger = logging.getLogger(__name__)

PAGE = "index.html"
# What a report's folder holds, and nothing else; in data there are .tsv files alone.
_DATA = "data"
_NAMES = {PAGE, "report.json", _DATA}


def check_folder(path: str, read: Sequence[str]) -> None:
    """Check that a report may be written, before the work.

    :param read: what the report is made from.
    :raises PhrasescoreError: if there is something else than an older report or an empty folder,
        if the folder it would be in is not there or may not be written to, or if it would replace
        what it is made from.
    """
    target = Path(os.path.abspath(path))
    if not target.name:
        raise PhrasescoreError(f"{path}: expected the name of a folder for the report")
    parent = target.parent
    if not parent.is_dir():
        raise PhrasescoreError(f"{path}: cannot write: there is no folder {parent}")
    if not os.access(parent, os.W_OK):
        raise PhrasescoreError(f"{path}: cannot write: the folder {parent} may not be written to")
    if not target.is_symlink() and not target.exists():
        return
    if target.is_symlink() or not target.is_dir():
        raise PhrasescoreError(f"{path}: expected a folder for the report, found a file or a link")
    names = set(os.listdir(target))
    if names and not (names == _NAMES and _is_data(target / _DATA)):
        raise PhrasescoreError(
            f"{path}: expected an older report or an empty folder, found another folder; name a "
            "new one"
        )
    for name in read:
        if target in Path(os.path.abspath(name)).parents:
            raise PhrasescoreError(f"{path}: would replace {name}, which it is made from")


def _is_data(folder: Path) -> bool:
    """Return whether a folder is one that a report has its data in."""
    return folder.is_dir() and all(path.suffix == ".tsv" for path in folder.iterdir())


def write_report(report: "Report", path: str) -> None:
    """Write the page and its data.

    :raises PhrasescoreError: if they cannot be written, or the report cannot be drawn.
    """
    from phrasescore.io.folders import writing_folder
    from phrasescore.report.data import write_data
    from phrasescore.report.page import render_page

    target = Path(os.path.abspath(path))
    # A name of a file may have bytes that are no UTF-8: they stand as \udc.. in the page.
    page = render_page(report).encode(errors="backslashreplace")
    with writing_folder(target) as folder:
        data = folder / _DATA
        data.mkdir()
        write_data(report, data)
        (data / "report.json").rename(folder / "report.json")
        (folder / PAGE).write_bytes(page)
    blocks = sum(len(section.blocks) for section in report.sections)
    _logger.info(
        "report: %d sections, %d tables and figures, %.1f MB: %s",
        len(report.sections),
        blocks,
        len(page) / 1e6,
        Path(path) / PAGE,
    )
