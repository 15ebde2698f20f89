"""TOML files of settings: reading them, and what is said of a name that none has."""

import difflib
import tomllib
from collections.abc import Iterable
from typing import Any

from phrasescore.errors import ConfigError


def read_toml(path: str) -> dict[str, Any]:
    """Return the tables of a file.

    :raises ConfigError: if it cannot be read, or is not TOML.
    """
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(path, None, f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(path, None, f"expected TOML: {error}") from error


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return that a name is not known, with the one that may be meant.

    >>> unknown("kind of network", "lsmt", ["attention", "lstm"])
    "unknown kind of network; did you mean 'lstm'?"
    """
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"expected one of: {', '.join(names)}"
    return f"unknown {what}; {hint}"
