"""Digests: short numbers for content, equal where the content is. All are blake2b of 16 bytes."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from phrasescore.errors import DataError
from phrasescore.io.text import open_input

DIGEST_SIZE = 16  # bytes


def new_digest(content: bytes = b"") -> "hashlib.blake2b":
    """Return a digest to which more content may be added, piece by piece."""
    return hashlib.blake2b(content, digest_size=DIGEST_SIZE)


def digest_text(text: str) -> str:
    """Return the digest of a text, which may hold file names that are not UTF-8."""
    return new_digest(text.encode(errors="surrogateescape")).hexdigest()


def digest_file(path: Path) -> str:
    """Return the digest of the bytes of a file.

    :raises OSError: if it cannot be read.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, new_digest).hexdigest()


def digest_content(path: str) -> str:
    """Return the digest of what a file holds, decompressed; ``-`` is stdin.

    :raises DataError: if it cannot be read.
    """
    with open_input(path) as stream:
        return hashlib.file_digest(stream, new_digest).hexdigest()


class FileDigests:
    """Digests of files and folders as they lie on the disk.

    A file is read again only where its size or time of change is another one.

    :param known: of an earlier run, by path: size, time of change in ns, digest.
    :param written: the content that some files are going to have.
    """

    def __init__(self, known: Mapping[str, list[int | str]], written: Mapping[Path, bytes]) -> None:
        self.known = dict(known)
        self._written = written

    def digest(self, path: Path) -> str:
        """Return the digest of a file, or of a folder's files and their names.

        :raises DataError: if it is not there or cannot be read.
        """
        try:
            if not path.is_dir():
                return self._digest_file(path)
            parts = [
                f"{found.relative_to(path)} {self._digest_file(found)}"
                for found in sorted(path.rglob("*"))
                if found.is_file()
            ]
        except OSError as error:
            raise DataError(str(path), None, f"cannot open: {error.strerror}") from error
        return digest_text("\n".join(parts))

    def _digest_file(self, path: Path) -> str:
        if path in self._written:
            return new_digest(self._written[path]).hexdigest()
        status = os.stat(path)
        is_now = [status.st_size, status.st_mtime_ns]
        size, changed, found = self.known.get(str(path), (None, None, ""))
        if [size, changed] != is_now:
            found = digest_file(path)
            self.known[str(path)] = [*is_now, found]
        return str(found)
