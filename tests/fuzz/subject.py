"""What is damaged in one command."""

from dataclasses import dataclass

from tests.fuzz.checks import Check


@dataclass(frozen=True)
class Subject:
    """A command, and the files of its that are damaged, one at a time.

    :ivar command: of phrasescore, or one of ``served.OWN_COMMANDS``.
    :ivar files: paths of files, and of folders for each file in them.
    :ivar outputs: files that it may write if it takes the damaged file; ``.work`` for a folder.
    :ivar check: called where it took the file; returns what is wrong with the output.
    :ivar changes: files that it may change whatever becomes of it.
    :ivar share: how many cases it gets, less than 1 where they take long.
    """

    name: str
    command: str
    files: tuple[str, ...]
    check: Check | None = None
    outputs: tuple[str, ...] = ("out",)
    changes: tuple[str, ...] = ()
    share: float = 1.0
