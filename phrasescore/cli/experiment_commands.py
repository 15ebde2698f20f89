"""Commands that run beside this process, each with its output in a log of its own."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from phrasescore.errors import PhrasescoreError
from phrasescore.openmp import environment_of_children

# What stands first in a command of this package, as a user would type it.
PHRASESCORE = "phrasescore"
# How it is run here, wherever it is installed.
LAUNCHER = (sys.executable, "-m", "phrasescore.cli")
# Seconds between two lines about a command that is still running, and for which one that was
# interrupted may go on, to save what it has done.
REPORT_EVERY = 60.0
# Lines of a log that a message shows, and bytes of it that are looked at.
_TAIL_LINES = 8
_TAIL_BYTES = 8192
# What a warning begins with.
_WARNING = f"{PHRASESCORE}: warning: "


class Command:
    """A command at work, started by the constructor.

    :param name: of the step, for messages.
    :param words: as a user would type them.
    :param log: gets what it prints, after what is there.
    :param launcher: what ``phrasescore`` stands for, also inside an argument that is a command.
    :param kept_open: descriptors that it inherits.
    :raises PhrasescoreError: if it cannot be run.
    """

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        log: Path,
        *,
        launcher: Sequence[str] = LAUNCHER,
        kept_open: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.log = log
        run = [_launched(word, launcher) for word in words]
        if run[0] == PHRASESCORE:
            run[:1] = launcher
        with log.open("ab") as output:
            output.write(f"$ {shlex.join(words)}\n".encode(errors="surrogateescape"))
            output.flush()
            try:
                self._process = subprocess.Popen(
                    run,
                    stdin=subprocess.DEVNULL,
                    env=environment_of_children(),
                    stdout=output,
                    stderr=output,
                    pass_fds=tuple(kept_open),
                    process_group=0,
                )
            except OSError as error:
                problem = f"cannot run {run[0]!r}: {error.strerror}"
                raise PhrasescoreError(f"{name}: {problem}") from error
        self._start = time.monotonic()
        self._next_report = REPORT_EVERY

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self._start

    def wait(self, seconds: float) -> int | None:
        """Wait at most so long; return the exit code, None if it is still running."""
        try:
            return self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None

    def report(self, say: Callable[[str], None]) -> None:
        """Say how it goes, where nothing was said for a while."""
        if self.seconds >= self._next_report:
            self._next_report += REPORT_EVERY
            say(f"{self.name}: {self.seconds / 60:.0f} min: {log_tail(self.log, 1)}")

    def signal(self, number: int) -> None:
        """Send a signal to it and to what it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def stop(commands: Iterable[Command]) -> None:
    """Stop commands and what they have started, as Ctrl-C does: they save what they have done.

    One that does not end in a minute, or until a second Ctrl-C, is killed.
    """
    commands = list(commands)
    # What a shell starts in the background ignores SIGINT, and so does what that starts.
    in_background = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    for command in commands:
        command.signal(signal.SIGTERM if in_background else signal.SIGINT)
    until = time.monotonic() + REPORT_EVERY
    try:
        for command in commands:
            command.wait(max(0.0, until - time.monotonic()))
    finally:
        for command in commands:
            if command.wait(0) is None:
                command.signal(signal.SIGKILL)
                command.wait(REPORT_EVERY)


def log_tail(log: Path, lines: int = _TAIL_LINES) -> str:
    """Return the end of a log in one line."""
    return " | ".join(list(_log_lines(log))[-lines:]) or "it said nothing"


def log_warnings(log: Path, words: Sequence[str]) -> list[str]:
    """Return the different warnings that a command has given when it ran last.

    :param words: of the command, as they were given to `Command`.
    """
    try:
        text = f"\n{log.read_text(errors='replace')}"
    except FileNotFoundError:
        return []  # who removes logs wants none
    _, _, text = text.rpartition(f"\n$ {shlex.join(words)}")
    lines = [line.strip() for line in text.replace("\r", "\n").split("\n")]
    return list(dict.fromkeys(line[len(_WARNING) :] for line in lines if line.startswith(_WARNING)))


def _log_lines(log: Path) -> Iterator[str]:
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        text = stream.read().decode(errors="replace")
    # What an earlier run of the step has said is before the latest command.
    _, _, text = f"\n{text}".rpartition("\n$ ")
    for line in text.replace("\r", "\n").split("\n")[1:]:
        if line.strip():
            yield line.strip()


def _launched(word: str, launcher: Sequence[str]) -> str:
    """Return an argument, which may itself be a command of this package."""
    if not word.startswith(f"{PHRASESCORE} "):
        return word
    return shlex.join(launcher) + word.removeprefix(PHRASESCORE)
