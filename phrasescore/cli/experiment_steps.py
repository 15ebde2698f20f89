"""Commands that are run once: what is done is not repeated, what was killed goes on.

A step has a fingerprint of its command and of the content of its inputs. It is done when it was
run with this fingerprint and its outputs are as it left them; so a changed input or setting
repeats the step, and what reads its outputs, and nothing else. The state is in ``steps.json``,
replaced as a whole before and after each step.

Every command writes its outputs whole or not at all, and a step begins by moving those that an
older run left aside. Outputs that are there when a run was killed are therefore complete. The older
ones are removed when the step is done; until then, they come back with the settings that made them.
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
from typing import Any, NamedTuple

from phrasescore.cli.experiment_commands import (
    LAUNCHER,
    Command,
    log_tail,
    log_warnings,
    stop,
)
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.digests import FileDigests, digest_text
from phrasescore.io.folders import LOCK, OLD, remove_folder
from phrasescore.io.output import open_output

STATE = "steps.json"
LOGS = "logs"
_FORMAT = 1
# The exit code of a command that Ctrl-C has stopped.
_INTERRUPTED = 130


@dataclass(frozen=True)
class Step:
    """A command, with what it reads and writes."""

    # Unique; the name of its log, with dots for blanks.
    name: str
    command: tuple[str, ...]
    # Files and folders, all that the outputs depend on.
    inputs: tuple[Path, ...]
    # Files and folders that are there when it is done.
    outputs: tuple[Path, ...]
    # More of the command when it goes on with a run that was killed.
    resume: tuple[str, ...] = ()
    # Files and folders that such a run leaves; removed where there is nothing to go on with.
    partial: tuple[Path, ...] = ()
    # Called before the command is run, to write what it reads and no user has made.
    prepare: Callable[[], None] = field(default=lambda: None, compare=False)

    def shown(self) -> str:
        """Return the command as a user could type it."""
        return shlex.join(self.command)


class Running(NamedTuple):
    """A step that is being run."""

    step: Step
    # Its fingerprint.
    key: str
    command: Command
    # Seconds that it took in runs that were stopped.
    before: float


class StepRunner:
    """Knows which steps are done in a folder, and runs the others.

    :param folder: where the state and the logs are; no one else works in it.
    :param say: gets the lines about what is run.
    :param lock: a descriptor that commands inherit: of a run that was killed, the command may
        still be at work.
    :param written: files that are not made by a step, see `write_files`.
    """

    def __init__(
        self,
        folder: Path,
        say: Callable[[str], None],
        *,
        launcher: Sequence[str] = LAUNCHER,
        lock: int | None = None,
        written: Mapping[Path, bytes] = MappingProxyType({}),
    ) -> None:
        self._folder = folder
        self._say = say
        self._launcher = tuple(launcher)
        self._kept_open = () if lock is None else (lock,)
        state = _read_state(folder / STATE)
        self._steps: dict[str, dict[str, Any]] = state["steps"]
        self._written = dict(written)
        self._files = FileDigests(state["files"], self._written)

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
        """Return the fingerprint of a step.

        :raises DataError: if one of its inputs is not there.
        """
        inputs = [[str(path), self._files.digest(path)] for path in step.inputs]
        return digest_text(json.dumps([step.command, inputs]))

    def is_done(self, step: Step) -> bool:
        """Return whether a step need not be run."""
        known = self._steps.get(step.name, {})
        if "done" not in known:
            return False
        try:
            if known["done"] != self.key(step):
                return False
            return all(
                known["outputs"][str(path)] == self._files.digest(path) for path in step.outputs
            )
        except (DataError, KeyError):
            return False

    def done(self, steps: Sequence[Step]) -> list[bool]:
        """Return for each step whether it is done, and will stay so when those before it have run.

        A step that reads what another one is going to write is not done.
        """
        found: list[bool] = []
        unknown: set[Path] = set()
        for step in steps:
            found.append(not reads(step, unknown) and self.is_done(step))
            if not found[-1]:
                unknown.update(step.outputs)
        return found

    def seconds(self, step: Step) -> float | None:
        """Return how long a step took, None where it was never run to its end."""
        found = self._steps.get(step.name, {}).get("seconds")
        return None if found is None else float(found)

    def warnings(self, step: Step) -> list[str]:
        """Return what the command of a step has warned of, when it was run to its end."""
        return list(self._steps.get(step.name, {}).get("warnings", ()))

    def begin(self, step: Step, position: str) -> "Running | None":
        """Start a step that is not done, or go on with it; None where nothing is left but to note.

        Who calls it ends the step, by `end` or by `stop`.

        :raises PhrasescoreError: if its command cannot be run.
        """
        key = self.key(step)
        known = self._steps.setdefault(step.name, {})
        goes_on = known.get("begun") == key and "done" not in known
        if goes_on and all(path.exists() for path in step.outputs):
            self._finish(step, key)
            return None
        older = known if "done" in known else known.get("older")
        if older is not None and not goes_on and self._is_restored(step, key, older):
            return None
        before = float(known.get("spent", 0.0)) if goes_on else 0.0
        command = step.command
        if goes_on:
            command += step.resume
        else:
            for path in step.partial:
                _remove(path)
            for path in step.outputs:
                if "done" in known and os.path.lexists(path):
                    _remove(_aside(path))
                    path.rename(_aside(path))
                else:
                    _remove(path)
        self._steps[step.name] = {"begun": key, "spent": before}
        if older is not None:
            self._steps[step.name]["older"] = older
        self._write()
        self._say(f"{position}: {step.name}{' goes on' if goes_on else ''}")
        self._say(f"$ {shlex.join(command)}")
        for path in (*step.outputs, *step.partial):
            path.parent.mkdir(parents=True, exist_ok=True)
        step.prepare()
        log = self._log(step)
        log.parent.mkdir(exist_ok=True)
        started = Command(
            step.name, command, log, launcher=self._launcher, kept_open=self._kept_open
        )
        return Running(step, key, started, before)

    def _is_restored(self, step: Step, key: str, older: dict[str, Any]) -> bool:
        """Return whether what the step needs was made before, and is at its place again."""
        places = {_aside(path): path for path in step.outputs}
        if older["done"] != key or not all(os.path.lexists(aside) for aside in places):
            return False
        for aside, path in places.items():
            _remove(path)
            aside.rename(path)
        self._steps[step.name] = older
        if not self.is_done(step):
            return False
        self._write()
        return True

    def report(self, running: "Running") -> None:
        """Say now and then how a step goes."""
        running.command.report(self._say)

    def end(self, running: "Running", code: int) -> None:
        """Note that the command of a step has ended.

        :param code: its exit code; below 0 that of a signal.
        :raises PhrasescoreError: if it has failed, with the end of its log.
        :raises KeyboardInterrupt: if it was interrupted.
        """
        step, log = running.step, running.command.log
        self._note_time(running)
        if code != 0:
            self._discard(step)
            if code == _INTERRUPTED:
                raise KeyboardInterrupt
            how = f"ended with exit code {code}" if code > 0 else f"was killed by signal {-code}"
            problem = f"{step.name} {how} (log: {log}): {log_tail(log)}"
            if running.before and step.partial and step.resume:
                # As where an older version began it, whose state this one does not take.
                there = " and ".join(str(path) for path in step.partial if path.exists())
                problem += f" | to begin this step anew, remove {there}" if there else ""
            raise PhrasescoreError(problem)
        missing = [str(path) for path in step.outputs if not path.exists()]
        if missing:
            problem = f"wrote no {missing[0]} (log: {log}): {log_tail(log)}"
            raise PhrasescoreError(f"{step.name} {problem}")
        self._finish(step, running.key)

    def stop(self, running: "Sequence[Running]") -> None:
        """Stop steps as Ctrl-C does; they go on the next time."""
        try:
            stop(each.command for each in running)
        finally:
            for each in running:
                self._discard(each.step)  # some commands write what they have at Ctrl-C
                self._note_time(each)

    def _note_time(self, running: "Running") -> None:
        self._steps[running.step.name]["spent"] = running.before + running.command.seconds
        self._write()

    def _log(self, step: Step) -> Path:
        return self._folder / LOGS / f"{re.sub('[ /]', '.', step.name)}.log"

    def _discard(self, step: Step) -> None:
        for path in step.outputs:
            _remove(path)

    def _finish(self, step: Step, key: str) -> None:
        known = self._steps[step.name]
        known["done"] = key
        known["seconds"] = round(known.pop("spent", 0.0), 1)
        known["warnings"] = log_warnings(self._log(step), step.command)
        known["outputs"] = {str(path): self._files.digest(path) for path in step.outputs}
        known.pop("older", None)
        self._write()
        for path in step.outputs:
            _remove(_aside(path))

    def _write(self) -> None:
        state = {"format": _FORMAT, "steps": self._steps, "files": self._files.known}
        with open_output(str(self._folder / STATE)) as stream:
            stream.write((json.dumps(state, indent=1) + "\n").encode())


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


def _aside(path: Path) -> Path:
    """Return where an older output is while its step runs again."""
    return path.with_name(f"{path.name}{OLD}")


def reads(step: Step, paths: Collection[Path]) -> bool:
    """Return whether a step reads one of some files and folders, or what lies in one."""
    return any(path == other or path in other.parents for path in paths for other in step.inputs)


def _read_state(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state["format"] != _FORMAT or not isinstance(state["steps"], dict):
            raise ValueError(f"format {state['format']}")
        return {"steps": state["steps"], "files": dict(state["files"])}
    except FileNotFoundError:
        return {"steps": {}, "files": {}}
    except (ValueError, TypeError, KeyError) as error:
        problem = f"expected the state of an experiment of this version, found {error!r}"
        raise DataError(str(path), None, f"{problem}; name another folder") from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_folder(path)
        return
    with suppress(FileNotFoundError):
        os.unlink(path)
