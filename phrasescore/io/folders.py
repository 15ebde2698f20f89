"""Folders that appear whole or not at all, and folders that one process works in."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from phrasescore.errors import PhrasescoreError
from phrasescore.io.output import writing

# A file in a folder that is worked in.
LOCK = "lock"

# Added to the name of a folder until it is whole, and of the older one until it is removed. Nobody
# else may give such names: leavings of a killed run are removed without a word.
NEW, OLD = ".phrasescore-new", ".phrasescore-old"


@contextlib.contextmanager
def writing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new empty folder to fill, which takes the place of ``path`` when the block ends.

    It is filled beside ``path``, under its name with `NEW` at the end (leavings of a killed run are
    removed), synced to the disk and renamed. An older folder at ``path`` is moved out of the way
    first and removed last, so that at any moment one of them is there whole, though in the instant
    between two renames under the name with `OLD`. On any exception the new folder is removed and
    the older one stays. A symbolic link stays, and the folder it points to is replaced.

    :raises PhrasescoreError: if the folder cannot be written, as on a full disk.
    """
    shown, path = path, Path(os.path.realpath(path))
    new, old = names_beside(path)
    with writing(shown):
        try:
            remove_folder(new)
            new.mkdir(parents=True)
            yield new
            for entry in new.iterdir():
                _sync(entry)
            _sync(new)
            if path.exists():
                remove_folder(old)
                path.rename(old)
            new.rename(path)
            _sync(path.parent)
            remove_folder(old)
        except BaseException:
            remove_folder(new)
            raise


def names_beside(path: Path) -> tuple[Path, Path]:
    """Return where `writing_folder` fills a folder, and where it moves an older one meanwhile."""
    return path.with_name(f"{path.name}{NEW}"), path.with_name(f"{path.name}{OLD}")


def check_folder_above(path: Path) -> None:
    """Check that a folder may be made, before the work whose result it gets.

    :raises PhrasescoreError: if no folder takes it.
    """
    above = next(each for each in Path(os.path.realpath(path)).parents if os.path.lexists(each))
    if not above.is_dir():
        raise PhrasescoreError(f"{path}: cannot write: {above} is no folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise PhrasescoreError(f"{path}: cannot write: the folder {above} may not be written to")


def remove_folder(path: Path) -> None:
    """Remove a folder with its content, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def _sync(path: Path) -> None:
    """Bring a file, or the list of names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(work: Path) -> Iterator[int]:
    """Make a folder if need be, and keep other processes out of it.

    Yields the descriptor of the lock: a process that inherits it keeps the folder locked, too. The
    folders above that are made for it go when the block ends, if nothing is in them then.

    :raises PhrasescoreError: if another process is at work there.
    """
    made = [folder for folder in work.parents if not folder.exists()]
    with writing(work):
        work.mkdir(parents=True, exist_ok=True)
        # A file in the folder: the folder itself is removed at the end. Nothing is written to it,
        # and what another file or a pipe of this name is linked to stays as it is.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock = os.fdopen(os.open(work / LOCK, flags, 0o666), "rb")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise PhrasescoreError(f"{work}: another run is at work here") from error
        try:
            yield lock.fileno()
        finally:
            with contextlib.suppress(OSError):
                for folder in made:
                    folder.rmdir()
