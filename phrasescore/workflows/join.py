"""Join the parts of a run that the tasks of a job array have made."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO, NamedTuple

from moses_integration.moses_ini import MosesIni
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError, DataError, PhrasescoreError
from phrasescore.io.compression import COMPRESSIONS, compression_by_name
from phrasescore.io.output import check_files, open_output, optional_path
from phrasescore.io.plain_file import open_plain
from phrasescore.io.state import new_digest, read_state
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.workflows.annotate import check_moses_ini, declare_scores
from phrasescore.workflows.parts import PartState, state_path
from phrasescore.workflows.warnings import returns_warnings

_logger = logging.getLogger(__name__)

_BLOCK_SIZE = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class JoinSummary:
    """What was joined."""

    # Of the run whose parts they are, such as "annotate".
    verb: str
    parts: int
    # Of the input, in all parts, and what is counted: "lines" of a table, or n-best "lists".
    size: int
    unit: str
    # Of the output.
    num_bytes: int
    warnings: tuple[str, ...] = ()


class _FoundPart(NamedTuple):
    """A part's file, and what is said beside it."""

    path: str
    state: PartState


@returns_warnings
def join(
    parts: Sequence[StrPath],
    output: StrPath,
    *,
    moses_ini: StrPath | None = None,
    moses_ini_out: StrPath | None = None,
    allow_unlike: bool = False,
    progress: ProgressCallback | None = None,
) -> JoinSummary:
    """Join all parts of one run; the result has the bytes of a run that made no parts.

    :param parts: the files that were made with ``part``, in any order; beside each lies its
        ``PART.json``. They stay.
    :param output: named ``.gz`` if the parts are, as their bytes are copied.
    :param moses_ini: of parts of `annotate`, the moses.ini that uses the table.
    :param moses_ini_out: where that goes with the new columns in it, with weight 0.
    :param allow_unlike: join parts that were made on processors of other kinds, whose values may
        differ in the last bits.
    :raises PhrasescoreError: if a part is missing, is there twice, has changed, or is of another
        run: of another input, with other columns or options, or made by another version.
    """
    check_sequences(parts=parts)
    paths, output = [os.fspath(part) for part in parts], os.fspath(output)
    if not paths:
        raise ArgumentError("`parts`: expected at least one")
    ini_path, new_ini_path = optional_path(moses_ini), optional_path(moses_ini_out)
    check_moses_ini(ini_path, new_ini_path)
    check_files([*paths, *map(state_path, paths), ini_path], [output, new_ini_path])
    found = sorted((_read(path) for path in paths), key=lambda part: part.state.number)
    _check_run(found, allow_unlike=allow_unlike)
    _check_numbers(found)
    _check_name(found[0], output)
    ini = None if ini_path is None else _declare_scores(found, ini_path, new_ini_path, output)
    total = sum(part.state.num_bytes for part in found)
    with open_output(output, is_packed=True) as target, Meter("join", "bytes", progress) as meter:
        for part in found:
            _copy(part, target, meter)
        if ini is not None and new_ini_path is not None:
            ini.write(new_ini_path)
    size = sum(part.state.size for part in found)
    return JoinSummary(found[0].state.verb, len(found), size, found[0].state.unit, total)


def _read(path: str) -> _FoundPart:
    """Return a part whose file has the size that it should have."""
    try:
        size = os.path.getsize(path)
    except OSError as error:
        raise DataError(path, None, f"cannot open: {error.strerror}") from error
    state = read_state(state_path(path), PartState)
    if state is None:
        problem = f"expected a file that --part has made; there is no {state_path(path)}"
        raise DataError(path, None, problem)
    if size != state.num_bytes:
        raise _changed(path, f"{state.num_bytes:,} bytes", f"{size:,}")
    return _FoundPart(path, state)


def _changed(path: str, expected: str, found: str) -> DataError:
    problem = f"expected {expected} as --part has written them, found {found}"
    return DataError(path, None, f"{problem}: the file was changed, or is not copied whole")


def _check_run(parts: Sequence[_FoundPart], *, allow_unlike: bool) -> None:
    """Check that all are parts of one run, made on like machines."""
    path, first = parts[0]
    unlike = []
    for part in parts[1:]:
        differences = [
            ("verb", first.verb, part.state.verb),
            ("number of parts", str(first.count), str(part.state.count)),
            *_values(first.settings, part.state.settings),
        ]
        for name, one, other in differences:
            if one != other:
                problem = f"has another {name} ({other}, there {one})"
                raise PhrasescoreError(f"{part.path} is of another run than {path}: it {problem}")
        for name, one, other in _values(first.machine, part.state.machine):
            if one != other:
                unlike.append(f"{part.path} was made with another {name} ({other}, not {one})")
    if unlike:
        problem = f"{unlike[0]}: the last bits of values may differ"
        if not allow_unlike:
            raise PhrasescoreError(f"{problem}; `allow_unlike` joins such parts")
        _logger.warning("%s; %d differences in all", problem, len(unlike))


def _values(
    one: Mapping[str, str], other: Mapping[str, str]
) -> list[tuple[str, str | None, str | None]]:
    """Return each name of either with its value in both."""
    return [(name, one.get(name), other.get(name)) for name in sorted({*one, *other})]


def _check_numbers(parts: Sequence[_FoundPart]) -> None:
    """Check that each part of the run is there once; they are in their order."""
    for one, other in pairwise(parts):
        if one.state.number == other.state.number:
            problem = f"{one.path} and {other.path} are both part {one.state.number}"
            raise PhrasescoreError(f"{problem} of {one.state.count}")
    count = parts[0].state.count
    there = {part.state.number for part in parts}
    missing = [str(number) for number in range(1, count + 1) if number not in there]
    if missing:
        shown = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
        problem = f"is one of {count} parts, of which {len(missing)} are missing: {shown}"
        raise PhrasescoreError(f"{parts[0].path} {problem}")


def _check_name(part: _FoundPart, output: str) -> None:
    """Check that the output's name says how its bytes are."""
    form = next((each for each in COMPRESSIONS if each.name in part.state.settings), None)
    named = compression_by_name(output)
    if output != "-" and named is not form:
        if form is not None:
            kind, end = form.name, f"has to end in .{form.ending}"
        elif named is not None:
            kind, end = "plain", f"must not end in .{named.ending}"
        raise ArgumentError(f"`output`: the parts are {kind}, so the name {end}: {output!r}")


def _declare_scores(
    parts: Sequence[_FoundPart], ini_path: str, new_ini_path: str | None, output: str
) -> MosesIni | None:
    """Return a moses.ini that uses the joined table."""
    tables = [part.state.table for part in parts if part.state.table is not None]
    if not tables:
        raise ArgumentError("`moses_ini` is for the parts of a phrase table")
    num_scores = max(table.num_scores for table in tables)
    table = tables[0]
    return declare_scores(ini_path, new_ini_path, table.path, output, table.added, num_scores)


def _copy(part: _FoundPart, target: BinaryIO, meter: Meter) -> None:
    """Copy the bytes of a part, which must be those that were written."""
    digest = new_digest()
    with open_plain(part.path) as source:
        while data := source.read(_BLOCK_SIZE):
            digest.update(data)
            target.write(data)
            meter.update(len(data))
    if digest.hexdigest() != part.state.digest:
        raise _changed(part.path, "the bytes", "others")
