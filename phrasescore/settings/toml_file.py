"""Read settings from TOML files, by key or as dataclasses; unknown keys are rejected.

A dataclass's annotations determine what a key may be: a type, a ``Literal`` of choices, or a number
``Annotated`` with a `msgspec.Meta` range. An error names the file, the table and the key.
"""

import contextlib
import dataclasses
import difflib
import json
import math
import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from phrasescore.errors import BOM_PROBLEM, ConfigError, DataError
from phrasescore.io.plain_file import MAX_TOML, read_plain
from phrasescore.settings.declaration import TYPE_NAMES
from phrasescore.settings.old_names import GONE_KEYS

_Table = TypeVar("_Table")

# The size of TOML's whole numbers in bits, and our limit on nested tables or lists.
_BITS, _MAX_DEPTH = 64, 32


def read_toml(path: str) -> dict[str, Any]:
    """Return the tables in a TOML file of at most 1 MiB, with 64-bit whole numbers."""
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
        problem = "expected TOML, found tables or lists that are nested too deeply"
        raise ConfigError(path, None, problem) from error
    except ValueError as error:  # also from int(), which rejects more than 4,300 digits
        problem = f"expected TOML, found a whole number of more than {_BITS} bits"
        raise ConfigError(path, None, problem) from error
    return values


def to_toml(value: object) -> str:
    """Return a string, number, truth value, list or table as TOML in one line.

    >>> print(to_toml({"models": ["a", "b"], "size": 100}))
    { models = ["a", "b"], size = 100 }
    """
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {to_toml(item)}' for key, item in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(to_toml, value))}]"
    # Apart from this character, strings in JSON are strings in TOML.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _check_values(values: Any, depth: int = 0) -> None:
    """Reject values that Python cannot show in a message: huge numbers, deeply nested tables."""
    if depth > _MAX_DEPTH:
        raise RecursionError
    if isinstance(values, int) and values.bit_length() >= _BITS:
        raise ValueError
    items = values.values() if isinstance(values, dict) else values
    for item in items if isinstance(values, dict | list) else ():
        _check_values(item, depth + 1)


