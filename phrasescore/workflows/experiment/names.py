"""The names of files in what an experiment writes.

Its own files, and those that the user named by relative paths, have relative names, so that they
can be moved together. A file that the user named by an absolute path keeps it.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FileNames:
    """Names of files in the experiment's folder, an absolute path without links."""

    folder: Path
    absolute: frozenset[str] = frozenset()  # the files and folders with absolute names

    def is_own(self, path: Path) -> bool:
        """Return whether a file is in the experiment's folder."""
        return self.folder in path.parents

    def of(self, path: Path, start: Path | None = None) -> str:
        """Return the name of a file in a file of ``start``, the experiment's folder by default."""
        named = (str(each) for each in (path, *path.parents))
        if not self.is_own(path) and not self.absolute.isdisjoint(named):
            return str(path)
        return os.path.relpath(path, start or self.folder)

    def in_words(self, words: Iterable[str], rename: Callable[[Path], str]) -> list[str]:
        """Return a command's words with other names of files.

        A word may itself be a command, or have the arguments of a plug-in.
        """

        def one(word: str) -> str:
            path = Path(word)
            if path.is_absolute() and (" " not in word or self.is_own(path) or path.exists()):
                return rename(path)
            if re.match("[a-z_0-9]+ = ", word):  # a column
                return re.sub('(?<=")/[^"]+', lambda match: rename(Path(match[0])), word)
            if " " in word:
                try:
                    return shlex.join(map(one, shlex.split(word)))
                except ValueError:  # not a command
                    return word
            return re.sub(r"(?<==)/[^,]+", lambda match: rename(Path(match[0])), word)

        return [*map(one, words)]
