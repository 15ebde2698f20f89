"""The command of a step: a verb of ``phrasescore`` and its options, as a user could type them.

The step's process sends messages to the experiment. In what an experiment writes, its own files,
and those that the user named by relative paths, have relative names, so that they can be moved
together. A file that the user named by an absolute path keeps it.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from phrasescore.arguments import flag
from phrasescore.workflows.search_settings import SearchSettings


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of JSON on the stdout of a step's process: a warning, or the step's progress."""

    warning: str = ""
    news: str = ""


def shown(words: Iterable[str]) -> str:
    """Return a command as one line for users."""
    return shlex.join(["phrasescore", *words])


def options(**values: object) -> Iterator[str]:
    """Yield options and their values.

    A sequence repeats its option, and True stands for an option without a value. None and False are
    omitted.

    >>> list(options(moses_ini="in", scores=("a", "b"), reverse=True, seed=None))
    ['--moses-ini', 'in', '--scores', 'a', '--scores', 'b', '--reverse']
    """
    for name, value in values.items():
        option = "-o" if name == "output" else flag(name)
        if value is True:
            yield option
        elif value is not None and value is not False:
            for each in value if isinstance(value, list | tuple) else (value,):
                yield from (option, str(each))


def limit_options(search: SearchSettings) -> Iterator[str]:
    """Yield a search's limits as options for ``phrasescore decode``."""
    usual = SearchSettings().buffer_size
    size = None if search.buffer_size == usual else search.buffer_size
    return options(**search.limits(), buffer_size=size)


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
