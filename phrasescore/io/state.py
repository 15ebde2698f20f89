"""The state of a run that can be resumed: one JSON file, with one reader and one writer.

A state is a `msgspec.Struct`. Its file has ``format`` beside the fields, and appears whole. What a
run is about (all that its result depends on) is kept in it as well, and compared before the run
goes on: `check_same_run`.
"""

import os
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.output import writing

FORMAT = 1

_State = TypeVar("_State", bound=msgspec.Struct)


def write_state(path: str | os.PathLike[str], state: msgspec.Struct) -> None:
    """Replace a state file as a whole, synced to the disk.

    :raises PhrasescoreError: if it cannot be written.
    """
    path = os.fspath(path)
    new = f"{path}.new"
    values = {"format": FORMAT, **msgspec.to_builtins(state)}
    with writing(path):
        with open(new, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(values), indent=1) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)


def read_state(
    path: str | os.PathLike[str], kind: type[_State], *, unversioned: bool = False
) -> _State | None:
    """Return the state in a file, None where there is no file.

    :param kind: the type of the state.
    :param unversioned: whether version 0.1 wrote such files without ``format``.
    :raises DataError: if the file is not a state of this kind and format.
    """
    path = os.fspath(path)
    try:
        with open(path, "rb") as file:
            values = msgspec.json.decode(file.read(), type=dict[str, Any])
        found = values.pop("format", FORMAT if unversioned else None)
        if found != FORMAT:
            raise msgspec.ValidationError(f"expected format {FORMAT}, got {found!r}")
        return msgspec.convert(values, kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(path, None, f"cannot open: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problem = f"expected the state of a run of this version: {error}"
        raise DataError(path, None, problem) from error


def check_same_run(old: Mapping[str, Any], new: Mapping[str, Any], where: str, cure: str) -> None:
    """Check that a run may go on: that it is about the same as the one that was begun.

    :param old: of the run that was begun, by name.
    :param where: what holds the run, for the message.
    :param cure: what else the user can do.
    :raises PhrasescoreError: at the first name, in the order of the alphabet, whose values differ.
    """
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            raise PhrasescoreError(
                f"{where} was begun with another {key} ({old.get(key)}, now {new.get(key)}): "
                f"resume it as it was begun, or {cure}"
            )
