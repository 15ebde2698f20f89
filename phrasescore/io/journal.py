"""The journal of resumable work, which records its settings, inputs and finished units.

Outputs, training, tuning and experiments each keep a journal, a JSON file beside the output or in
the work folder. Its type is a `msgspec.Struct`; the file also has the key ``format``. It is
replaced as a whole, and only after the work that it records is on the disk, so it is true whenever
a run is killed. It records everything that the result depends on, which `check_settings` compares
before a run is resumed. Files are recorded as digests, blake2b of 16 bytes.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from phrasescore.arguments import StrPath
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.output import open_output
from phrasescore.io.plain_file import MAX_JSON, open_plain, read_plain
from phrasescore.io.text import open_input

FORMAT = 2
DIGEST_SIZE = 16  # bytes

# Numbers of a journal, limited to what a real run can reach.
Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]

_Journal = TypeVar("_Journal", bound=msgspec.Struct)


def write_journal(path: StrPath, journal: msgspec.Struct) -> None:
    """Replace a journal atomically, and sync it to the disk."""
    values = {"format": FORMAT, **msgspec.to_builtins(journal)}
    with open_output(os.fspath(path)) as file:
        file.write(msgspec.json.format(msgspec.json.encode(values), indent=1) + b"\n")


def read_journal(path: StrPath, kind: type[_Journal], start_over: str = "") -> _Journal | None:
    """Return the journal in a file, or None if the file does not exist; reject other formats."""
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
        cure = f"; {start_over}" if start_over else ""
        problem = f"expected the state of a run of this version: {error}{cure}"
        raise DataError(path, None, problem) from error


def check_settings(
    old: Mapping[str, Any], new: Mapping[str, Any], where: str, start_over: str
) -> None:
    """Check that a resumed run has the same settings and inputs as when it was started."""
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            raise PhrasescoreError(
                f"{where} was started with another value for {key} ({old.get(key)}, now "
                f"{new.get(key)}): resume it with the same settings, or {start_over}"
            )


def new_digest(content: bytes = b"") -> "hashlib.blake2b":
    """Return a digest of ``content``, to which more content can be added."""
    return hashlib.blake2b(content, digest_size=DIGEST_SIZE)


def digest_text(text: str) -> str:
    """Return the digest of a text, which may contain file names that are not UTF-8."""
    return new_digest(text.encode(errors="surrogateescape")).hexdigest()


def digest_file(path: Path) -> str:
    """Return the digest of a regular file's bytes."""
    with open_plain(path) as stream:
        return hashlib.file_digest(stream, new_digest).hexdigest()


def digest_content(path: str) -> str:
    """Return the digest of a file's decompressed content; ``-`` is stdin."""
    with open_input(path) as stream:
        return hashlib.file_digest(stream, new_digest).hexdigest()


class FileDigests:
    """Digests of files and folders, which are read again only if their size or time has changed.

    :param known: size, modification time in ns and digest by path, from an earlier run.
    :param written: the future content of files that are not written yet.
    """

    def __init__(self, known: Mapping[str, list[int | str]], written: Mapping[Path, bytes]) -> None:
        self.known = dict(known)
        self._written = written

    def digest(self, path: Path) -> str:
        """Return the digest of a file, or of the files in a folder and their names.

        Files whose names begin with a dot are ignored: they belong to other programs.
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
