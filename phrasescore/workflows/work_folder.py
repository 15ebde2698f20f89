"""The work folder of a run that makes a folder in steps, and can be continued.

============= ==================================================================================
build.json    the journal: settings, inputs and finished steps
model/        the files of the new folder
lock          held as long as a process is at work
other names   files of a step
============= ==================================================================================
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from phrasescore.arguments import StrPath
from phrasescore.errors import PhrasescoreError
from phrasescore.io.folders import (
    LOCK,
    check_folder_above,
    locked,
    model_folders,
    remove_folder,
    sync_folder,
)
from phrasescore.io.journal import Number, check_settings, read_journal, write_journal
from phrasescore.io.output import PART, writing

_JOURNAL = "build.json"
_PUBLISH = "publish"  # the last step, which ends when the files are renamed
_START_OVER = "remove the folder to start over"


class WorkJournal(msgspec.Struct):
    """The content of ``build.json``."""

    inputs: dict[str, str]  # settings, and digests of files
    counts: dict[str, Number]  # what the steps have counted
    done: list[str] = []  # names of finished steps


class WorkFolder:
    """The work folder of one run, locked and with a journal; see the module's docstring."""

    def __init__(self, path: Path, output: Path, journal: WorkJournal) -> None:
        self.path, self.output, self.journal = path, output, journal
        self.files = path / "model"

    def finish_step(self, name: str, **counts: int) -> None:
        """Record that a step is finished, and its counts."""
        done = list(dict.fromkeys([*self.journal.done, name]))
        counts = self.journal.counts | counts
        self.journal = msgspec.structs.replace(self.journal, done=done, counts=counts)
        write_journal(self.path / _JOURNAL, self.journal)

    def count(self, name: str) -> int:
        """Return a count of the finished steps; 0 if they have not counted it."""
        return self.journal.counts.get(name, 0)

    @property
    def is_published(self) -> bool:
        """Whether the new folder was written; its files have left this folder then."""
        return _PUBLISH in self.journal.done and not self.files.exists()

    def publish(self, *, keep: bool = False) -> None:
        """Rename the new files to the new folder, and remove this one unless ``keep`` is true."""
        if not self.is_published:
            self.finish_step(_PUBLISH)
            with writing(self.output):
                sync_folder(self.files)
                self.files.rename(self.output)
        if not keep:
            self.remove()

    def clear(self) -> None:
        """Remove everything but the lock; the journal is last: it marks the folder as a run's."""
        for path in self.path.iterdir():
            if path.is_dir():
                remove_folder(path)
            elif path.name not in (LOCK, _JOURNAL):
                path.unlink()
        (self.path / _JOURNAL).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder."""
        self.clear()
        remove_folder(self.path)

    def check_output(self) -> None:
        """Reject an existing folder that the run has not written, and one that is gone."""
        if self.is_published and not self.output.is_dir():
            problem = f"the run has written {self.output}, which is gone; {_START_OVER}"
            raise PhrasescoreError(f"{self.path}: {problem}")
        if os.path.lexists(self.output) and not self.is_published:
            raise PhrasescoreError(
                f"{self.output}: already exists; remove it or choose another --output"
            )


@contextlib.contextmanager
def open_work_folder(
    output: StrPath, inputs: Mapping[str, str], *, resume: bool
) -> Iterator[WorkFolder]:
    """Create and lock the work folder of ``output``; if no step is finished at the end, remove it.

    :param resume: whether to continue the unfinished run in the folder, if there is one.
    :raises PhrasescoreError: if another run uses the folder, it belongs to a different run, or the
        folder ``output`` exists.
    """
    folder, work = model_folders(output)
    check_folder_above(folder)
    with locked(work):
        journal = read_journal(work / _JOURNAL, WorkJournal, _START_OVER)
        others = sorted({path.name for path in work.iterdir()} - {LOCK, f"{_JOURNAL}{PART}"})
        if journal is None and others:
            problem = "expected a folder for this run only, found other files in it, such as"
            raise PhrasescoreError(f"{work}: {problem} {others[0]}")
        is_begun = journal is not None and bool(journal.done)
        if is_begun and not resume:
            problem = "holds an unfinished run; continue it with --resume, or remove the folder"
            raise PhrasescoreError(f"{work}: {problem}")
        if journal is None or not is_begun:
            journal = WorkJournal(dict(inputs), {})
        run = WorkFolder(work, folder, journal)
        check_settings(journal.inputs, inputs, f"{work}: the run", _START_OVER)
        try:
            if not is_begun:
                run.clear()
            write_journal(work / _JOURNAL, journal)
            run.check_output()
            yield run
        except BaseException:
            if not run.journal.done:
                run.remove()
            raise
