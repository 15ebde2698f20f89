"""Folders that appear whole or not at all, and folders that a process locks."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from phrasescore.arguments import StrPath
from phrasescore.errors import PhrasescoreError
from phrasescore.io.output import writing

LOCK = "lock"  # name of the lock file in a work folder
# Suffixes for a folder that is not complete yet, and for the older folder until it is removed.
# Folders with such names remain after a killed run, and are removed silently.
NEW, OLD = ".phrasescore-new", ".phrasescore-old"


@contextlib.contextmanager
def writing_folder(path: StrPath) -> Iterator[Path]:
    """Yield a new empty folder to fill, which replaces ``path`` when the block ends.

    The folder is filled beside ``path``, under its name plus `NEW`, synced to the disk and renamed.
    An older folder at ``path`` is renamed first and removed last, so that one of the two folders is
    always complete. On an exception, the new folder is removed and the older one is kept. If
    ``path`` is a symbolic link, its target is replaced.
    """
    shown, path = path, Path(os.path.realpath(path))
    new, old = (path.with_name(f"{path.name}{end}") for end in (NEW, OLD))
    with writing(shown):
        try:
            remove_folder(new)
            new.mkdir(parents=True)
            yield new
            sync_folder(new)
            if path.exists():
                remove_folder(old)
                path.rename(old)
            new.rename(path)
            _sync(path.parent)
            remove_folder(old)
        except BaseException:
            remove_folder(new)
            raise


def model_folders(output: StrPath) -> tuple[Path, Path]:
    """Return the model folder to write, and the folder for its unfinished run."""
    model = Path(os.path.normpath(output))
    if not model.name or os.fspath(output) == "-":
        problem = f"{os.fspath(output) or repr('')}: expected the name of a folder for the model"
        raise PhrasescoreError(problem)
    return model, model.with_name(f"{model.name}.work")


def check_folder_above(path: Path) -> None:
    """Check that a folder can be created, before starting the work that fills it."""
    above = next(
        parent for parent in Path(os.path.realpath(path)).parents if os.path.lexists(parent)
    )
    if not above.is_dir():
        raise PhrasescoreError(f"{path}: cannot write: {above} is not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise PhrasescoreError(f"{path}: cannot write: the folder {above} is not writable")


def remove_folder(path: Path) -> None:
    """Remove a folder with its content, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def sync_folder(folder: Path) -> None:
    """Wait until the files in a folder are on the disk."""
    for path in (*folder.iterdir(), folder):
        _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(work: Path) -> Iterator[int]:
    """Create a folder if it does not exist, and lock it against other processes.

    Yield the descriptor of the lock file: a process that inherits it keeps the folder locked, too.
    Parent folders that were created here are removed when the block ends, if they are empty.
    """
    created = [folder for folder in work.parents if not folder.exists()]
    with writing(work):
        work.mkdir(parents=True, exist_ok=True)
        # The lock is a file because the folder is removed at the end. Nothing is written to it, so
        # that it does not change another file through a hard link.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock = os.fdopen(os.open(work / LOCK, flags, 0o666), "rb")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise PhrasescoreError(f"{work}: another run is using this folder") from error
        try:
            yield lock.fileno()
        finally:
            with contextlib.suppress(OSError):
                for folder in created:
                    folder.rmdir()
