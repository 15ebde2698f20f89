"""Commands that run beside this process, each with its output in a log of its own."""

import os
import re
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
# What a round of tuning says when it has ended.
_ROUND = re.compile(rf"{PHRASESCORE}: round \d+: (?!decoding|taken)")


class Command:
    """A command at work, started by the constructor.

    :param name: of the step, for messages.
    :param words: as a user would type them.
    :param log: gets what it prints, after what is there.
    :param launcher: what ``phrasescore`` stands for.
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
        run = [*(launcher if words[0] == PHRASESCORE else words[:1]), *words[1:]]
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
        self._shown = log.stat().st_size

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
        """Say each round of tuning as it ends, and how it goes after a while without news."""
        for line in self._new_lines():
            if _ROUND.match(line):
                say(f"{self.name}: {line.removeprefix(f'{PHRASESCORE}: ')}")
        if self.seconds >= self._next_report:
            self._next_report += REPORT_EVERY
            say(f"{self.name}: {self.seconds / 60:.0f} min: {log_tail(self.log, 1)}")

    def _new_lines(self) -> list[str]:
        """Return the whole lines that were written since the last call."""
        with self.log.open("rb") as stream:
            stream.seek(self._shown)
            text, end, _ = stream.read().rpartition(b"\n")
        self._shown += len(text) + len(end)
        return text.decode(errors="replace").replace("\r", "\n").split("\n")

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
