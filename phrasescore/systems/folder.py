"""The folder of a system: where its file is, and how the folder is written."""

import logging
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.decoder.moses import DecoderCommand
from moses_integration.weight_lines import write_weights
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.evaluation.systems_table import TABLE, read_systems_table
from phrasescore.features.columns import Column
from phrasescore.io.output import open_output
from phrasescore.io.text import is_stream
from phrasescore.records import ConfidenceCurve
from phrasescore.settings.toml_file import to_toml
from phrasescore.systems.text import TextProcessing

if TYPE_CHECKING:
    from phrasescore.systems.system import System

_logger = logging.getLogger(__name__)

SYSTEM, INI, WEIGHTS = "system.toml", "moses.ini", "weights"
STEPS = "steps.json"  # the state of an experiment


def find_system_file(path: str) -> str:
    """Return the system.toml or moses.ini that a name stands for; see `read_system`.

    :raises PhrasescoreError: if there is none.
    """
    expected = "expected a system: a folder with system.toml, or a moses.ini"
    if is_stream(path):
        raise PhrasescoreError(f"{path}: {expected}; found a stream")
    if os.path.isdir(path):
        if os.path.exists(found := os.path.join(path, SYSTEM)):
            return found
        if (row := _find_row(path)) is not None:
            return row
        ini = os.path.join(path, INI)
        found = f"{ini} is one with its own weights" if os.path.exists(ini) else "found none in it"
        raise PhrasescoreError(f"{path}: {expected}; {found}")
    if not os.path.exists(path):
        raise DataError(path, None, "cannot open: No such file or directory")
    if not path.endswith((".ini", ".toml")):
        raise DataError(path, 1, f"{expected} (n-best lists are for tune --lists and rescore)")
    return path


def _find_row(path: str) -> str | None:
    """Return the path of the system that an experiment's folder, or a row's folder, stands for."""
    folder = os.path.realpath(path)
    for base in (folder, os.path.dirname(folder)):
        table = os.path.join(base, TABLE)
        if os.path.exists(table) or os.path.exists(os.path.join(base, STEPS)):
            break
    else:
        return None
    record = read_systems_table(table) if os.path.exists(table) else None
    rows = () if record is None else record.rows
    folders = {row.name: os.path.join(base, row.system) for row in rows if row.system}
    # A row that is made again has no system until it is tuned.
    systems = {
        name: path for name, path in folders.items() if os.path.exists(os.path.join(path, SYSTEM))
    }
    if record is None or not systems:
        problem = "no row of this experiment is finished; its command continues it"
        raise PhrasescoreError(f"{path}: {problem}")
    if base != folder:
        own = (each for each in systems.values() if folder in (each, os.path.dirname(each)))
        return next((os.path.join(each, SYSTEM) for each in own), None)
    chosen = record.chosen.name
    name = chosen if chosen in systems else next(iter(systems))
    if len(systems) < len(rows):
        text = "%s: %d of %d rows are finished: the system is %s for now"
        _logger.info(text, path, len(systems), len(rows), name)
    return os.path.join(systems[name], SYSTEM)


def write_system(system: "System", folder: Path) -> None:
    """Write a system: its moses.ini with the weights of the search, its weights and its file.

    The files refer to tables and models, and do not copy them. Each is written atomically, and
    system.toml is the last one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if system.moses_ini is not None:
        ini = system.read_ini()
        ini.set_weights(system.weights.search)
        ini.folder = ini.folder or "."
        ini.write(str(folder / INI))
    write_weights(str(folder / WEIGHTS), system.weights)
    with open_output(str(folder / SYSTEM)) as stream:
        stream.write("".join(f"{line}\n" for line in _lines(system, folder)).encode())


def _lines(system: "System", folder: Path) -> Iterator[str]:
    def named(path: str | Path) -> str:
        # Relative unless the user named the file, or a folder with it, by an absolute path.
        whole = Path(os.path.abspath(path))
        if not system.absolute.isdisjoint(map(str, (whole, *whole.parents))):
            return str(whole)
        return os.path.relpath(os.path.realpath(path), os.path.realpath(folder))

    if system.moses_ini is not None:
        yield f"moses_ini = {to_toml(INI)}"
    yield f"weights = {to_toml(WEIGHTS)}"
    for key in ("search", "lists", "columns"):
        columns: Sequence[Column] = getattr(system, key)
        rows = [f"{{ {column.with_paths(named).to_toml()} }}" for column in columns]
        if len(rows) == 1:
            yield f"{key} = [{rows[0]}]"
        elif rows:
            yield from (f"{key} = [", *(f"    {row}," for row in rows), "]")
    yield f"nbest_size = {system.nbest_size}"
    if system.limits:
        yield f"limits = {to_toml(dict(system.limits))}"
    if isinstance(system.decoder, DecoderCommand):
        yield f"decoder = {to_toml({'command': _named_command(system.decoder, named)})}"
    elif system.decoder is not None:
        yield f"decoder = {to_toml({'moses': named(system.decoder.folder)})}"
    if system.confidence != ConfidenceCurve():
        yield f"confidence = {to_toml(asdict(system.confidence))}"
    # moses.ini records its own rules.
    if system.moses_ini is None or system.text != TextProcessing.of(system.read_ini()):
        yield from ("", "[text]")
        for key, value in asdict(system.text).items():
            if value:
                yield f"{key} = {to_toml(named(value) if isinstance(value, Path) else value)}"


def _named_command(decoder: DecoderCommand, named: Callable[[str], str]) -> str:
    program, *words = decoder.words()
    if "/" in program:
        program = named(program)
        program = program if "/" in program else f"./{program}"  # not one on the PATH
    return shlex.join([program, *(named(word) if os.path.exists(word) else word for word in words)])
