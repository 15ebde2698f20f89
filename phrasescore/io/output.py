"""Write bytes to plain or compressed files, or to stdout (``-``). Files appear whole or not at all.

`check_files` checks the names of all files before the first file is written.
"""

import contextlib
import fcntl
import io
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, TypeVar
from weakref import WeakSet

from xopen import xopen

from phrasescore.arguments import StrPath
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.io.compression import GZIP_LEVEL, is_gzip_name, other_format
from phrasescore.io.plain_file import open_at_end
from phrasescore.io.text import BLOCK_SIZE, same_file

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_Item = TypeVar("_Item")

_WEIGHTS = "model.safetensors"  # as in phrasescore.models.checkpoint, whose import takes seconds
_FILES_OF_A_MODEL = {_WEIGHTS, "config.toml", "source.vocab", "target.vocab", "training.json"}
PART = ".phrasescore-part"  # a part file's suffix, after the target's name

_locked: "WeakSet[io.FileIO]" = WeakSet()  # files that this process has locked


def _close_locked() -> None:
    for file in list(_locked):
        file.close()


# Otherwise forked workers would hold the locks for a moment after this process is killed.
os.register_at_fork(after_in_child=_close_locked)


class _CheckedWriter(io.RawIOBase):
    """A byte sink whose errors name the output file.

    Errors are converted at the lowest level, so that an error from reading another file meanwhile
    keeps its message. A closed pipe stays a BrokenPipeError.
    """

    def __init__(self, name: str, target: io.RawIOBase | BinaryIO) -> None:
        self._name = name
        self._target = target

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer") -> int | None:
        with writing(self._name):
            return self._target.write(data)


