"""Read files from folders that others may have filled: only regular files of limited size.

Reading a pipe may wait forever, and a device may have no end. A link counts as its target.
"""

import contextlib
import os
import stat
from io import BufferedReader, FileIO

from phrasescore.arguments import StrPath
from phrasescore.errors import DataError

# Maximum sizes, in bytes, of files with settings, results and states, vocabularies, and arrays.
MAX_TOML, MAX_JSON, MAX_WORDS, MAX_ARRAYS = 1 << 20, 1 << 28, 1 << 30, 1 << 36
MAX_SUBWORDS = 1 << 28  # of a sentencepiece model: some twenty bytes per subword


def open_plain(path: StrPath, max_size: int | None = None) -> BufferedReader:
    """Open a regular file for reading bytes.

    :raises DataError: if it is a pipe or a device, or larger than ``max_size`` bytes.
    :raises OSError: if it cannot be opened.
    """
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        problem = "expected a plain file, found a pipe or a device"
    elif max_size is not None and status.st_size > max_size:
        problem = f"expected at most {max_size:,} bytes, found {status.st_size:,}"
    else:
        return file
    file.close()
    raise DataError(os.fspath(path), None, problem)


def read_plain(path: StrPath, max_size: int) -> bytes:
    """Return the content of a regular file; see `open_plain`."""
    with open_plain(path, max_size) as file:
        content = file.read(max_size + 1)
    if len(content) > max_size:  # files in /proc have size 0
        raise DataError(os.fspath(path), None, f"expected at most {max_size:,} bytes, found more")
    return content


def check_plain(path: StrPath, max_size: int | None = None) -> None:
    """Check the type and size of a file before other code reads it; see `open_plain`."""
    open_plain(path, max_size).close()


def open_at_end(path: str) -> FileIO:
    """Open or create a regular file to append bytes.

    The file has no buffer: closing it does not retry a write that failed on a full disk.

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
