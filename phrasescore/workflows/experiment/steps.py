"""Steps that run once: a finished one is not repeated, a killed one goes on.

A step has a key: a digest of its command and of the content of its inputs. It is done when it ran
with this key and its outputs are as it left them; so a changed input or setting repeats the step,
and what reads its outputs, and nothing else. The state is in ``steps.json``, replaced as a whole
before and after each step.

Every step writes its outputs whole or not at all, and begins by moving those that an older run left
aside. Outputs that are there when a run was killed are therefore complete. The older ones are
removed when the step is done; until then, they come back with the settings that made them.
"""

import json
import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.folders import LOCK, OLD, remove_folder
from phrasescore.io.output import open_output
from phrasescore.io.state import FileDigests, digest_text, read_state, write_state
from phrasescore.workflows.experiment.process import StepProcess, stop

STATE = "steps.json"
LOGS = "logs"
# The exit code of a process that Ctrl-C has stopped.
_INTERRUPTED = 130
# Seconds of waiting for one process before looking at the next.
_LOOK_EVERY = 0.1


class Action(Protocol):
    """What a step does."""

    def command(self, *, resume: bool = False) -> tuple[str, ...]:
        """Return the command that does the same, as a user could type it."""
        ...

    def program(self, *, resume: bool = False) -> tuple[str, ...]:
        """Return the words that start the process."""
        ...


@dataclass(frozen=True)
class Step:
    """An action, with the files that it reads and writes."""

    # Unique; the name of its log, with dots for blanks.
    name: str
    action: Action
    # Files and folders, all that the outputs depend on.
    inputs: tuple[Path, ...]
    # Files and folders that are there when it is done.
    outputs: tuple[Path, ...]
    # Files and folders that a killed run leaves; removed where the step begins anew.
    partial: tuple[Path, ...] = ()
    # Called before the process starts, to write an input that no user has made.
    prepare: Callable[[], None] = field(default=lambda: None, compare=False)

    def shown(self) -> str:
        """Return the command as a user could type it."""
        return shlex.join(self.action.command())

    def reads(self, paths: Collection[Path]) -> bool:
        """Return whether it reads one of some files and folders, or a file inside of one."""
        return any(
            path == other or path in other.parents for path in paths for other in self.inputs
        )


class StepState(msgspec.Struct, omit_defaults=True):
    """What is known of a step."""

    # Its key when it was begun, and when it was done.
    begun: str | None = None
    done: str | None = None
    # Seconds of runs that were stopped, and of the whole step.
    spent: float = 0.0
    seconds: float | None = None
    warnings: list[str] = []
    # Digests by path.
    outputs: dict[str, str] = {}
    # The state of the outputs that were moved aside.
    older: "StepState | None" = None


class ExperimentState(msgspec.Struct):
    """The steps by name, and the known digests of files."""

    steps: dict[str, StepState]
    files: dict[str, list[int | str]]


class Running(NamedTuple):
    """A step at work."""

    step: Step
    key: str
    process: StepProcess
    # Seconds that it took in runs that were stopped.
    before: float


