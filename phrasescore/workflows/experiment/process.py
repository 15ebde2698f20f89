"""The process of a running step: it reads its settings on stdin, and writes messages to stdout.

The messages are lines of JSON; its stderr is the log.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from phrasescore.progress import Progress, ProgressCallback
from phrasescore.workflows.experiment.functions import written
from phrasescore.workflows.experiment.steps import Step, StepState

# The program that runs a step.
PROGRAM = (sys.executable, "-m", "phrasescore.cli.step")
_PATIENCE = 60.0  # seconds that an interrupted step may take to save its work
# Number of log lines in a message, and of bytes read from the end of the log.
_TAIL_LINES = 8
_TAIL_BYTES = 8192


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of JSON on the stdout of a step's process."""

    warning: str = ""
    news: str = ""  # such as a round of tuning
    progress: Progress | None = None


class RunningStep:
    """A step running in its own process, which the constructor starts and ``log`` records."""

    def __init__(
        self,
        step: Step,
        state: StepState,
        log: Path,
        kept_open: Sequence[int] = (),
        *,
        resume: bool = False,
    ) -> None:
        self.step, self.state = step, state
        self._before = state.spent  # seconds of earlier runs that were stopped
        self._log = log
        settings = written(step.settings)
        message = {"function": step.function, "settings": settings, "resume": resume}
        with log.open("ab") as output:
            output.write(f"$ {step}\n".encode(errors="surrogateescape"))
            self._begin = output.tell()
            output.flush()
            self._process = subprocess.Popen(
                PROGRAM,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                pass_fds=kept_open,
                process_group=0,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(json.dumps(message).encode())
        self._messages = self._process.stdout
        os.set_blocking(self._messages.fileno(), False)
        self._partial = b""
        self._start = time.monotonic()

    def wait(self, seconds: float) -> int | None:
        """Wait for the process; return its exit code, or None after ``seconds``."""
        self.state.spent = self._before + time.monotonic() - self._start
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout=seconds)
        return None

    def read_messages(self, say: Callable[[str], None], progress: ProgressCallback) -> bool:
        """Report progress, and add warnings to the state; return whether there are new ones."""
        *lines, self._partial = (self._partial + (self._messages.read() or b"")).split(b"\n")
        known = self.state.warnings
        for line in lines:
            message = msgspec.json.decode(line, type=Message)
            if message.warning and message.warning not in self.state.warnings:
                self.state.warnings = [*self.state.warnings, message.warning]
            if message.news:
                verb = f"{self.step.name.partition(' ')[0]}: "
                say(f"{self.step.name}: {message.news.removeprefix(verb)}")
            if message.progress is not None:
                progress(replace(message.progress, task=self.step.name))
        return self.state.warnings is not known

    def close(self) -> None:
        """Close the message stream."""
        self._messages.close()

    def signal(self, number: int) -> None:
        """Send a signal to the step's process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def problem(self, code: int) -> str | None:
        """Return an error message if the step failed, or None."""
        missing = [str(path) for path in self.step.outputs if not path.exists()]
        if code == 0 and not missing:
            return None
        how = f"wrote no {missing[0]}" if code == 0 else f"ended with exit code {code}"
        if code < 0:
            how = f"was killed by signal {-code}"
        return f"{self.step.name} {how} (log: {self._log}): {self._tail()}"

    def _tail(self) -> str:
        """Return the last lines that this run wrote to the log, joined into one line."""
        with self._log.open("rb") as stream:
            stream.seek(max(self._begin, self._log.stat().st_size - _TAIL_BYTES))
            text = stream.read().decode(errors="replace")
        lines = [line.strip() for line in text.replace("\r", "\n").split("\n")]
        return " | ".join([line for line in lines if line][-_TAIL_LINES:]) or "no output"


def stop(running: Sequence[RunningStep]) -> None:
    """Interrupt steps and their child processes, as Ctrl-C does, so that they save their work.

    A step that still runs after a minute, or at a second Ctrl-C, is killed.
    """
    # A program that a shell starts in the background ignores SIGINT, and so do its children.
    in_background = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    for process in running:
        process.signal(signal.SIGTERM if in_background else signal.SIGINT)
    until = time.monotonic() + _PATIENCE
    try:
        for process in running:
            process.wait(max(0.0, until - time.monotonic()))
    finally:
        for process in running:
            if process.wait(0) is None:
                process.signal(signal.SIGKILL)
                process.wait(_PATIENCE)
