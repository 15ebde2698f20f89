"""Steps that run once: a finished one is not repeated, a killed one goes on.

A step has a key: a digest of its command and of the content of its inputs. It is done when it ran
with this key and its outputs are as it left them; so a changed input or setting repeats the step
and those that read its outputs, and no other one. The state is in ``steps.json``, replaced as a
whole before and after each step.

Every step writes its outputs whole or not at all, and begins by moving those that an older run left
aside. Outputs that are there when a run was killed are therefore complete. The older ones are
removed when the step is done; until then, they come back with the settings that made them.
"""

import json
import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import msgspec

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.digests import FileDigests, digest_file, digest_text, new_digest
from phrasescore.io.folders import LOCK, OLD, remove_folder
from phrasescore.io.journal import read_journal, write_journal
from phrasescore.io.output import open_output

STATE = "steps.json"


@dataclass(frozen=True)
class Step:
    """A command, with the files that it reads and writes."""

    # Unique; the name of its log, with dots for blanks.
    name: str
    # As a user could type it.
    command: tuple[str, ...]
    # Files and folders, all that the outputs depend on.
    inputs: tuple[Path, ...]
    # Files and folders that are there when it is done.
    outputs: tuple[Path, ...]
    # Files and folders that a killed run leaves, with which the command goes on by ``--resume``;
    # removed where the step begins anew.
    partial: tuple[Path, ...] = ()
    # Called before the process starts, to write an input that no user has made.
    prepare: Callable[[], None] = field(default=lambda: None, compare=False)

    def shown(self) -> str:
        """Return the command as one line."""
        return shlex.join(self.command)

    def reads(self, paths: Collection[Path]) -> bool:
        """Return whether it reads one of some files and folders, or a file inside of one."""
        return any(
            path == other or path in other.parents for path in paths for other in self.inputs
        )


class StepState(msgspec.Struct, omit_defaults=True):
    """A step as far as it is known."""

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


class StepStates:
    """Knows which steps of a folder are done, and keeps or removes their outputs.

    :param folder: where the state is; nobody else works in it.
    :param written: files that no step makes, see `write_files`.
    """

    def __init__(self, folder: Path, written: Mapping[Path, bytes] = MappingProxyType({})) -> None:
        self._path = folder / STATE
        state = read_journal(self._path, ExperimentState) or ExperimentState({}, {})
        self._steps = state.steps
        self._written = written
        self._files = FileDigests(state.files, written)

    def write_files(self) -> None:
        """Write the files that no step makes, where they are not there already."""
        self.write()  # it says whose folder it is
        for path, content in self._written.items():
            if not path.exists() or digest_file(path) != new_digest(content).hexdigest():
                path.parent.mkdir(parents=True, exist_ok=True)
                with open_output(str(path)) as stream:
                    stream.write(content)

    def is_done(self, step: Step) -> bool:
        """Return whether a step need not run."""
        known = self.state(step)
        try:
            return (
                known.done is not None
                and known.done == self._key(step)
                and all(
                    known.outputs.get(str(path)) == self._files.digest(path)
                    for path in step.outputs
                )
            )
        except DataError:
            return False

    def done(self, steps: Sequence[Step]) -> list[bool]:
        """Return for each step whether it is done, and will stay so when those before it have run.

        A step that reads the output of one that is to run is not done.
        """
        found: list[bool] = []
        unknown: set[Path] = set()
        for step in steps:
            found.append(not step.reads(unknown) and self.is_done(step))
            if not found[-1]:
                unknown.update(step.outputs)
        return found

    def state(self, step: Step) -> StepState:
        """Return how far a step is, its seconds and its warnings."""
        return self._steps.get(step.name) or StepState()

    def recover(self, step: Step) -> bool:
        """Return whether outputs are whole, of a run that was killed, or older ones come back.

        :raises DataError: if one of its inputs is not there.
        """
        known, key = self.state(step), self._key(step)
        if known.done is None and known.begun == key:
            if not all(path.exists() for path in step.outputs):
                return False
            self.finish(step)
            return True
        older = known if known.done is not None else known.older
        places = {_aside(path): path for path in step.outputs}
        if older is None or older.done != key or not all(map(os.path.lexists, places)):
            return False
        for aside, path in places.items():
            _remove(path)
            aside.rename(path)
        self._steps[step.name] = older
        self.write()
        return self.is_done(step)

    def begin(self, step: Step) -> bool:
        """Note that a step begins; return whether it goes on with a run that was stopped.

        Older outputs are moved aside, and others removed, unless it goes on.
        """
        key, known = self._key(step), self.state(step)
        goes_on = known.done is None and known.begun == key
        if not goes_on:
            older = known if known.done is not None else known.older
            for path in step.partial:
                _remove(path)
            for path in step.outputs:
                if known.done is not None and os.path.lexists(path):
                    _remove(_aside(path))
                    path.rename(_aside(path))
                else:
                    _remove(path)
            self._steps[step.name] = StepState(begun=key, older=older)
        self.write()
        return goes_on

    def finish(self, step: Step) -> None:
        """Note that a step is done, and remove its older outputs."""
        known = self.state(step)
        self._steps[step.name] = StepState(
            done=known.begun,
            seconds=round(known.spent, 1),
            warnings=known.warnings,
            outputs={str(path): self._files.digest(path) for path in step.outputs},
        )
        self.write()
        for path in step.outputs:
            _remove(_aside(path))

    def discard(self, step: Step) -> None:
        """Remove the outputs of a step that did not end well, and write its state."""
        self.write()
        for path in step.outputs:
            _remove(path)

    def write(self) -> None:
        """Write all states."""
        write_journal(self._path, ExperimentState(self._steps, self._files.known))

    def _key(self, step: Step) -> str:
        inputs = [[str(path), self._files.digest(path)] for path in step.inputs]
        return digest_text(json.dumps([step.command, inputs]))


def check_experiment_folder(folder: Path, state: str = STATE) -> None:
    """Refuse a folder of something else, in which an experiment would write and remove files.

    :param state: the name of the file or folder that tells an experiment's folder.
    :raises PhrasescoreError: if it is there, not empty, and has no state of an experiment.
    """
    if not folder.is_dir() or (folder / state).exists():
        return
    others = sorted({path.name for path in folder.iterdir()} - {LOCK})
    kind = "experiment" if state == STATE else "exported experiment"
    if others:
        raise PhrasescoreError(
            f"{folder}: expected a new folder, or that of an {kind}, found other things in it, "
            f"such as {others[0]}"
        )


def _aside(path: Path) -> Path:
    """Return where an older output is while its step runs again."""
    return path.with_name(f"{path.name}{OLD}")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_folder(path)
    else:
        path.unlink(missing_ok=True)
