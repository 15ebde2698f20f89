"""Write files as bytes: plain, compressed, or stdout, whose path is ``-``; whole or not at all.

Names of files are checked before any of them is written: `check_files`.
"""

import contextlib
import fcntl
import io
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeVar

from xopen import xopen

from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.io.compression import Compression, compression_by_name
from phrasescore.io.text import BLOCK_SIZE, same_file

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_Item = TypeVar("_Item")

# At the end of a part file's name, after the target's and a random number. Nobody else may give
# such names.
_PART = ".phrasescore-part"

# As phrasescore.models.checkpoint has them, whose import takes seconds.
_WEIGHTS = "model.safetensors"
_FILES_OF_A_MODEL = {_WEIGHTS, "config.toml", "source.vocab", "target.vocab", "training.json"}


class _CheckedWriter(io.RawIOBase):
    """A byte sink whose failures name the output file.

    They are told apart from other OSErrors at the lowest level, so that code that writes may fail
    to read something else and keep its own message. A closed pipe stays a BrokenPipeError.
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
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an OSError into a PhrasescoreError that says which file could not be written."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise PhrasescoreError(f"{path}: cannot write: {error.strerror or error}") from error


@contextlib.contextmanager
def open_output(path: str) -> Iterator[BinaryIO]:
    """Open a file for writing bytes, which appears whole at the end or not at all.

    The data go to a part file beside the target, are synced to the disk, and replace the target
    when the block ends. On any exception the part file is removed, and an older target stays as
    it was. The part file of a run that was killed is removed when its target is written again. A
    new file gets the permissions that the umask gives, a replaced one keeps its own; a symbolic
    link stays, and the file it points to is replaced. A device or a named pipe is written directly.

    :param path: ``-`` is stdout, which is flushed and not closed. A file whose name ends in
        ``.gz``, ``.bz2`` or ``.xz`` is compressed; the same data make the same bytes.
    :raises PhrasescoreError: when the folder does not exist or cannot be written, or the disk is
        full: on entering, writing or leaving.
    :raises BrokenPipeError: when the reader of stdout has gone; the command line knows what to do.
    """
    if path == "-":
        if sys.stdout is None:  # as after ">&-" in a shell
            raise PhrasescoreError(
                "<stdout>: cannot write: this process was started without a stdout"
            )
        stdout = io.BufferedWriter(_CheckedWriter("<stdout>", sys.stdout.buffer), BLOCK_SIZE)
        with _closing_quietly_on_error(stdout):
            yield stdout
            stdout.flush()
        with writing("<stdout>"):
            sys.stdout.buffer.flush()
        return
    target, replaced = _check_target(path)
    form = compression_by_name(path)
    if replaced is not None and not stat.S_ISREG(replaced.st_mode):
        # By its own name: /dev/stdout leads to a pipe, and a pipe is in no folder.
        with _open_raw(path, path, os.O_WRONLY) as raw, _writer(path, raw, form) as output:
            yield output
        return
    part, opened = _open_part(path, target)
    with opened as raw:
        try:
            if replaced is not None:
                os.fchmod(raw.fileno(), stat.S_IMODE(replaced.st_mode))
            with _writer(path, raw, form) as output:
                yield output
            with writing(path):
                os.fsync(raw.fileno())
                os.replace(part, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise


class StreamOutput:
    """Stdout, a device or a pipe, with the methods of an output that can be resumed.

    A context manager; see :class:`phrasescore.io.resumable.ResumableOutput`.
    """

    finished = False
    last_skipped = None

    def __init__(self, path: str) -> None:
        self._opened = open_output(path)

    def __enter__(self) -> Self:
        """Open the stream."""
        self._stream: BinaryIO = self._opened.__enter__()
        return self

    def remaining(self, blocks: Iterable[_Item], path: str) -> Iterator[_Item]:  # noqa: ARG002
        """Return all lines."""
        return iter(blocks)

    def write(
        self,
        data: bytes,
        input_data: bytes,  # noqa: ARG002
        num_lines: int,  # noqa: ARG002
        *,
        ends_chunk: bool = True,  # noqa: ARG002
    ) -> None:
        """Write some whole lines."""
        self._stream.write(data)

    def flush(self) -> None:
        """Hand all that was written to the stream."""
        self._stream.flush()

    def __exit__(self, *error: Any) -> None:
        """Close the stream, unless it is stdout."""
        self._opened.__exit__(*error)


def check_files(read: Sequence[str | None], written: Sequence[str | None]) -> None:
    """Check that every file to write has a name of its own, and a folder that can hold it.

    :param read: names of the files to read, and None in place of those that are not wanted.
    :param written: the same of the files to write.
    :raises ArgumentError: if two files would share stdin or stdout.
    :raises PhrasescoreError: if a file to write has no name, would overwrite another file or
        a part of a model, or cannot be written where its name says.
    """
    if read.count("-") > 1 or written.count("-") > 1:
        raise ArgumentError("two files cannot share stdin or stdout")
    outputs = [name for name in written if name is not None]
    for place, name in enumerate(outputs):
        for other in (*read, *outputs[:place]):
            if other is not None and same_file(name, other):
                raise PhrasescoreError(f"{name}: would overwrite another file; name another one")
        folder, base = os.path.split(os.path.realpath(name))
        if base in _FILES_OF_A_MODEL and os.path.isfile(os.path.join(folder, _WEIGHTS)):
            raise PhrasescoreError(f"{name}: would overwrite a part of a model; name another file")
        check_output(name)


def optional_path(path: str | os.PathLike[str] | None) -> str | None:
    """Return the path of a file that need not be given, as a string."""
    return None if path is None else os.fspath(path)


def check_output(path: str) -> None:
    """Check that a file may be written, before the work whose result it gets.

    :raises PhrasescoreError: when the folder does not exist or cannot be written to.
    """
    if path == "-":
        return
    target, replaced = _check_target(path)
    is_stream = replaced is not None and not stat.S_ISREG(replaced.st_mode)
    # An older file, too, is replaced by one that is written beside it.
    if not is_stream and not os.access(os.path.dirname(target), os.W_OK):
        raise PhrasescoreError(f"{path}: cannot write: the folder may not be written to")


def _check_target(path: str) -> tuple[str, os.stat_result | None]:
    """Return the file that a path leads to, and what stands there already, None if nothing does."""
    if not path or path.endswith(os.sep):
        raise PhrasescoreError(f"expected the name of a file to write, found {path!r}")
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
    """Open a file unbuffered, with the permissions that the umask leaves."""
    with writing(path):
        return io.FileIO(os.open(opened, flags | os.O_CLOEXEC, 0o666), "wb")


def _open_part(path: str, target: str) -> tuple[str, io.FileIO]:
    """Make a part file, locked until it is closed or this process ends; return its name, too.

    Part files of the same target that nobody has locked are removed.
    """
    folder, name = os.path.split(target)
    is_left = re.compile(rf"{re.escape(name)}\.[0-9a-f]{{8}}{re.escape(_PART)}")
    with contextlib.suppress(OSError):  # a folder may be written to and not be read
        for left in filter(is_left.fullmatch, os.listdir(folder)):
            _remove_unlocked(os.path.join(folder, left))
    while True:
        part = f"{target}.{secrets.token_hex(4)}{_PART}"
        raw = _open_raw(path, part, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            fcntl.flock(raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_removed = os.fstat(raw.fileno()).st_nlink == 0
        except BlockingIOError:
            is_removed = True  # another run, which found it unlocked, is about to do it
        except OSError:
            is_removed = False  # where there are no locks, nobody removes it
        if not is_removed:
            return part, raw
        raw.close()


def _remove_unlocked(part: str) -> None:
    """Remove a part file, if the process that made it has ended."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(OSError), io.FileIO(os.open(part, flags), "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(part)


@contextlib.contextmanager
def _writer(path: str, raw: io.FileIO, form: Compression | None) -> Iterator[BinaryIO]:
    """Yield a buffered writer on a file that stays open."""
    plain = io.BufferedWriter(_CheckedWriter(path, raw), BLOCK_SIZE)
    with _closing_quietly_on_error(plain):
        if form is not None:
            # With threads, xopen would start another program for bzip2 and xz.
            threads = 1 if form.ending == "gz" else 0
            packed = xopen(plain, "wb", format=form.ending, threads=threads)
            with _closing_quietly_on_error(packed):
                yield packed
        else:
            yield plain


@contextlib.contextmanager
def _closing_quietly_on_error(stream: BinaryIO) -> Iterator[None]:
    """Close a writer; after an exception its own failure to flush must not hide the first one."""
    try:
        yield
        stream.flush()  # what fails here is not its own context, as where close() flushes
        stream.close()
    except BaseException as error:
        context = error.__context__
        with contextlib.suppress(Exception):
            stream.close()
        # A thread that compresses has one error: close() raises it twice, as the context of
        # itself, and an ExitStack would look for the end of the contexts for ever.
        error.__context__ = context
        raise
