"""The errors that phrasescore raises on purpose.

::

    PhrasescoreError                       base of all; the command line prints it and exits 1
    |-- DataError(path, line, problem)     an input file is not what it should be
    |-- ConfigError(path, key, problem)    a setting is unknown, of a wrong type or out of range
    |-- ModelError(problem)                a checkpoint is unusable, or a score is no logarithm
    |-- PluginError(title, problem)        a feature or metric of another package is unusable
    |-- ArgumentError(problem)             the arguments of a call do not go together
    `-- StoppedError(signal, problem)      a signal stopped long work, whose state is kept

``str()`` of each is the whole message for the user. Anything else that escapes is a bug.
"""

import errno
import os
import re
from typing import Any

# What a machine, and not a program, does wrong; other errors without a file name are bugs. ENOENT
# comes of tempfile where no folder takes a file, as on full disks: sacrebleu asks for one.
_MACHINE_ERRORS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EMFILE),
    errno.ENOENT,
}

# What a terminal obeys and does not show: C0 and C1 but for tab and line feed, and what turns the
# direction of a text.
_CONTROLS = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def show_controls(text: str) -> str:
    """Return a message or a table with escapes, as JSON has them, for its control characters.

    Files of strangers are quoted there, and a terminal obeys what it is sent.

    >>> show_controls(chr(27) + "[2J") == chr(92) + "u001b[2J"
    True
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shown_path(path: str) -> str:
    """Return a path as messages have it: ``-`` is ``<stdin>``."""
    return "<stdin>" if path == "-" else path


class PhrasescoreError(Exception):
    """Base of every error that is raised on purpose; one process can send it to another.

    A message names parameters as the options of the command line, as in "--moses-ini and
    --moses-ini-out go together".
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
    """An input file is not what it should be.

    :param path: as the user gave it; ``-`` is printed as ``<stdin>``.
    :param line: 1-based, counted after decompression; None where no line is to blame.
    :param problem: what was expected and what was found.
    """

    def __init__(self, path: str, line: int | None, problem: str) -> None:
        self.path = path
        self.line = line
        self.problem = problem
        name = shown_path(path)
        where = name if line is None else f"{name}:{line}"
        super().__init__(f"{where}: {problem}")


class ConfigError(PhrasescoreError):
    """A setting is unknown, of a wrong type or out of range.

    :param path: the file, or the parameter that the setting came from.
    :param key: as ``[table] key``; None where the whole file is to blame.
    """

    def __init__(self, path: str, key: str | None, problem: str) -> None:
        self.path = path
        self.key = key
        self.problem = problem
        where = path if key is None else f"{path}: {key}"
        super().__init__(f"{where}: {problem}")


class ModelError(PhrasescoreError):
    """A checkpoint is unusable, or a score is not a finite log-probability."""


class PluginError(PhrasescoreError):
    """A feature or a metric of another package cannot be used, or breaks its contract.

    :param title: the package, and the name in it.
    :param problem: what was expected and what was found.
    """

    def __init__(self, title: str, problem: str) -> None:
        self.title = title
        self.problem = problem
        super().__init__(f"{title}: {problem}")


class ArgumentError(PhrasescoreError, ValueError):
    """The arguments of a call of the library do not go together.

    The command line exits with 2, as for any wrong command line.
    """


class StoppedError(PhrasescoreError):
    """A signal stopped long work at a good place, and the state to go on from is kept.

    The command line exits with 128 plus the signal, as for any signal.

    :param signal: its number.
    :param problem: how far the work is, and how it goes on.
    """

    def __init__(self, signal: int, problem: str) -> None:
        self.signal = signal
        super().__init__(problem)


def file_problem(error: OSError) -> str | None:
    """Return what a user is told of an error of a file or a disk; None where it is a bug."""
    if error.filename is None and error.errno not in _MACHINE_ERRORS:
        return None
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return f"{where}{error.strerror or error}"