def _absolute_paths(values: Any) -> Iterator[str]:
    if isinstance(values, Mapping | list | tuple):
        for value in values.values() if isinstance(values, Mapping) else values:
            yield from _absolute_paths(value)
    elif isinstance(values, str):
        words = [values, *re.split("[=,]", values)]
        with contextlib.suppress(ValueError):  # not a command
            words += shlex.split(values)
        yield from (os.path.normpath(word) for word in words if os.path.isabs(word))


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return a message about an unknown name, with a suggestion.

    >>> unknown("kind of network", "lsmt", ["rnnsearch", "lstm"])
    "unknown kind of network; did you mean 'lstm'?"
    """
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"expected one of: {', '.join(names)}"
    return f"unknown {what}; {hint}"


class TomlTable:
    """A table in a TOML file. It can be read as a dataclass. The whole file has the name ""."""

    def __init__(self, path: str, name: str, values: Any, *, folder: Path = Path()) -> None:
        if not isinstance(values, Mapping):
            raise ConfigError(path, f"[{name}]", f"expected a table, got {values!r}")
        self.path, self._name, self._values = path, name, values
        self._folder = folder

    def error(self, key: str, problem: str) -> ConfigError:
        """Return an error about a key in this table."""
        where = f"[{self._name}] {key}".rstrip() if self._name else key
        return ConfigError(self.path, where or None, problem)

    def read(self, kind: type[_Table], **fields: Any) -> _Table:
        """Return the table as a dataclass; missing keys keep their defaults.

        A field may be a dataclass (a nested table, whose key becomes its field ``name``, if any),
        a ``dict`` by name, a ``Path`` (which becomes absolute), or a ``tuple`` of any length, for
        which a single value needs no brackets.

        :param fields: values of fields that do not come from the table.
        """
        hints = get_type_hints(kind, include_extras=True)
        own = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
        hints = {name: hints[name] for name in own}
        values = {
            key: self._convert(key, value, hints[key])
            for key, value in self._values.items()
            if key in hints and key not in fields
        }
        for key in self._values:
            if key not in hints or key in fields:
                gone = GONE_KEYS.get(f"{self._name.partition('.')[0]}.{key}")
                if gone is not None:
                    raise self.error(key, f"is gone: {gone}")
                where = f" in [{self._name}]" if self._name else ""
                known = [name for name in hints if name not in fields]
                raise ConfigError(self.path, None, unknown(f"key '{key}'{where}", key, known))
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]
            has_default = (field.default, field.default_factory) != (dataclasses.MISSING,) * 2
            if field.name not in {**values, **fields} and not has_default:
                raise self.error(field.name, f"is missing: expected {_expected(hints[field.name])}")
        try:
            return kind(**values, **fields)
        except ValueError as error:  # fields that do not fit one another
            raise ConfigError(self.path, f"[{self._name}]", str(error)) from error

    def keys(self) -> list[str]:
        """Return the keys, in the order of the file."""
        return list(self._values)

    def values(self) -> dict[str, Any]:
        """Return the values by key."""
        return dict(self._values)

    def with_values(self, values: Mapping[str, Any]) -> "TomlTable":
        """Return a table of the same file with other values."""
        return TomlTable(self.path, self._name, values, folder=self._folder)

    def changed(self, changes: Mapping[str, Any]) -> "TomlTable":
        """Return a copy in which some values are replaced.

        :param changes: new values by key. TABLE.KEY stands for KEY in the inner table TABLE.
        """
        values = self.values()
        for name, value in changes.items():
            table, _, key = name.rpartition(".")
            if table:
                values[table] = {**values.get(table, {}), key: value}
            else:
                values[key] = value
        return self.with_values(values)

    def table(self, key: str) -> "TomlTable":
        """Return a nested table, empty if it is missing."""
        name = f"{self._name}.{key}" if self._name else key
        return TomlTable(self.path, name, self._values.get(key, {}), folder=self._folder)

    def inner(self, name: str, values: Any) -> "TomlTable":
        """Return a table that is an item of a list in this table."""
        return TomlTable(self.path, name, values, folder=self._folder)

    def resolve(self, text: str) -> str:
        """Return a path relative to the file's folder as an absolute path, if it exists there."""
        path = os.path.normpath(self._folder / text)
        return path if text and os.path.exists(path) else text

    def absolute(self, text: str) -> str:
        """Return a path relative to the file's folder as an absolute path."""
        return os.path.normpath(self._folder / text)

    def absolute_paths(self) -> Iterator[str]:
        """Yield the absolute paths in the values, also in commands."""
        yield from _absolute_paths(self._values)

    def check_choice(self, key: str, value: str, choices: Iterable[str]) -> None:
        """Reject a value that is not one of the choices, with a suggestion."""
        if value not in choices:
            raise self.error(key, f"{unknown('value', value, choices)}, got {value!r}")

    def _convert(self, key: str, value: Any, kind: Any) -> Any:
        if type(None) in get_args(kind):  # TOML has no None
            kind = next(option for option in get_args(kind) if option is not type(None))
        if dataclasses.is_dataclass(kind):
            is_named = any(field.name == "name" for field in dataclasses.fields(kind))
            return self.table(key).read(kind, **({"name": key} if is_named else {}))  # type: ignore[arg-type]
        if get_origin(kind) is dict:
            inner = self.table(key)
            of = get_args(kind)[1]
            return {name: inner._convert(name, item, of) for name, item in inner._values.items()}
        if get_origin(kind) is tuple:
            if not isinstance(value, str | list):
                raise self.error(key, f"expected {_expected(kind)}, got {value!r}")
            values = value if isinstance(value, list) else [value]
            if not values and get_args(kind)[0] is Path:
                raise self.error(key, "expected a path, or several, got []")
            return tuple(self._convert(key, item, get_args(kind)[0]) for item in values)
        if kind is Path:
            return Path(os.path.normpath(self._folder / self._convert(key, value, str)))
        try:
            return converted(value, kind)
        except ValueError as error:
            raise self.error(key, str(error)) from error


def converted(value: Any, kind: Any) -> Any:
    """Return a value as an annotation wants it: a number may be in the range of a `msgspec.Meta`.

    :raises ValueError: if its type is wrong, or it is out of range.
    """
    if type(None) in get_args(kind):
        kind = next(option for option in get_args(kind) if option is not type(None))
    if type(value) is int and _base(kind) is float:
        # A whole number may be too large for a float.
        value = float(value) if abs(value) < 1 << 1000 else math.inf
    if _base(kind) is float and type(value) is float and not math.isfinite(value):
        raise ValueError(f"must be finite, got {value!r}")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{_wanted(kind, value)}, got {value!r}") from error


def read_table(path: str, text: str | None = None) -> TomlTable:
    """Read a file as a table, with paths relative to the file's folder. See `read_toml`.

    :param text: the file's content, if it is not written yet.
    """
    values = read_toml(path) if text is None else tomllib.loads(text)
    return TomlTable(path, "", values, folder=Path(os.path.realpath(os.path.dirname(path))))


def _base(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _expected(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if get_origin(kind) is tuple:
        return "a path, or several" if get_args(kind)[0] is Path else "strings"
    if get_origin(kind) is UnionType:
        return "a setting"
    return TYPE_NAMES.get(_base(kind), "a path" if kind is Path else "a table")


def _wanted(kind: Any, value: Any) -> str:
    if type(value) is not _base(kind) or get_origin(kind) is not Annotated:
        return f"expected {_expected(kind)}"
    limits = get_args(kind)[1]
    if limits.gt is not None:
        return f"must be more than {limits.gt:g}"
    if limits.le is None:
        return f"must be at least {str(limits.ge).removesuffix('.0')}"
    return f"must be from {limits.ge} to {limits.le}"
