"""Save the state of a resumable run as JSON, and compute digests of what the run depends on.

A state is a `msgspec.Struct`. Its file has the key ``format`` in addition to the fields, and is
replaced as a whole. It also records everything that the result depends on; `check_same_run`
compares this before a run is resumed. Digests are blake2b of 16 bytes.
"""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.output import writing
from phrasescore.io.plain_file import MAX_JSON, open_plain, read_plain
from phrasescore.io.text import open_input

FORMAT = 1
DIGEST_SIZE = 16  # bytes

# Numbers of a state, limited to what a real run can reach.
Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]

_State = TypeVar("_State", bound=msgspec.Struct)


def write_state(path: str | os.PathLike[str], state: msgspec.Struct) -> None:
    """Replace a state file as a whole, synced to the disk."""
    path = os.fspath(path)
    new = f"{path}.new"
    values = {"format": FORMAT, **msgspec.to_builtins(state)}
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


def read_state(path: str | os.PathLike[str], kind: type[_State]) -> _State | None:
    """Return the state in a file of the type ``kind``, or None if there is no file.

    :raises DataError: if the file is not a state of this type and format.
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
        raise DataError(
            path, None, f"expected the state of a run of this version: {error}"
        ) from error


def check_same_run(old: Mapping[str, Any], new: Mapping[str, Any], where: str, cure: str) -> None:
    """Check that a run to resume has the same properties as when it was started.

    :param where: what holds the run, for the message.
    :param cure: what else the user can do.
    :raises PhrasescoreError: naming the first property that differs, in alphabetical order.
    """
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            raise PhrasescoreError(
                f"{where} was begun with another {key} ({old.get(key)}, now {new.get(key)}): "
                f"resume it as it was begun, or {cure}"
            )


def new_digest(content: bytes = b"") -> "hashlib.blake2b":
    """Return a digest that more content can be added to."""
    return hashlib.blake2b(content, digest_size=DIGEST_SIZE)


def digest_text(text: str) -> str:
    """Return the digest of a text, which may contain file names that are not UTF-8."""
    return new_digest(text.encode(errors="surrogateescape")).hexdigest()


def digest_file(path: Path) -> str:
    """Return the digest of the bytes of a file.

    :raises DataError: if it is a pipe or a device.
    :raises OSError: if it cannot be read.
    """
    with open_plain(path) as stream:
        return hashlib.file_digest(stream, new_digest).hexdigest()


def digest_content(path: str) -> str:
    """Return the digest of a file's decompressed content; ``-`` is stdin."""
    with open_input(path) as stream:
        return hashlib.file_digest(stream, new_digest).hexdigest()


class FileDigests:
    """Digests of files and folders on the disk.

    A file is read again only if its size or modification time has changed.

    :param known: size, modification time in ns and digest by path, from an earlier run.
    :param written: the content that some files are going to have.
    """

    def __init__(self, known: Mapping[str, list[int | str]], written: Mapping[Path, bytes]) -> None:
        self.known = dict(known)
        self._written = written

    def digest(self, path: Path) -> str:
        """Return the digest of a file, or of a folder's files and their names.

        Files whose names begin with a dot are ignored: Snakemake puts such files into folders.
        """
        try:
            if not path.is_dir():
                return self._digest_file(path)
            parts = [
                f"{file.relative_to(path)} {self._digest_file(file)}"
                for file in sorted(path.rglob("*"))
                if file.is_file() and not file.name.startswith(".")
            ]
        except OSError as error:
            raise DataError(str(path), None, f"cannot open: {error.strerror}") from error
        return digest_text("\n".join(parts))

    def _digest_file(self, path: Path) -> str:
        if path in self._written:
            return new_digest(self._written[path]).hexdigest()
        status = os.stat(path)
        current = [status.st_size, status.st_mtime_ns]
        size, changed, digest = self.known.get(str(path), (None, None, ""))
        if [size, changed] != current:
            digest = digest_file(path)
            self.known[str(path)] = [*current, digest]
        return str(digest)
