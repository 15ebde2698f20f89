"""Tables of a TOML file, read key by key: what nobody asks for is refused, with a suggestion."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from phrasescore.config.toml_file import read_toml, unknown
from phrasescore.errors import ConfigError


class TomlTable:
    """A table of the file, whose keys are asked for one by one; `close` refuses the others."""

    def __init__(self, path: str, name: str, values: Any, *, folder: Path) -> None:
        if not isinstance(values, Mapping):
            raise ConfigError(path, f"[{name}]", f"expected a table, got {values!r}")
        self._path, self._name, self._values = path, name, values
        self._asked: list[str] = []
        self._folder = folder

    def error(self, key: str, problem: str) -> ConfigError:
        """Return an error about a key of this table."""
        return ConfigError(self._path, f"[{self._name}] {key}" if self._name else key, problem)

    def _get(self, key: str, kind: type, what: str) -> Any:
        self._asked.append(key)
        value = self._values.get(key)
        if value is not None and type(value) is not kind:
            raise self.error(key, f"expected {what}, got {value!r}")
        return value

    def names(self) -> list[str]:
        """Return the keys that are there, in order."""
        return list(self._values)

    def table(self, key: str) -> "TomlTable":
        """Return a table in this one; an empty one where it is not there."""
        self._asked.append(key)
        name = f"{self._name}.{key}" if self._name else key
        return TomlTable(self._path, name, self._values.get(key, {}), folder=self._folder)

    def inner(self, name: str, values: Any) -> "TomlTable":
        """Return a table that stands in a list of this one."""
        return TomlTable(self._path, name, values, folder=self._folder)

    def text(self, key: str, choices: Iterable[str] = ()) -> str | None:
        """Return a string, None where it is not there."""
        value: str | None = self._get(key, str, "a string")
        if value is not None and choices and value not in choices:
            raise self.error(key, f"{unknown('value', value, choices)}, got {value!r}")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false; false where it is not there."""
        return bool(self._get(key, bool, "true or false"))

    def whole(self, key: str, default: Any = None, minimum: int = 1) -> Any:
        """Return a whole number, the default where it is not there."""
        value = self._get(key, int, "a whole number")
        if value is not None and value < minimum:
            raise self.error(key, f"must be at least {minimum}, got {value}")
        return default if value is None else value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return strings, None where the key is not there; one alone need no brackets."""
        self._asked.append(key)
        value = self._values.get(key)
        if value is None:
            return None
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            raise self.error(key, f"expected strings, got {value!r}")
        return tuple(values)

    def value(self, key: str) -> Any:
        """Return what stands there, unchecked."""
        self._asked.append(key)
        return self._values.get(key)

    def path(self, key: str) -> Path | None:
        """Return a path, made absolute; None where it is not there."""
        value = self.text(key)
        return None if value is None else self._absolute(value)

    def needed_path(self, key: str) -> Path:
        """Return a path that has to be there."""
        found = self.path(key)
        if found is None:
            raise self.error(key, "is missing: expected a path")
        return found

    def paths(self, key: str) -> tuple[Path, ...]:
        """Return one path or several, made absolute."""
        values = self.texts(key)
        if not values:
            raise self.error(key, "is missing: expected a path, or several")
        return tuple(map(self._absolute, values))

    def _absolute(self, value: str) -> Path:
        return Path(os.path.normpath(self._folder / value))

    def close(self) -> None:
        """Refuse the first key that nobody has asked for."""
        for key in self._values:
            if key not in self._asked:
                where = f" in [{self._name}]" if self._name else ""
                problem = unknown(f"key '{key}'{where}", key, self._asked)
                raise ConfigError(self._path, None, problem)


def read_table(path: str) -> TomlTable:
    """Return a file as a table, from which its paths are relative to its folder.

    :raises ConfigError: if it cannot be read, or is not TOML.
    """
    return TomlTable(path, "", read_toml(path), folder=Path(os.path.abspath(path)).parent)
