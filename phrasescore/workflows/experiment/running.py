"""Running steps, each in its own process: no step changes the memory or threads of another.

The process gets the step's call as JSON. Its messages come as values, through its stdout; its
stderr is a log.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from phrasescore.errors import PhrasescoreError
from phrasescore.workflows.experiment.calls import Call
from phrasescore.workflows.experiment.steps import Step, StepState, StepStates

# The program that runs a step: its argument is a call as JSON.
PROGRAM = (sys.executable, "-m", "phrasescore.cli.step")
# The exit code of a process that Ctrl-C has stopped.
_INTERRUPTED = 130
# Seconds to wait for one step before polling the next one.
_LOOK_EVERY = 0.1
# Seconds that an interrupted step has to save its work.
_PATIENCE = 60.0
# Number of log lines in a message, and of bytes that are read from the log's end.
_TAIL_LINES = 8
_TAIL_BYTES = 8192


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of JSON on the stdout of a step: a warning, or its progress."""

    warning: str = ""
    news: str = ""


class RunningStep:
    """A step that runs in its own process, which the constructor starts.

    :param call: the step's call, perhaps with ``resume``.
    :param state: receives the step's warnings and time.
    :param log: the command and the process's stderr are appended to it.
    :param kept_open: descriptors that the process inherits.
    """

    def __init__(
        self,
        step: Step,
        call: Call,
        state: StepState,
        log: Path,
        kept_open: Sequence[int] = (),
    ) -> None:
        self.step, self.state = step, state
        # Seconds of earlier runs that were stopped.
        self.before = state.spent
        self._log = log
        with log.open("ab") as output:
            output.write(f"$ {call.shown()}\n".encode(errors="surrogateescape"))
            self._begin = output.tell()
            output.flush()
            self._process = subprocess.Popen(
                [*PROGRAM, call.to_json()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                pass_fds=kept_open,
                process_group=0,
            )
        assert self._process.stdout is not None
        self._messages = self._process.stdout
        os.set_blocking(self._messages.fileno(), False)
        self._partial = b""
        self._start = time.monotonic()

    def wait(self, seconds: float) -> int | None:
        """Wait for the end; return the exit code, or None if it still runs after ``seconds``."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout=seconds)
        return None

    def read_messages(self, say: Callable[[str], None]) -> bool:
        """Report progress, and add warnings to the state; return whether there are new ones."""
        *lines, self._partial = (self._partial + (self._messages.read() or b"")).split(b"\n")
        known = self.state.warnings
        for line in lines:
            message = msgspec.json.decode(line, type=Message)
            if message.warning and message.warning not in self.state.warnings:
                self.state.warnings = [*self.state.warnings, message.warning]
            if message.news:
                say(f"{self.step.name}: {message.news}")
        return self.state.warnings is not known

    def close(self) -> None:
        """Close the messages, and record the time that the step took."""
        self._messages.close()
        self.state.spent = self.before + time.monotonic() - self._start

    def signal(self, number: int) -> None:
        """Send a signal to the step's process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def problem(self, code: int) -> str | None:
        """Return why the step failed, or None if it did not fail.

        :param code: the exit code of its process, negative if a signal ended it.
        """
        missing = [str(path) for path in self.step.outputs if not path.exists()]
        if code == 0 and not missing:
            return None
        how = f"wrote no {missing[0]}" if code == 0 else f"ended with exit code {code}"
        if code < 0:
            how = f"was killed by signal {-code}"
        problem = f"{self.step.name} {how} (log: {self._log}): {self._tail()}"
        there = " and ".join(str(path) for path in self.step.partial if path.exists())
        if code != 0 and self.before and there:
            # For example if an older version started it, whose state this one refuses.
            problem += f" | to start this step over, remove {there}"
        return problem

    def _tail(self) -> str:
        """Return the last lines that this run has written to the log, as one line."""
        with self._log.open("rb") as stream:
            stream.seek(max(self._begin, self._log.stat().st_size - _TAIL_BYTES))
            text = stream.read().decode(errors="replace")
        lines = [line.strip() for line in text.replace("\r", "\n").split("\n")]
        return " | ".join([line for line in lines if line][-_TAIL_LINES:]) or "it printed nothing"


def run_steps(
    steps: Sequence[Step],
    states: StepStates,
    logs: Path,
    jobs: int,
    say: Callable[[str], None],
    after: Callable[[Step, bool], None],
    kept_open: Sequence[int] = (),
) -> None:
    """Run the steps that are not done.

    A step waits for the earlier steps that write its inputs. When a step fails, the others at work
    are stopped, and are resumed the next time.

    :param logs: the folder of the steps' logs.
    :param jobs: steps at a time; the outputs do not depend on it.
    :param say: called with each line about the running steps.
    :param after: called when a step is done, with whether it had to run.
    :param kept_open: descriptors that processes inherit.
    :raises DataError: if an input of a step is missing.
    :raises PhrasescoreError: if a step fails, with the end of its log.
    :raises KeyboardInterrupt: if a step was interrupted.
    """
    waiting = list(steps)
    running: list[RunningStep] = []

    def start(step: Step) -> RunningStep:
        is_resumed = states.begin(step)
        call = step.call.resumed() if is_resumed and step.partial else step.call
        position = f"step {steps.index(step) + 1} of {len(steps)}"
        say(f"{position}: {step.name}{' (resumed)' if is_resumed else ''}")
        say(f"$ {call.shown()}")
        log = logs / f"{re.sub('[ /]', '.', step.name)}.log"
        for path in (log, *step.outputs, *step.partial):
            path.parent.mkdir(parents=True, exist_ok=True)
        step.prepare()
        return RunningStep(step, call, states.state(step), log, kept_open)

    try:
        while waiting or running:
            while len(running) < jobs and (step := _next(waiting, running)) is not None:
                waiting.remove(step)
                if states.is_done(step):
                    after(step, False)
                elif states.recover(step):
                    after(step, True)
                else:
                    running.append(start(step))
            for each in list(running):
                code = each.wait(_LOOK_EVERY)
                if each.read_messages(say):
                    states.write()  # for a run that is killed later
                if code is not None:
                    running.remove(each)
                    each.close()
                    if (problem := each.problem(code)) is not None:
                        states.discard(each.step)
                        raise (
                            KeyboardInterrupt if code == _INTERRUPTED else PhrasescoreError(problem)
                        )
                    states.finish(each.step)
                    after(each.step, True)
    except BaseException:
        try:
            stop(running)
        finally:
            for each in running:
                each.close()
                states.discard(each.step)  # some leave half an output after Ctrl-C
        raise


def _next(waiting: Sequence[Step], running: Sequence[RunningStep]) -> Step | None:
    """Return the first step whose inputs no other step has still to write."""
    unmade = {path for each in running for path in each.step.outputs}
    for step in waiting:
        if not step.reads(unmade):
            return step
        unmade.update(step.outputs)
    return None


def stop(running: Sequence[RunningStep]) -> None:
    """Interrupt steps and the processes that they started, as Ctrl-C does, so that they save work.

    A step that is still at work after a minute, or at a second Ctrl-C, is killed.
    """
    # A program that a shell starts in the background ignores SIGINT, and so do its children.
    in_background = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    for each in running:
        each.signal(signal.SIGTERM if in_background else signal.SIGINT)
    until = time.monotonic() + _PATIENCE
    try:
        for each in running:
            each.wait(max(0.0, until - time.monotonic()))
    finally:
        for each in running:
            if each.wait(0) is None:
                each.signal(signal.SIGKILL)
                each.wait(_PATIENCE)
