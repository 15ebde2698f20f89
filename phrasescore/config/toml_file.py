"""TOML files of settings: read key by key, or as dataclasses; a key that nobody knows is refused.

A dataclass says by its annotations what a key may be: a type, a ``Literal`` of choices, or a number
``Annotated`` with the range of a `msgspec.Meta`. An error names the file, the table and the key.
"""

import dataclasses
import difflib
import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from phrasescore.errors import ConfigError, DataError
from phrasescore.io.plain_file import MAX_TOML, read_plain
from phrasescore.io.text import BOM_PROBLEM

_Made = TypeVar("_Made")

_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}

# What TOML promises of a number, and tables or lists in one another.
_BITS, _MAX_DEPTH = 64, 32
_TOO_DEEP = "tables or lists too deep in one another"


def read_toml(path: str) -> dict[str, Any]:
    """Return the tables of a file.

    :raises ConfigError: if it cannot be read, is a pipe, a device or larger than 1 MiB, or is not
        TOML, whose whole numbers have 64 bits.
    """
    try:
        text = read_plain(path, MAX_TOML).decode()
        if text.startswith("\ufeff"):
            raise ConfigError(path, None, f"expected TOML, {BOM_PROBLEM}")
        values = tomllib.loads(text)
        _check_values(values)
    except OSError as error:
        raise ConfigError(path, None, f"cannot be read: {error.strerror}") from error
    except DataError as error:
        raise ConfigError(path, None, error.problem) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(path, None, f"expected TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(path, None, f"expected TOML, found {_TOO_DEEP}") from error
    except ValueError as error:  # also of int(), which refuses more than 4,300 digits
        problem = f"expected TOML, found a whole number of more than {_BITS} bits"
        raise ConfigError(path, None, problem) from error
    return values


def _check_values(values: Any, depth: int = 0) -> None:
    """Refuse values that Python cannot show in a message: numbers too long, tables too deep."""
    if depth > _MAX_DEPTH:
        raise RecursionError
    if isinstance(values, int) and values.bit_length() >= _BITS:
        raise ValueError
    inner = values.values() if isinstance(values, dict) else values
    for each in inner if isinstance(values, dict | list) else ():
        _check_values(each, depth + 1)


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return that a name is not known, with the one that may be meant.

    >>> unknown("kind of network", "lsmt", ["attention", "lstm"])
    "unknown kind of network; did you mean 'lstm'?"
    """
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"expected one of: {', '.join(names)}"
    return f"unknown {what}; {hint}"


class TomlTable:
    """A table of a file, read as a dataclass.

    :param path: of the file, for messages.
    :param name: of the table, with the names of the tables around it; "" for the whole file.
    :param folder: where relative paths in the file begin.
    :raises ConfigError: if ``values`` is no table.
    """

    def __init__(self, path: str, name: str, values: Any, *, folder: Path = Path()) -> None:
        if not isinstance(values, Mapping):
            raise ConfigError(path, f"[{name}]", f"expected a table, got {values!r}")
        self.path, self._name, self._values = path, name, values
        self._folder = folder

    def error(self, key: str, problem: str) -> ConfigError:
        """Return an error about a key of this table."""
        return ConfigError(self.path, f"[{self._name}] {key}" if self._name else key, problem)

    def read(self, kind: type[_Made], **given: Any) -> _Made:
        """Return the table as a dataclass; a key that the table leaves out keeps its default.

        A field may be a dataclass (a table in this one, whose key is its field ``name`` if it has
        one), a ``dict`` by name, a ``Path`` (made absolute), or a ``tuple`` of any length, for
        which one value needs no brackets.

        :param given: fields that are not in the table.
        :raises ConfigError: at the first key that is unknown, of a wrong type, out of range, or
            missing.
        """
        hints = get_type_hints(kind, include_extras=True)
        found = {
            key: self._made(key, value, hints[key])
            for key, value in self._values.items()
            if key in hints and key not in given
        }
        for key in self._values:
            if key not in hints or key in given:
                where = f" in [{self._name}]" if self._name else ""
                known = [name for name in hints if name not in given]
                problem = unknown(f"key '{key}'{where}", key, known)
                raise ConfigError(self.path, None, problem)
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]
            has_default = (field.default, field.default_factory) != (dataclasses.MISSING,) * 2
            if field.name not in {**found, **given} and not has_default:
                raise self.error(field.name, f"is missing: expected {_expected(hints[field.name])}")
        return kind(**found, **given)

    def table(self, key: str) -> "TomlTable":
        """Return a table in this one; an empty one where it is not there."""
        name = f"{self._name}.{key}" if self._name else key
        return TomlTable(self.path, name, self._values.get(key, {}), folder=self._folder)

    def inner(self, name: str, values: Any) -> "TomlTable":
        """Return a table that stands in a list of this one."""
        return TomlTable(self.path, name, values, folder=self._folder)

    def check_choice(self, key: str, value: str, choices: Iterable[str]) -> None:
        """Refuse a value that is none of some choices.

        :raises ConfigError: with the one that may be meant.
        """
        if value not in choices:
            raise self.error(key, f"{unknown('value', value, choices)}, got {value!r}")

    def _made(self, key: str, value: Any, kind: Any) -> Any:
        if type(None) in get_args(kind):  # TOML has none
            kind = next(each for each in get_args(kind) if each is not type(None))
        if dataclasses.is_dataclass(kind):
            is_named = any(field.name == "name" for field in dataclasses.fields(kind))
            return self.table(key).read(kind, **({"name": key} if is_named else {}))  # type: ignore[arg-type]
        if get_origin(kind) is dict:
            inner = self.table(key)
            of = get_args(kind)[1]
            return {name: inner._made(name, each, of) for name, each in inner._values.items()}
        if get_origin(kind) is tuple:
            if not isinstance(value, str | list):
                raise self.error(key, f"expected {_expected(kind)}, got {value!r}")
            values = value if isinstance(value, list) else [value]
            if not values and get_args(kind)[0] is Path:
                raise self.error(key, "expected a path, or several, got []")
            return tuple(self._made(key, each, get_args(kind)[0]) for each in values)
        if kind is Path:
            return Path(os.path.normpath(self._folder / self._made(key, value, str)))
        if type(value) is int and _base(kind) is float:
            # Digits enough make a whole number that is larger than any float.
            value = float(value) if abs(value) < 1 << 1000 else math.inf
        if _base(kind) is float and type(value) is float and not math.isfinite(value):
            raise self.error(key, f"must be finite, got {value!r}")
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise self.error(key, f"{_wanted(kind, value)}, got {value!r}") from error


def read_table(path: str) -> TomlTable:
    """Return a file as a table; relative paths in it begin at the file's folder.

    :raises ConfigError: if it cannot be read, or is not TOML.
    """
    return TomlTable(path, "", read_toml(path), folder=Path(os.path.abspath(path)).parent)


def _base(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _expected(kind: Any) -> str:
    """Return the name of a type in a message."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if get_origin(kind) is tuple:
        return "a path, or several" if get_args(kind)[0] is Path else "strings"
    if get_origin(kind) is UnionType:
        return "a setting"
    return _NAMES.get(_base(kind), "a path" if kind is Path else "a table")


def _wanted(kind: Any, value: Any) -> str:
    """Return which type is expected, or in which range a number must be."""
    if type(value) is not _base(kind) or get_origin(kind) is not Annotated:
        return f"expected {_expected(kind)}"
    limits = get_args(kind)[1]
    if limits.gt is not None:
        return f"must be more than {limits.gt:g}"
    if limits.le is None:
        return f"must be at least {limits.ge}"
    return f"must be from {limits.ge} to {limits.le}"
