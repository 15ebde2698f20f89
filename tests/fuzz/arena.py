"""A folder of files in which one command after another runs, each with one file damaged."""

import contextlib
import faulthandler
import io
import os
import shutil
import signal
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from phrasescore.cli import main
from tests.fuzz.served import OWN_COMMANDS

# Seconds of the processor after which a command counts as one that hangs.
DEADLINE = 60

# Size, time and inode of each file.
_Snapshot = dict[str, tuple[int, int, int]]


class HangError(BaseException):
    """A command took too long; no command catches it."""


class Outcome(NamedTuple):
    """What became of a command."""

    # The exit status; None after what no command may raise.
    status: int | None
    stdout: str
    stderr: str
    # Of what was raised.
    trace: str


class Arena:
    """A copy of a folder that is as before after each command.

    :param pristine: the folder that is copied; it stays as it is.
    :param folder: the copy, which becomes the working folder.
    """

    def __init__(self, pristine: Path, folder: Path) -> None:
        self.pristine, self.folder = pristine, folder
        shutil.copytree(pristine, folder)
        os.chdir(folder)
        self._clean = self._known = self._snapshot()

    def run(self, arguments: list[str], deadline: int = DEADLINE) -> Outcome:
        """Run a command; ``deadline`` is in seconds of the processor."""
        stderr = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace")
        stdout = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace")
        status, trace = None, ""
        with (
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
            _deadline(deadline),
        ):
            try:
                if own := OWN_COMMANDS.get(arguments[0]):
                    own(arguments[1:])
                    status = 0
                else:
                    main(arguments, prog_name="phrasescore")
            except SystemExit as ended:
                status = ended.code if isinstance(ended.code, int) else 0
            except BaseException:
                trace = traceback.format_exc(limit=-6)
        stdout.flush()
        stderr.flush()
        data = stdout.buffer.getvalue(), stderr.buffer.getvalue()
        return Outcome(status, data[0].decode(errors="replace"), data[1].decode(), trace)

    def changes(self) -> set[str]:
        return self._differences(self._known)

    def restore(self) -> None:
        for path in self._differences(self._clean):
            (self.folder / path).unlink(missing_ok=True)
            if (self.pristine / path).is_file():
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.pristine / path, self.folder / path)
        for path in sorted(self._folders, reverse=True):
            if not (self.pristine / path).exists():
                (self.folder / path).rmdir()
        self._clean = self._known = self._snapshot()

    def settle(self) -> None:
        """Take the files as they are now for those that a command may not change."""
        self._known = self._snapshot()

    def _differences(self, before: _Snapshot) -> set[str]:
        now = self._snapshot()
        return {path for path in {*now, *before} if now.get(path) != before.get(path)}

    def _snapshot(self) -> _Snapshot:
        found: _Snapshot = {}
        self._folders: list[str] = []
        waiting = [""]
        while waiting:
            for entry in os.scandir(self.folder / waiting.pop()):
                path = entry.path[len(str(self.folder)) + 1 :]
                if entry.is_dir(follow_symlinks=False):
                    self._folders.append(path)
                    waiting.append(path)
                else:
                    stat = entry.stat(follow_symlinks=False)
                    found[path] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
        return found


@contextlib.contextmanager
def _deadline(seconds: int) -> Iterator[None]:
    """End what takes too long, by an exception or, in code that sees none, with the process."""
    patience = 8 * seconds  # of the clock: others use the machine, too

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, stop), signal.signal(signal.SIGPROF, stop)
    signal.alarm(patience)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    faulthandler.dump_traceback_later(2 * patience, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGPROF, before[1])
