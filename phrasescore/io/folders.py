"""Folders that appear whole or not at all, that one process locks, or that others may have filled.

Only regular files of a limited size are read from a folder that others may have filled: reading a
pipe may wait forever, and a device may have no end. A link counts as its target.
"""

import contextlib
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from io import BufferedReader, FileIO
from pathlib import Path

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.output import writing

# Name of the lock file in a work folder.
LOCK = "lock"
# Suffixes of a folder that is not complete yet, and of the older folder until it is removed.
# Folders with such names are remains of a killed run, and are removed silently.
NEW, OLD = ".phrasescore-new", ".phrasescore-old"
# Maximum sizes in bytes of settings, of results and states, of vocabularies, and of arrays.
MAX_TOML, MAX_JSON, MAX_WORDS, MAX_ARRAYS = 1 << 20, 1 << 28, 1 << 30, 1 << 36
# Maximum size of a sentencepiece model, which takes some twenty bytes per subword.
MAX_SUBWORDS = 1 << 28


@contextlib.contextmanager
def writing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new empty folder to fill, which replaces ``path`` when the block ends.

    The folder is filled beside ``path``, under its name plus `NEW`, synced to the disk and renamed.
    An older folder at ``path`` is first renamed and removed last, so that one of the two is always
    complete. On an exception the new folder is removed and the older folder stays. If ``path`` is a
    symbolic link, the folder it points to is replaced.
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
    """Return the temporary names of a new folder and of an older folder in `writing_folder`."""
    return path.with_name(f"{path.name}{NEW}"), path.with_name(f"{path.name}{OLD}")


def check_folder_above(path: Path) -> None:
    """Check that a folder can be created, before the work starts whose result it will hold."""
    above = next(
        parent for parent in Path(os.path.realpath(path)).parents if os.path.lexists(parent)
    )
    if not above.is_dir():
        raise PhrasescoreError(f"{path}: cannot write: {above} is not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise PhrasescoreError(f"{path}: cannot write: the folder {above} may not be written to")


def remove_folder(path: Path) -> None:
    """Remove a folder with its content, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(work: Path) -> Iterator[int]:
    """Create a folder if necessary, and lock it against other processes.

    Yield the descriptor of the lock: a process that inherits it keeps the folder locked, too.
    Parent folders that were created here are removed when the block ends, if they are empty.
    """
    created = [folder for folder in work.parents if not folder.exists()]
    with writing(work):
        work.mkdir(parents=True, exist_ok=True)
        # The lock is a file because the folder is removed at the end. Nothing is written to it, so
        # a file that a link of this name leads to does not change.
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
                for folder in created:
                    folder.rmdir()


def open_plain(path: str | os.PathLike[str], max_size: int | None = None) -> BufferedReader:
    """Open a regular file for reading bytes.

    :raises DataError: if it is a pipe or a device, or larger than ``max_size``.
    :raises OSError: if it cannot be opened.
    """
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        problem = "expected a plain file, found a pipe or a device"
    elif max_size is not None and status.st_size > max_size:
        problem = f"expected {max_size:,} bytes at most, found {status.st_size:,}"
    else:
        return file
    file.close()
    raise DataError(os.fspath(path), None, problem)


def read_plain(path: str | os.PathLike[str], max_size: int) -> bytes:
    """Return the content of a regular file; see `open_plain`."""
    with open_plain(path, max_size) as file:
        content = file.read(max_size + 1)
    if len(content) > max_size:  # files in /proc have size 0
        raise DataError(os.fspath(path), None, f"expected {max_size:,} bytes at most, found more")
    return content


def check_plain(path: str | os.PathLike[str], max_size: int | None = None) -> None:
    """Check a file that other code will read; see `open_plain`."""
    open_plain(path, max_size).close()


def open_at_end(path: str) -> FileIO:
    """Open a regular file, or create one, to append bytes.

    The file has no buffer: closing it does not retry a write that a full disk refused.

    :raises DataError: if the name is a link, a pipe or a device.
    :raises OSError: if it cannot be opened.
    """
    with contextlib.suppress(OSError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise DataError(path, None, "expected a plain file, found a link, a pipe or a device")
    return FileIO(path, "ab", opener=_open_no_link)


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)


def _open_at_once(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    return os.open(path, flags | os.O_NONBLOCK)
