"""Read files of folders that others may have filled: plain ones of a sane size, and no others.

Reading a pipe may wait forever, and a device may have no end: neither is read as one of the files
of a model or of a run. A link counts as what it leads to.
"""

import contextlib
import os
import stat
from io import BufferedReader, FileIO

from phrasescore.errors import DataError

# Bytes of a file of settings, of one of results or of a state, of a vocabulary, and of arrays.
MAX_TOML, MAX_JSON, MAX_WORDS, MAX_ARRAYS = 1 << 20, 1 << 28, 1 << 30, 1 << 36
# Of a model of subwords, each of which takes some twenty bytes.
MAX_SUBWORDS = 1 << 28


def open_plain(path: str | os.PathLike[str], max_size: int | None = None) -> BufferedReader:
    """Open a plain file for reading bytes.

    :param max_size: in bytes.
    :raises DataError: if it is a pipe or a device, or larger.
    :raises OSError: if it cannot be opened.
    """
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115
    status = os.fstat(file.fileno())
    problem = None
    if not stat.S_ISREG(status.st_mode):
        problem = "expected a plain file, found a pipe or a device"
    elif max_size is not None and status.st_size > max_size:
        problem = f"expected {max_size:,} bytes at most, found {status.st_size:,}"
    if problem is not None:
        file.close()
        raise DataError(os.fspath(path), None, problem)
    return file


def read_plain(path: str | os.PathLike[str], max_size: int) -> bytes:
    """Return the content of a plain file; see `open_plain`."""
    with open_plain(path, max_size) as file:
        content = file.read(max_size + 1)
    if len(content) > max_size:  # as in /proc, where files have no size
        raise DataError(os.fspath(path), None, f"expected {max_size:,} bytes at most, found more")
    return content


def check_plain(path: str | os.PathLike[str], max_size: int | None = None) -> None:
    """Refuse a file that is to be read by other means; see `open_plain`."""
    open_plain(path, max_size).close()


def open_at_end(path: str) -> FileIO:
    """Open a plain file, or a new one, to add bytes to it, with no buffer.

    What a full disk refuses is then not tried again when the file is closed.

    :raises DataError: if there is a link, a pipe or a device of this name.
    :raises OSError: if it cannot be opened.
    """
    with contextlib.suppress(OSError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise DataError(path, None, "expected a plain file, found a link, a pipe or a device")
    return FileIO(path, "ab", opener=_open_no_link)


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)


def _open_at_once(path: str, flags: int) -> int:
    # Without this flag, opening a pipe waits for somebody to write to it.
    return os.open(path, flags | os.O_NONBLOCK)
