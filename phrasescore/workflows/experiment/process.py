"""A step at work in a process of its own: its messages come as values, the rest goes to a log."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from phrasescore.openmp import environment_of_children

# The words that start a program of ours so that it sends messages; others are run as they are.
PROGRAMS = {"phrasescore": (sys.executable, "-m", "phrasescore.cli.step")}
# Seconds that an interrupted step has to save what it has done.
_PATIENCE = 60.0
# Lines of a log that a message shows, and bytes of it that are looked at.
_TAIL_LINES = 8
_TAIL_BYTES = 8192


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of JSON on the stdout of a step: a warning, or how far it is."""

    warning: str = ""
    news: str = ""


class StepProcess:
    """A running command, started by the constructor.

    :param name: of the step, for messages.
    :param log: gets the command and its stderr, after what is there.
    :param kept_open: descriptors that it inherits.
    """

    def __init__(
        self, name: str, command: Sequence[str], log: Path, kept_open: Sequence[int] = ()
    ) -> None:
        self.name = name
        self.log = log
        self.warnings: list[str] = []
        with log.open("ab") as output:
            output.write(f"$ {shlex.join(command)}\n".encode(errors="surrogateescape"))
            self._begin = output.tell()
            output.flush()
            self._process = subprocess.Popen(
                [*PROGRAMS.get(command[0], command[:1]), *command[1:]],
                stdin=subprocess.DEVNULL,
                env=environment_of_children(),
                stdout=subprocess.PIPE,
                stderr=output,
                pass_fds=tuple(kept_open),
                process_group=0,
            )
        assert self._process.stdout is not None
        self._messages = self._process.stdout
        os.set_blocking(self._messages.fileno(), False)
        self._partial = b""
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """The time since it was started."""
        return time.monotonic() - self._start

    def wait(self, seconds: float) -> int | None:
        """Wait for the end; return the exit code, None if it still runs after ``seconds``."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout=seconds)
        return None

    def report(self, say: Callable[[str], None]) -> None:
        """Take its messages, and say its news."""
        *lines, self._partial = (self._partial + (self._messages.read() or b"")).split(b"\n")
        for line in lines:
            message = msgspec.json.decode(line, type=Message)
            if message.warning and message.warning not in self.warnings:
                self.warnings.append(message.warning)
            if message.news:
                say(f"{self.name}: {message.news}")

    def close(self) -> None:
        """Close the pipe of its messages."""
        self._messages.close()

    def signal(self, number: int) -> None:
        """Send a signal to it and to what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def tail(self) -> str:
        """Return the end of what it has written to its log, in one line."""
        with self.log.open("rb") as stream:
            stream.seek(max(self._begin, self.log.stat().st_size - _TAIL_BYTES))
            text = stream.read().decode(errors="replace")
        lines = [line.strip() for line in text.replace("\r", "\n").split("\n")]
        return " | ".join([line for line in lines if line][-_TAIL_LINES:]) or "it said nothing"


def stop(processes: Collection[StepProcess]) -> None:
    """Stop processes and what they have started, as Ctrl-C does: they save what they have done.

    One that does not end in a minute, or until a second Ctrl-C, is killed.
    """
    # What a shell starts in the background ignores SIGINT, and so does what that starts.
    in_background = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    for process in processes:
        process.signal(signal.SIGTERM if in_background else signal.SIGINT)
    until = time.monotonic() + _PATIENCE
    try:
        for process in processes:
            process.wait(max(0.0, until - time.monotonic()))
    finally:
        for process in processes:
            if process.wait(0) is None:
                process.signal(signal.SIGKILL)
                process.wait(_PATIENCE)
