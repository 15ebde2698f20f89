"""Numbers for the content of files and folders, which are not read again where nothing changed."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phrasescore.errors import DataError


class Fingerprints:
    """Digests of files and folders; a file is read again where its size or time has changed.

    :param known: of an earlier run, by path: size, time of change in ns, digest.
    :param written: what is going to be in some files.
    """

    def __init__(self, known: Mapping[str, Any], written: Mapping[Path, bytes]) -> None:
        self.known = dict(known)
        self._written = written

    def of(self, path: Path) -> str:
        """Return the digest of a file's content, or of a folder's files and their names.

        :raises DataError: if it is not there or cannot be read.
        """
        try:
            if not path.is_dir():
                return self._of_file(path)
            parts = [
                f"{found.relative_to(path)} {self._of_file(found)}"
                for found in sorted(path.rglob("*"))
                if found.is_file()
            ]
        except OSError as error:
            raise DataError(str(path), None, f"cannot open: {error.strerror}") from error
        return digest("\n".join(parts))

    def _of_file(self, path: Path) -> str:
        if path in self._written:
            return hashlib.blake2b(self._written[path], digest_size=16).hexdigest()
        status = path.stat()
        is_now = [status.st_size, status.st_mtime_ns]
        size, changed, found = self.known.get(str(path), (None, None, ""))
        if [size, changed] != is_now:
            with path.open("rb") as stream:
                found = hashlib.file_digest(stream, _hash).hexdigest()
            self.known[str(path)] = [*is_now, found]
        return str(found)


def _hash() -> Any:
    return hashlib.blake2b(digest_size=16)


def digest(text: str) -> str:
    """Return a number for a text."""
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()
