"""What must hold of a report before anything of it is drawn or written."""

import math
import re
from collections.abc import Collection, Iterable
from dataclasses import fields

from phrasescore.errors import PhrasescoreError
from phrasescore.io.text import shorten
from phrasescore.report.blocks import (
    Block,
    Lines,
    Matrix,
    Points,
    Pyramid,
    Report,
    Series,
    Table,
)

_NAME = re.compile(r"[a-z0-9-]+")
# Three shares of a unit that were computed in single precision sum to one this well.
_SHARE_ERROR = 1e-3


def check_report(report: Report) -> None:
    """Check that a report can be drawn, and that its parts can be told apart.

    :raises PhrasescoreError: naming the block, if a name or a key is not of ``[a-z0-9-]`` or is
        there twice, lengths do not agree, a number is not finite, a matrix or a pyramid has one
        outside 0 to 1, or a figure with a logarithmic axis has one that is not positive.
    """
    _check_names("section", [section.key for section in report.sections])
    blocks = [block for section in report.sections for block in section.blocks]
    _check_names("block", [block.name for block in blocks])
    # "report" is the name of the file that has everything.
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


def _check_lengths(what: str, columns: Iterable[Collection[object]], expected: int) -> None:
    for column in columns:
        if len(column) != expected:
            raise ValueError(f"expected {expected} {what}, found {len(column)}")


def _check_shares(values: Iterable[float]) -> None:
    for value in values:
        if not 0 <= value <= 1:
            raise ValueError(f"expected numbers from 0 to 1, found {value}")


def _check_values(value: object) -> None:
    """Check that there is nothing that JSON lacks, at any depth."""
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
