"""Read settings from TOML files, by key or as dataclasses; unknown keys are rejected.

A dataclass's annotations determine what a key may be: a type, a ``Literal`` of choices, or a number
``Annotated`` with a `msgspec.Meta` range. An error names the file, the table and the key.
"""

import contextlib
import dataclasses
import difflib
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from phrasescore.errors import BOM_PROBLEM, ConfigError, DataError
from phrasescore.io.plain_file import MAX_TOML, read_plain
from phrasescore.settings.declaration import converted, expected
from phrasescore.settings.old_names import GONE_KEYS

_Table = TypeVar("_Table")


def read_toml(path: str) -> dict[str, Any]:
    """Return the tables in a TOML file of at most 1 MiB."""
    try:
        text = read_plain(path, MAX_TOML).decode()
        if text.startswith("\ufeff"):
            raise ConfigError(path, None, f"expected TOML, {BOM_PROBLEM}")
        return tomllib.loads(text)
    except OSError as error:
        raise ConfigError(path, None, f"cannot be read: {error.strerror}") from error
    except DataError as error:
        raise ConfigError(path, None, error.problem) from error
    except (ValueError, RecursionError) as error:  # also of tables that are nested too deeply
        raise ConfigError(path, None, f"expected TOML: {error}") from error


def read_value(text: str) -> Any:
    """Return a value of TOML, or else the text, such as a string without quotation marks."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


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


def _absolute_paths(values: Any) -> Iterator[str]:
    if isinstance(values, Mapping | list | tuple):
        for value in values.values() if isinstance(values, Mapping) else values:
            yield from _absolute_paths(value)
    elif isinstance(values, str):
        words = [values, *re.split("[=,]", values)]
        with contextlib.suppress(ValueError):  # not a command
            words += shlex.split(values)
        yield from (os.path.normpath(word) for word in words if os.path.isabs(word))


def unknown(what: str, name: str, known: Iterable[str], old: Mapping[str, str] = {}) -> str:
    """Return a message about an unknown name, with a suggestion.

    :param old: new names by old names; the message for an old name has the new one.

    >>> unknown("kind of network", "lsmt", ["rnnsearch", "lstm"])
    "unknown kind of network; did you mean 'lstm'?"
    """
    if name in old:
        return f"the {what} {name} is now {old[name]}"
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
                raise self.error(field.name, f"is missing: expected {expected(hints[field.name])}")
        try:
            return kind(**values, **fields)
        except ValueError as error:  # fields that do not fit one another
            raise ConfigError(self.path, f"[{self._name}]", str(error)) from error

    def values(self) -> dict[str, Any]:
        """Return the values by key, in the order of the file."""
        return dict(self._values)

    def changed(self, changes: Mapping[str, Any]) -> "TomlTable":
        """Return a copy in which some values are replaced.

        :param changes: new values by key. TABLE.KEY stands for KEY in the inner table TABLE.
        """
        values = self.values()
        for name, value in changes.items():
            table, _, key = name.rpartition(".")
            if table:
                values[table] = {**self.inner(table, values.get(table, {})).values(), key: value}
            else:
                values[key] = value
        return self.inner(self._name, values)

    def table(self, key: str) -> "TomlTable":
        """Return a nested table, empty if it is missing."""
        name = f"{self._name}.{key}" if self._name else key
        return self.inner(name, self._values.get(key, {}))

    def inner(self, name: str, values: Any) -> "TomlTable":
        """Return a table of the same file with other values, such as an item of a list."""
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
                raise self.error(key, f"expected {expected(kind)}, got {value!r}")
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


def read_table(path: str, text: str | None = None) -> TomlTable:
    """Read a file as a table, with paths relative to the file's folder. See `read_toml`.

    :param text: the file's content, if it is not written yet.
    """
    values = read_toml(path) if text is None else tomllib.loads(text)
    return TomlTable(path, "", values, folder=Path(os.path.realpath(os.path.dirname(path))))