@contextlib.contextmanager
def writing(path: StrPath) -> Iterator[None]:
    """Turn an OSError into a PhrasescoreError that names the output file."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise PhrasescoreError(f"{path}: cannot write: {error.strerror or error}") from error


@contextlib.contextmanager
def open_output(path: str) -> Iterator[BinaryIO]:
    """Open a file for writing bytes; it appears whole at the end, or not at all.

    Data are written to a part file beside the target. When the block ends, the part file is synced
    to the disk and replaces the target. On an exception, the part file is removed, and an older
    target is left unchanged. The part file of a killed run is replaced by the next run. A new file
    gets the permissions that the umask allows; a replaced file keeps its permissions. If the target
    is a symbolic link, the file that it points to is replaced. A device or a named pipe is written
    directly.

    :param path: ``-`` is stdout, which is flushed and not closed. A file whose name ends in
        ``.gz`` is compressed; equal data give equal bytes.
    :raises PhrasescoreError: on entering, writing or leaving, if the folder does not exist or is
        not writable, or the disk is full.
    :raises BrokenPipeError: if the reader of stdout has gone; the command line handles this.
    """
    if path == "-":
        if sys.stdout is None:  # as after ">&-" in a shell
            problem = "<stdout>: cannot write: this process was started without a stdout"
            raise PhrasescoreError(problem)
        stdout = io.BufferedWriter(_CheckedWriter("<stdout>", sys.stdout.buffer), BLOCK_SIZE)
        with _closing_quietly_on_error(stdout):
            yield stdout
            stdout.flush()
        with writing("<stdout>"):
            sys.stdout.buffer.flush()
        return
    target, replaced = _check_target(path)
    is_packed = is_gzip_name(path)
    if replaced is not None and not stat.S_ISREG(replaced.st_mode):
        # Use the original path: /dev/stdout resolves to a pipe, which is in no folder.
        with _open_raw(path, path, os.O_WRONLY) as raw, _writer(path, raw, is_packed) as output:
            yield output
        return
    part, opened = _open_part(path, target)
    with opened as raw:
        try:
            if replaced is not None:
                os.fchmod(raw.fileno(), stat.S_IMODE(replaced.st_mode))
            with _writer(path, raw, is_packed) as output:
                yield output
            with writing(path):
                os.fsync(raw.fileno())
                os.replace(part, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise


def check_files(read: Sequence[str | None], written: Sequence[str | None]) -> None:
    """Check that output files have distinct names, in folders where they can be created."""
    if read.count("-") > 1 or written.count("-") > 1:
        raise ArgumentError("two files cannot share stdin or stdout")
    outputs = [name for name in written if name is not None]
    for index, name in enumerate(outputs):
        for other in (*read, *outputs[:index]):
            if other is not None and same_file(name, other):
                raise PhrasescoreError(f"{name}: would overwrite another file; name another one")
        folder, base = os.path.split(os.path.realpath(name))
        if base in _FILES_OF_A_MODEL and os.path.isfile(os.path.join(folder, _WEIGHTS)):
            raise PhrasescoreError(f"{name}: would overwrite a part of a model; name another file")
        check_output(name)


def optional_path(path: StrPath | None) -> str | None:
    """Return an optional path as a string."""
    return None if path is None else os.fspath(path)


def check_output(path: str) -> None:
    """Check that a file can be written, before starting the work whose result it will contain."""
    if path == "-":
        return
    target, replaced = _check_target(path)
    is_stream = replaced is not None and not stat.S_ISREG(replaced.st_mode)
    # A regular file is written beside its target, so its folder must be writable.
    if not is_stream and not os.access(os.path.dirname(target), os.W_OK):
        raise PhrasescoreError(f"{path}: cannot write: the folder is not writable")


def _check_target(path: str) -> tuple[str, os.stat_result | None]:
    """Return the resolved path, and the status of an existing file or None."""
    if not path or path.endswith(os.sep):
        raise PhrasescoreError(f"expected the name of a file to write, found {path!r}")
    if (other := other_format(path)) is not None:
        problem = f"cannot write {other}; name a file that ends in .gz, or give - for stdout"
        raise PhrasescoreError(f"{path}: {problem}, as in: phrasescore ... - | {other} > FILE")
    target = os.path.realpath(path)
    replaced = None
    with writing(path), contextlib.suppress(FileNotFoundError):
        replaced = os.stat(path)
    if replaced is not None and stat.S_ISDIR(replaced.st_mode):
        raise PhrasescoreError(f"{path}: cannot write: expected a file, found a folder")
    folder = os.path.dirname(target)
    if not os.path.isdir(folder) and (replaced is None or stat.S_ISREG(replaced.st_mode)):
        raise PhrasescoreError(f"{path}: cannot write: there is no folder {folder}")
    return target, replaced


def _open_raw(path: str, opened: str, flags: int) -> io.FileIO:
    with writing(path):
        return io.FileIO(os.open(opened, flags | os.O_CLOEXEC, 0o666), "wb")


def _open_part(path: str, target: str) -> tuple[str, io.FileIO]:
    """Create or replace the part file, and lock it."""
    part = f"{target}{PART}"
    with writing(path):
        raw = open_at_end(part)
    try:
        lock_part(part, raw)
        raw.truncate(0)
    except BaseException:
        raw.close()
        raise
    return part, raw


def lock_part(part: str, file: io.FileIO) -> None:
    """Lock a part file against other runs, until it is closed in this process."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The run that had the lock may have renamed the file since we opened it.
        is_ours = os.fstat(file.fileno()).st_ino == os.stat(part).st_ino
    except (BlockingIOError, FileNotFoundError):
        is_ours = False
    except OSError:
        is_ours = True  # this file system has no locks
    if not is_ours:
        raise PhrasescoreError(f"{part}: another run is writing this file")
    _locked.add(file)


@contextlib.contextmanager
def _writer(path: str, raw: io.FileIO, is_packed: bool) -> Iterator[BinaryIO]:
    plain = io.BufferedWriter(_CheckedWriter(path, raw), BLOCK_SIZE)
    with _closing_quietly_on_error(plain):
        if is_packed:
            packed = xopen(plain, "wb", format="gz", threads=1, compresslevel=GZIP_LEVEL)
            with _closing_quietly_on_error(packed):
                yield packed
        else:
            yield plain


@contextlib.contextmanager
def _closing_quietly_on_error(stream: BinaryIO) -> Iterator[None]:
    try:
        yield
        stream.flush()  # close() would make an error of flushing its own context
        stream.close()
    except BaseException as error:
        context = error.__context__
        with contextlib.suppress(Exception):
            stream.close()
        # xopen's thread has one error, which close() raises twice: it becomes its own context, and
        # an ExitStack would follow the contexts forever.
        error.__context__ = context
        raise
