"""Steps that run once: a finished step is not repeated, and a killed step is resumed.

A step has a key: a digest of its function, its settings and its inputs' content, without the
folders in which they are. It is done when it ran with this key and its outputs have not changed
since. A changed input or setting therefore repeats only the step and the steps that read its
outputs. The journal ``steps.json`` is replaced before and after each step.

Every step writes its outputs atomically, and the outputs of an older run are removed before it
starts. Outputs that exist after a run was killed are therefore complete.
"""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from moses_integration.ini_text import IniText
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io import journal
from phrasescore.io.folders import LOCK, remove_folder
from phrasescore.io.output import open_output
from phrasescore.workflows.experiment.functions import written

STATE = "steps.json"
TABLE_FILES = ("table.txt", "table.toml")


@dataclass(frozen=True)
class FileNames:
    """Names of files in the files of an experiment.

    Its own files, and those that the user named by relative paths, have relative names, so that
    they can be moved together.
    """

    folder: Path  # the experiment's folder, an absolute path without links
    absolute: frozenset[str] = frozenset()  # the files and folders that keep their absolute paths

    def is_own(self, path: Path) -> bool:
        """Return whether a file is in the experiment's folder."""
        return self.folder in path.parents

    def of(self, path: Path) -> str:
        """Return the name of a file in the experiment's files."""
        named = (str(each) for each in (path, *path.parents))
        if not self.is_own(path) and not self.absolute.isdisjoint(named):
            return str(path)
        return os.path.relpath(path, self.folder)


@dataclass(frozen=True, eq=False)
class Step:
    """A function with its settings, and the files and folders that it reads and writes."""

    name: str  # a unique name, which begins with a verb and also names the log
    function: str  # a key of `FUNCTIONS`
    settings: Mapping[str, Any]  # its keyword arguments
    inputs: tuple[Path, ...]  # everything that the outputs depend on
    outputs: tuple[Path, ...]  # the files and folders that exist when the step is done
    # Files of a killed run, which the function can continue; removed before a fresh start.
    partial: tuple[Path, ...] = ()

    def __str__(self) -> str:
        """Return the function and its settings in one line."""
        return f"{self.function} {json.dumps(written(self.settings), ensure_ascii=False)}"

    def reads(self, paths: Collection[Path]) -> bool:
        """Return whether the step reads any of the paths, or a file inside one of them."""
        return any(
            path == other or path in other.parents for path in paths for other in self.inputs
        )


class StepState(msgspec.Struct, omit_defaults=True):
    """The recorded state of a step."""

    # The step's key when it was started, and when it was completed.
    begun: str | None = None
    done: str | None = None
    # Seconds taken by all runs so far, and by the completed step.
    spent: float = 0.0
    seconds: float | None = None
    warnings: list[str] = []
    outputs: dict[str, str] = {}  # digests of the outputs by name


class StepRecords(msgspec.Struct):
    """The states of steps by name, in ``steps.json`` of this version and of 0.3."""

    steps: dict[str, StepState]


class StepJournal(StepRecords):
    """The content of ``steps.json``: step states, and known digests by the names of files."""

    digests: dict[str, list[int | str]]


