"""Digests of what a result depends on: blake2b of 16 bytes."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from phrasescore.errors import DataError
from phrasescore.io.plain_file import open_plain
from phrasescore.io.text import open_input

DIGEST_SIZE = 16  # bytes


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
