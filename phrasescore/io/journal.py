"""The journal of resumable work: what it was started with, and which units of it are finished.

Outputs, training, tuning and experiments each keep one, a JSON file beside the output or in the
work folder. Its type is a `msgspec.Struct`; the file has the key ``format`` in addition. It is
replaced as a whole, and only after what it promises is on the disk: whenever a run is killed, the
journal is true. It records everything that the result depends on, which `check_settings` compares
before a run is resumed.
"""

import contextlib
import os
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.output import writing
from phrasescore.io.plain_file import MAX_JSON, read_plain

FORMAT = 2

# Numbers of a journal, limited to what a real run can reach.
Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]

_Journal = TypeVar("_Journal", bound=msgspec.Struct)


def write_journal(path: str | os.PathLike[str], journal: msgspec.Struct) -> None:
    """Replace a journal as a whole, synced to the disk."""
    path = os.fspath(path)
    new = f"{path}.new"
    values = {"format": FORMAT, **msgspec.to_builtins(journal)}
    with writing(path):
        # Never follow a link or write to a pipe of this name: the folder may be somebody else's.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(new, flags | os.O_CLOEXEC, 0o666)
        try:
            with open(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(values), indent=1) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise


def read_journal(
    path: str | os.PathLike[str], kind: type[_Journal], start_over: str = ""
) -> _Journal | None:
    """Return the journal in a file, or None if there is no file.

    :param kind: the type of the journal.
    :param start_over: the way to start over, for the message.
    :raises DataError: if the file is not a journal of this type and format.
    """
    path = os.fspath(path)
    try:
        values = msgspec.json.decode(read_plain(path, MAX_JSON), type=dict[str, Any])
        version = values.pop("format", None)
        if version != FORMAT:
            raise msgspec.ValidationError(f"expected format {FORMAT}, got {version!r}")
        return msgspec.convert(values, kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(path, None, f"cannot open: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"expected the state of a run of this version: {error}"
        cure = f"; {start_over}" if start_over else ""
        raise DataError(path, None, f"{problem}{cure}") from error


def check_settings(
    old: Mapping[str, Any], new: Mapping[str, Any], where: str, start_over: str
) -> None:
    """Check that a run to resume has the same settings and inputs as when it was started.

    :param where: the folder or file of the run, for the message.
    :param start_over: the text for the user's alternative.
    :raises PhrasescoreError: naming the first setting that differs, in alphabetical order.
    """
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            raise PhrasescoreError(
                f"{where} was started with another {key} ({old.get(key)}, now {new.get(key)}): "
                f"resume it with the same settings, or {start_over}"
            )