class StepStates:
    """Keeps the states of a folder's steps.

    :param written: the files that no step writes, each a moses.ini.
    """

    def __init__(
        self, names: FileNames, written: Mapping[Path, bytes] = MappingProxyType({})
    ) -> None:
        self._path, self._names = names.folder / STATE, names
        start_over = "a run of 0.3 cannot go on: name another folder"
        kept = journal.read_journal(self._path, StepJournal, start_over)
        self._journal = kept or StepJournal({}, {})
        self._written = written
        # The files that a moses.ini names are inputs themselves, wherever they are.
        nameless = {path: _without_folders(path, content) for path, content in written.items()}
        known = {
            os.path.normpath(names.folder / name): digest
            for name, digest in self._journal.digests.items()
        }
        self._files = journal.FileDigests(known, nameless)

    def write_files(self) -> None:
        """Write the files that no step writes, unless they exist."""
        self.write()  # the journal marks the folder as an experiment's
        for path, content in self._written.items():
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                with open_output(str(path)) as stream:
                    stream.write(content)

    def write(self) -> None:
        """Write the journal, ``steps.json``."""
        digests = {self._names.of(Path(path)): known for path, known in self._files.known.items()}
        journal.write_journal(self._path, StepJournal(self._journal.steps, digests))

    def state(self, step: Step) -> StepState:
        """Return the recorded state of a step."""
        return self._journal.steps.get(step.name) or StepState()

    def _set(self, step: Step, state: StepState) -> None:
        self._journal.steps[step.name] = state
        self.write()

    def _key(self, step: Step) -> str:
        """Return the digest of a step; an input is in it with its content and without its name."""
        inputs = {path: self._files.digest(path) for path in step.inputs}

        def name(path: Path) -> str:
            if self._names.is_own(path) and path not in inputs:
                return self._names.of(path)
            if path in inputs or path.is_file():
                return self._files.digest(path)
            has_input = any(path in each.parents for each in inputs)
            return path.name if has_input else self._names.of(path)

        settings = written(step.settings, lambda path: name(Path(path)))
        parts = [step.function, settings, *map(inputs.get, step.inputs)]
        return journal.digest_text(json.dumps(parts))

    def _digests(self, step: Step) -> dict[str, str]:
        return {self._names.of(path): self._files.digest(path) for path in step.outputs}

    def is_done(self, step: Step) -> bool:
        """Return whether a step is done and need not run."""
        known = self.state(step)
        try:
            if known.done is None or known.done != self._key(step):
                return False
            return self._digests(step).items() <= known.outputs.items()
        except DataError:
            return False

    def done(self, steps: Sequence[Step]) -> list[bool]:
        """Return whether each step is done; a step with unfinished inputs is not."""
        are_done: list[bool] = []
        unfinished: set[Path] = set()
        for step in steps:
            are_done.append(not step.reads(unfinished) and self.is_done(step))
            if not are_done[-1]:
                unfinished.update(step.outputs)
        return are_done

    def recover(self, step: Step) -> bool:
        """Return whether a killed run left complete outputs."""
        if not self._is_begun(step) or not all(path.exists() for path in step.outputs):
            return False
        self.finish(step)
        return True

    def _is_begun(self, step: Step) -> bool:
        known = self.state(step)
        return known.done is None and known.begun == self._key(step)

    def begin(self, step: Step) -> bool:
        """Record that a step starts; return whether it resumes a run that was stopped.

        Otherwise outputs and other files that remain are removed.
        """
        if self._is_begun(step):
            self.write()
            return True
        for path in (*step.partial, *step.outputs):
            _remove(path)
        self._set(step, StepState(begun=self._key(step)))
        return False

    def finish(self, step: Step) -> None:
        """Record that a step is done."""
        known = self.state(step)
        done = StepState(
            done=known.begun,
            seconds=known.spent,
            warnings=known.warnings,
            outputs=self._digests(step),
        )
        self._set(step, done)

    def discard(self, step: Step) -> None:
        """Remove the outputs of a step that failed, and write the journal."""
        self.write()
        for path in step.outputs:
            _remove(path)


def check_experiment_folder(folder: Path) -> None:
    """Reject a folder that has other files and is not an experiment's."""
    if not folder.is_dir() or (folder / STATE).exists():
        return
    others = sorted({path.name for path in folder.iterdir()} - {LOCK})
    if others:
        problem = f"{folder}: expected a new folder, or the folder of an experiment,"
        raise PhrasescoreError(f"{problem} found other files in it, such as {others[0]}")


def _without_folders(path: Path, content: bytes) -> bytes:
    ini = IniText(str(path), content, path.parent)
    ini.rename_files(lambda name: os.path.basename(name) or name)
    return ini.to_bytes()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_folder(path)
    else:
        path.unlink(missing_ok=True)
