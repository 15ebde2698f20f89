"""The errors that phrasescore raises on purpose.

::

    PhrasescoreError                       base of all; the command line prints it and exits with 1
    |-- DataError(path, line, problem)     an input file is malformed
    |-- ConfigError(path, key, problem)    a setting is unknown, of a wrong type or out of range
    |-- ModelError(problem)                a checkpoint is unusable, or a score is not finite
    |-- PluginError(title, problem)        a feature from another package is unusable
    |-- ArgumentError(problem)             an argument is invalid, or arguments cannot be combined
    `-- StoppedError(signal, problem)      a signal stopped a long run, whose state is kept

``str()`` of an error is the whole message for the user. Any other exception is a bug.
"""

import errno
import os
import re
from collections.abc import Iterable
from typing import Any

# Errors of the machine; other OSErrors without a file name are bugs. tempfile, which sacrebleu
# uses, raises ENOENT if no folder accepts a file, as on a full disk.
_MACHINE_ERRORS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EMFILE),
    errno.ENOENT,
}

# The end of the message about a file that begins with a byte order mark.
BOM_PROBLEM = "found a byte order mark before it: save the file as UTF-8 without one"

# Characters that a terminal interprets: C0 and C1 except tab and line feed, and characters that
# change the direction of text.
_CONTROLS = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def show_controls(text: str) -> str:
    """Return a text that may quote files, with its control characters escaped as in JSON.

    >>> show_controls(chr(27) + "[2J") == chr(92) + "u001b[2J"
    True
    """
    return _CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text)


def shown_path(path: str) -> str:
    """Return a path as shown in messages: ``-`` is ``<stdin>``."""
    return "<stdin>" if path == "-" else path


def some_names(names: Iterable[str]) -> str:
    """Return up to ten names for a message, followed by the number of the remaining names.

    >>> some_names(["LM0", "TM0"])
    'LM0, TM0'
    """
    listed = list(names)
    more = [f"and {len(listed) - 10:,} more"] if len(listed) > 10 else []
    return ", ".join(listed[:10] + more)


class PhrasescoreError(Exception):
    """The base of all errors that are raised on purpose, which can be sent between processes.

    Messages name parameters by their options, such as "--cache requires a network".
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


def _restore(
    kind: type[PhrasescoreError], arguments: tuple[str, ...], attributes: dict[str, Any]
) -> PhrasescoreError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(attributes)
    return error


class DataError(PhrasescoreError):
    """An input file is malformed; ``line`` is 1-based, after decompression, or None."""

    def __init__(self, path: str, line: int | None, problem: str) -> None:
        self.path = path
        self.line = line
        self.problem = problem
        name = shown_path(path)
        where = name if line is None else f"{name}:{line}"
        super().__init__(f"{where}: {problem}")


class ConfigError(PhrasescoreError):
    """A setting is unknown, has a wrong type or is out of range; ``key`` is ``[table] key``."""

    def __init__(self, path: str, key: str | None, problem: str) -> None:
        self.path = path
        self.key = key
        self.problem = problem
        where = path if key is None else f"{path}: {key}"
        super().__init__(f"{where}: {problem}")


class ModelError(PhrasescoreError):
    """A checkpoint is unusable, or a score is not a finite log-probability."""


class PluginError(PhrasescoreError):
    """A feature from another package is unusable, or breaks its contract."""

    def __init__(self, title: str, problem: str) -> None:
        self.title = title
        self.problem = problem
        super().__init__(f"{title}: {problem}")


class ArgumentError(PhrasescoreError, ValueError):
    """An argument is invalid, or arguments cannot be combined; the command line exits with 2."""


class StoppedError(PhrasescoreError):
    """A signal stopped a run, whose state is kept so that it can be resumed.

    The command line exits with 128 plus the signal number ``signal``. The message says how much is
    done, and how to resume the run.
    """

    def __init__(self, signal: int, problem: str) -> None:
        self.signal = signal
        super().__init__(problem)


def file_problem(error: OSError) -> str | None:
    """Return the message for a file or disk error, or None for a bug."""
    if error.filename is None and error.errno not in _MACHINE_ERRORS:
        return None
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return f"{where}{error.strerror or error}"