class StepRunner:
    """Knows which steps are done in a folder, and runs the others.

    :param folder: where the state and the logs are; nobody else works in it.
    :param say: gets the lines about what runs.
    :param lock: a descriptor that processes inherit: of a run that was killed, one may still be at
        work.
    :param written: files that no step makes, see `write_files`.
    """

    def __init__(
        self,
        folder: Path,
        say: Callable[[str], None],
        *,
        lock: int | None = None,
        written: Mapping[Path, bytes] = MappingProxyType({}),
    ) -> None:
        self._folder = folder
        self._say = say
        self._kept_open = () if lock is None else (lock,)
        state = read_state(folder / STATE, ExperimentState) or ExperimentState({}, {})
        self._steps = state.steps
        self._written = dict(written)
        self._files = FileDigests(state.files, self._written)

    def write_files(self) -> None:
        """Write the files that no step makes, where they are not there already."""
        if not (self._folder / STATE).exists():
            self._write()  # it says whose folder it is
        for path, content in self._written.items():
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                with open_output(str(path)) as stream:
                    stream.write(content)

    def key(self, step: Step) -> str:
        """Return the key of a step.

        :raises DataError: if one of its inputs is not there.
        """
        inputs = [[str(path), self._files.digest(path)] for path in step.inputs]
        return digest_text(json.dumps([step.action.command(), inputs]))

    def is_done(self, step: Step) -> bool:
        """Return whether a step need not run."""
        known = self._known(step)
        if known.done is None:
            return False
        try:
            return known.done == self.key(step) and all(
                known.outputs.get(str(path)) == self._files.digest(path) for path in step.outputs
            )
        except DataError:
            return False

    def done(self, steps: Sequence[Step]) -> list[bool]:
        """Return for each step whether it is done, and will stay so when those before it have run.

        A step that reads what another one is going to write is not done.
        """
        found: list[bool] = []
        unknown: set[Path] = set()
        for step in steps:
            found.append(not step.reads(unknown) and self.is_done(step))
            if not found[-1]:
                unknown.update(step.outputs)
        return found

    def seconds(self, step: Step) -> float | None:
        """Return how long a step took, None where it never ran to its end."""
        return self._known(step).seconds

    def warnings(self, step: Step) -> list[str]:
        """Return the warnings of a step that ran to its end."""
        return list(self._known(step).warnings)

    def run(self, steps: Sequence[Step], jobs: int, after: Callable[[Step, bool], None]) -> None:
        """Run the steps that are not done.

        A step waits for those before it in the list that write what it reads. When one fails, those
        beside it are stopped, and go on the next time.

        :param jobs: how many at a time; the outputs do not depend on it.
        :param after: called when a step is done, with whether it had to run.
        :raises PhrasescoreError: if a step fails, with the end of its log.
        :raises KeyboardInterrupt: if one was interrupted.
        """
        waiting = list(steps)
        running: list[Running] = []
        try:
            while waiting or running:
                while len(running) < jobs and (step := _next(waiting, running)) is not None:
                    waiting.remove(step)
                    if self.is_done(step):
                        after(step, False)
                        continue
                    begun = self._begin(step, f"step {steps.index(step) + 1} of {len(steps)}")
                    if begun is None:
                        after(step, True)
                    else:
                        running.append(begun)
                for each in list(running):
                    code = each.process.wait(_LOOK_EVERY)
                    self._report(each)
                    if code is not None:
                        running.remove(each)
                        self._end(each, code)
                        after(each.step, True)
        except BaseException:
            self._stop(running)
            raise

    def _known(self, step: Step) -> StepState:
        return self._steps.get(step.name) or StepState()

    def _begin(self, step: Step, position: str) -> Running | None:
        """Start a step, or go on with it; None where its outputs are there and whole."""
        key, known = self.key(step), self._known(step)
        goes_on = known.begun == key and known.done is None
        if goes_on and all(path.exists() for path in step.outputs):
            self._finish(step, key, known)
            return None
        older = known if known.done is not None else known.older
        if older is not None and not goes_on and self._restore(step, key, older):
            return None
        if not goes_on:
            for path in step.partial:
                _remove(path)
            for path in step.outputs:
                if known.done is not None and os.path.lexists(path):
                    _remove(_aside(path))
                    path.rename(_aside(path))
                else:
                    _remove(path)
        before, warnings = (known.spent, known.warnings) if goes_on else (0.0, [])
        self._steps[step.name] = StepState(begun=key, spent=before, warnings=warnings, older=older)
        self._write()
        command = step.action.command(resume=goes_on)
        self._say(f"{position}: {step.name}{' goes on' if goes_on else ''}")
        self._say(f"$ {shlex.join(command)}")
        for path in (*step.outputs, *step.partial):
            path.parent.mkdir(parents=True, exist_ok=True)
        step.prepare()
        log = self._folder / LOGS / f"{re.sub('[ /]', '.', step.name)}.log"
        log.parent.mkdir(exist_ok=True)
        program = step.action.program(resume=goes_on)
        process = StepProcess(step.name, program, command, log, self._kept_open)
        return Running(step, key, process, before)

    def _restore(self, step: Step, key: str, older: StepState) -> bool:
        """Bring back the outputs that were made with this key before, where they are aside."""
        places = {_aside(path): path for path in step.outputs}
        if older.done != key or not all(os.path.lexists(aside) for aside in places):
            return False
        for aside, path in places.items():
            _remove(path)
            aside.rename(path)
        self._steps[step.name] = older
        if not self.is_done(step):
            return False
        self._write()
        return True

    def _end(self, running: Running, code: int) -> None:
        """Note that a process has ended with this exit code; below 0 it is that of a signal."""
        step, log = running.step, running.process.log
        self._note_time(running)
        if code != 0:
            self._discard(step)
            if code == _INTERRUPTED:
                raise KeyboardInterrupt
            how = f"ended with exit code {code}" if code > 0 else f"was killed by signal {-code}"
            problem = f"{step.name} {how} (log: {log}): {running.process.tail()}"
            there = " and ".join(str(path) for path in step.partial if path.exists())
            if running.before and there:
                # As where an older version began it, whose state this one does not take.
                problem += f" | to begin this step anew, remove {there}"
            raise PhrasescoreError(problem)
        missing = [str(path) for path in step.outputs if not path.exists()]
        if missing:
            problem = f"wrote no {missing[0]} (log: {log}): {running.process.tail()}"
            raise PhrasescoreError(f"{step.name} {problem}")
        self._finish(step, running.key, self._steps[step.name])

    def _report(self, running: Running) -> None:
        """Say the news of a step, and keep its warnings, for a run that is killed later."""
        running.process.report(self._say)
        known = self._steps[running.step.name]
        new = [line for line in running.process.warnings if line not in known.warnings]
        if new:
            known.warnings = [*known.warnings, *new]
            self._write()

    def _stop(self, running: Sequence[Running]) -> None:
        """Stop steps as Ctrl-C does; they go on the next time."""
        try:
            stop(each.process for each in running)
        finally:
            for each in running:
                self._discard(each.step)  # some steps write what they have at Ctrl-C
                self._note_time(each)

    def _note_time(self, running: Running) -> None:
        running.process.close()
        self._steps[running.step.name].spent = running.before + running.process.seconds
        self._write()

    def _discard(self, step: Step) -> None:
        for path in step.outputs:
            _remove(path)

    def _finish(self, step: Step, key: str, known: StepState) -> None:
        outputs = {str(path): self._files.digest(path) for path in step.outputs}
        self._steps[step.name] = StepState(
            done=key, seconds=round(known.spent, 1), warnings=known.warnings, outputs=outputs
        )
        self._write()
        for path in step.outputs:
            _remove(_aside(path))

    def _write(self) -> None:
        write_state(self._folder / STATE, ExperimentState(self._steps, self._files.known))


def check_experiment_folder(folder: Path) -> None:
    """Refuse a folder of something else, in which an experiment would write and remove files.

    :raises PhrasescoreError: if it is there, not empty, and has no state of an experiment.
    """
    if not folder.is_dir() or (folder / STATE).exists():
        return
    others = sorted({path.name for path in folder.iterdir()} - {LOCK})
    if others:
        raise PhrasescoreError(
            f"{folder}: expected a new folder, or that of an experiment, found other things in it, "
            f"such as {others[0]}"
        )


def _next(waiting: Sequence[Step], running: Sequence[Running]) -> Step | None:
    """Return the first step that waits for no other one."""
    unmade: set[Path] = {path for each in running for path in each.step.outputs}
    for step in waiting:
        if not step.reads(unmade):
            return step
        unmade.update(step.outputs)
    return None


def _aside(path: Path) -> Path:
    """Return where an older output is while its step runs again."""
    return path.with_name(f"{path.name}{OLD}")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_folder(path)
        return
    with suppress(FileNotFoundError):
        os.unlink(path)
