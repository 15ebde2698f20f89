"""A step at work in a process of its own: its messages come as values, the rest goes to a log.

The process writes one JSON object per line to its stdout: ``{"warning": text}`` for a warning,
``{"news": text}`` for what a user wants to read at once, such as the end of a round of tuning, and
``{"state": text}`` for how far it is. Its stderr is the log.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from phrasescore.devices import environment_of_children
from phrasescore.errors import PhrasescoreError

# Seconds between two lines about a step that goes on, and those that an interrupted one has to
# save what it has done.
REPORT_EVERY = 60.0
# Lines of a log that a message shows, and bytes of it that are looked at.
_TAIL_LINES = 8
_TAIL_BYTES = 8192


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the stdout of a step."""

    warning: str = ""
    news: str = ""
    state: str = ""


class StepProcess:
    """A running program, started by the constructor.

    :param name: of the step, for messages.
    :param program: the words that start it.
    :param shown: the command as a user could type it; the first line of its log.
    :param log: gets what it prints, after what is there.
    :param kept_open: descriptors that it inherits.
    :raises PhrasescoreError: if it cannot be run.
    """

    def __init__(
        self,
        name: str,
        program: Sequence[str],
        shown: Sequence[str],
        log: Path,
        kept_open: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.log = log
        self.warnings: list[str] = []
        with log.open("ab") as output:
            output.write(f"$ {shlex.join(shown)}\n".encode(errors="surrogateescape"))
            output.flush()
            try:
                self._process = subprocess.Popen(
                    program,
                    stdin=subprocess.DEVNULL,
                    env=environment_of_children(),
                    stdout=subprocess.PIPE,
                    stderr=output,
                    pass_fds=tuple(kept_open),
                    process_group=0,
                )
            except OSError as error:
                problem = f"cannot run {program[0]!r}: {error.strerror}"
                raise PhrasescoreError(f"{name}: {problem}") from error
        assert self._process.stdout is not None
        self._messages = self._process.stdout
        os.set_blocking(self._messages.fileno(), False)
        self._partial = b""
        self._state = ""
        self._start = time.monotonic()
        self._next_report = REPORT_EVERY

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
        """Take its messages; say its news, and now and then how far it is."""
        for message in self._new_messages():
            if message.warning and message.warning not in self.warnings:
                self.warnings.append(message.warning)
            if message.news:
                say(f"{self.name}: {message.news}")
            self._state = message.state or self._state
        if self.seconds >= self._next_report:
            self._next_report += REPORT_EVERY
            say(f"{self.name}: {self.seconds / 60:.0f} min: {self._state or 'at work'}")

    def _new_messages(self) -> Iterator[Message]:
        *lines, self._partial = (self._partial + (self._messages.read() or b"")).split(b"\n")
        for line in lines:
            yield msgspec.json.decode(line, type=Message)

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
            stream.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
            text = stream.read().decode(errors="replace")
        _, _, text = f"\n{text}".rpartition("\n$ ")  # earlier runs of the step stand before it
        lines = [line.strip() for line in text.replace("\r", "\n").split("\n")[1:]]
        return " | ".join([line for line in lines if line][-_TAIL_LINES:]) or "it said nothing"


def stop(processes: Iterable[StepProcess]) -> None:
    """Stop processes and what they have started, as Ctrl-C does: they save what they have done.

    One that does not end in a minute, or until a second Ctrl-C, is killed.
    """
    processes = list(processes)
    # What a shell starts in the background ignores SIGINT, and so does what that starts.
    in_background = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    for process in processes:
        process.signal(signal.SIGTERM if in_background else signal.SIGINT)
    until = time.monotonic() + REPORT_EVERY
    try:
        for process in processes:
            process.wait(max(0.0, until - time.monotonic()))
    finally:
        for process in processes:
            if process.wait(0) is None:
                process.signal(signal.SIGKILL)
                process.wait(REPORT_EVERY)
