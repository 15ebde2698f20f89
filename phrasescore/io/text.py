"""Read text files as bytes: plain, gzip, or stdin, whose path is ``-``.

Everything here works on bytes, because the bytes of a line have to survive a run untouched. A
line ends at U+000A and nowhere else: the ``\\r`` of CRLF, U+0085 and U+2028 are ordinary content.
:mod:`phrasescore.io.output` writes them.
"""

import contextlib
import importlib
import io
import os
import sys
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Protocol, Self, cast

from xopen import xopen

from phrasescore.errors import DataError
from phrasescore.progress import note_lines

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK_SIZE = 1 << 18  # bytes; larger blocks fall out of the cache and are slower to parse
MAX_LINE = 1 << 26  # bytes; a longer line means that the file is not text

# A number as Moses' files have it: no "inf", no "nan", no spaces or underscores.
# Possessive: so that a text that is none of any length is refused in one pass over it.
NUMBER = r"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+"

_GZIP_MAGIC = b"\x1f\x8b"
_SHOWN = 60  # characters of the offending text in a message


class InputLines(Protocol):
    """Some consecutive lines of an input, such as a block of a phrase table."""

    @property
    def before(self) -> int:
        """How many lines of the input come before."""

    @property
    def num_lines(self) -> int:
        """How many lines there are."""

    @property
    def raw(self) -> bytes:
        """The bytes of the lines."""

    def lines(self, first: int, after: int) -> Self:
        """Return the lines from number ``first`` to before ``after``, counted from 0."""


def _decompression_errors() -> tuple[type[Exception], ...]:
    """Return the errors that the gzip implementations behind xopen raise on damaged data."""
    errors: list[type[Exception]] = [zlib.error, EOFError]
    for name in ("isal.isal_zlib", "zlib_ng.zlib_ng"):  # which are there depends on the machine
        with contextlib.suppress(ImportError):
            errors.append(importlib.import_module(name).error)
    return tuple(errors)


_DECOMPRESSION_ERRORS = _decompression_errors()


def shorten(text: str | bytes) -> str:
    """Return some input in quotes for a message, cut at 60 characters.

    Bytes are shown as the text that they are; those that are no UTF-8, as escapes.

    >>> shorten("0,5"), shorten("été".encode()), shorten(b"\\xff")
    ("'0,5'", "'été'", "'\\\\\\\\xff'")
    """
    if isinstance(text, bytes):
        text = text[: 4 * (_SHOWN + 1)].decode(errors="backslashreplace")
    shown = repr(text[: _SHOWN + 1])
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."


# Compressed bytes that are read at a time, so that their place says how far the text is read.
_PACKED_BLOCK = 1 << 16


class _PackedBytes(io.RawIOBase):
    """Compressed bytes that are read in small pieces, whatever a decompressor asks for."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        data = self._source.read(min(memoryview(buffer).nbytes, _PACKED_BLOCK))
        memoryview(buffer)[: len(data)] = data
        return len(data)


class _CheckedReader(io.RawIOBase):
    """A byte source whose failures are DataErrors that name the file."""

    def __init__(self, path: str, source: BinaryIO, opened: BinaryIO | None) -> None:
        """
        :param source: the stream to read; for gzip, the decompressor.
        :param opened: the file underneath, which is closed at the end; None for stdin.
        """
        self._path = path
        self._source = source
        self._opened = opened

    def share(self) -> float:
        """Return the share of the file that is read, from 0 to 1; 0 where it is not known."""
        if self._opened is None or self._opened.closed:
            return 0.0
        size = os.fstat(self._opened.fileno()).st_size
        return self._opened.tell() / size if size and self._opened.seekable() else 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        try:
            data = self._source.read(len(view))
        except EOFError as error:
            raise DataError(self._path, None, "the gzip data end too early (truncated?)") from error
        except _DECOMPRESSION_ERRORS as error:
            raise DataError(self._path, None, f"corrupt gzip data: {error}") from error
        except OSError as error:
            # gzip.BadGzipFile is an OSError without an errno.
            problem = f"cannot read: {error.strerror}" if error.errno else f"corrupt gzip: {error}"
            raise DataError(self._path, None, problem) from error
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            if self._opened is not None:
                if self._source is not self._opened:
                    self._source.close()
                self._opened.close()
            super().close()


def open_input(path: str) -> io.BufferedReader:
    """Open a file for reading bytes; gzip is recognised by its first bytes.

    :param path: ``-`` is stdin, which may hold gzip too and is left open at the end. A file called
        ``.gz`` has to be gzip. Members of a gzip file are read one after the other, as one text.
    :raises DataError: at the call, when the file cannot be opened or is called ``.gz`` and is not;
        on reading, when the gzip data are truncated, corrupt, or followed by something else.
        The error has no line; `read_blocks` and `read_lines` add the last one that they have read.
    """
    opened: io.BufferedReader | None = None
    if path != "-":
        try:
            opened = io.BufferedReader(io.FileIO(path), BLOCK_SIZE)
        except OSError as error:
            raise DataError(path, None, f"cannot open: {error.strerror}") from error
    try:
        stream = opened if opened is not None else _stdin()
        try:
            start = stream.peek(2)
        except OSError as error:
            raise DataError(path, None, f"cannot read: {error.strerror}") from error
        if start[:2] == _GZIP_MAGIC:
            # threads=0 reads in this process: igzip takes 0.14 microseconds per line, and a thread
            # would only blur the place of an error.
            packed = cast(BinaryIO, _PackedBytes(stream))
            source: BinaryIO = xopen(packed, "rb", format="gz", threads=0)
        elif path.endswith(".gz"):
            found = shorten(start[:8]) if start else "an empty file"
            raise DataError(path, None, f"expected gzip data, as the name says, found {found}")
        else:
            source = stream
    except BaseException:
        if opened is not None:
            opened.close()
        raise
    return io.BufferedReader(_CheckedReader(path, source, opened), BLOCK_SIZE)


def _stdin() -> io.BufferedReader:
    """Return stdin as bytes with a peek(), also where a test runner has replaced it."""
    if sys.stdin is None:  # as after "<&-" in a shell
        raise DataError("-", None, "cannot open: this process was started without a stdin")
    stream: object = sys.stdin.buffer
    if isinstance(stream, io.BufferedReader):
        return stream
    return io.BufferedReader(_CheckedReader("-", sys.stdin.buffer, None))


def read_blocks(path: str) -> Iterator[bytes]:
    """Yield a file as blocks of whole lines, each about a quarter of a megabyte.

    Every block ends with a newline, except that the last one lacks it where the file does: joined
    together the blocks are the file. This is the fast way to read, and the one that keeps
    the last newline or its absence.

    :raises DataError: at the first ``next`` if the file cannot be opened, later if its gzip data
        are damaged (with the number of the last line that was read before, if there is one) or a
        line is longer than 64 MiB, which text never is.
    """
    lines = 0
    pending: list[bytes] = []
    pending_size = 0
    with open_input(path) as stream:
        reader = stream.raw
        assert isinstance(reader, _CheckedReader)
        while True:
            try:
                # read1, not read: the bytes before a damaged place are handed over first.
                chunk = stream.read1(BLOCK_SIZE)
            except DataError as error:
                if lines == 0:
                    raise
                problem = f"{error.problem}, somewhere after this line"
                raise DataError(path, lines, problem) from error
            if not chunk:
                break
            end = chunk.rfind(b"\n") + 1
            if end == 0:
                pending.append(chunk)
                pending_size += len(chunk)
                if pending_size > MAX_LINE:
                    problem = f"expected lines of text, found one of more than {MAX_LINE} bytes"
                    raise DataError(path, lines + 1, f"{problem}; is this a binary file?")
                continue
            block = b"".join((*pending, chunk[:end]))
            pending = [chunk[end:]]
            pending_size = len(chunk) - end
            lines += block.count(b"\n")
            note_lines(path, lines, reader.share)
            yield block
        note_lines(path, lines + bool(pending_size), None)
        if pending_size:
            yield b"".join(pending)


def read_lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a file without their newline, lazily.

    Lines end at U+000A only; a ``\\r`` before it stays. A last line without a newline is a line
    like any other; a caller to whom the difference matters uses `read_blocks`.

    :raises DataError: as `read_blocks`.
    """
    for block in read_blocks(path):
        yield from split_block(block)


def count_lines(block: bytes) -> int:
    """Return the number of lines of a block from `read_blocks`."""
    return block.count(b"\n") + (not block.endswith(b"\n"))


def split_block(block: bytes) -> list[bytes]:
    """Return the lines of a block from `read_blocks`, without their newlines.

    >>> split_block(b"a\\n\\nb\\n"), split_block(b"a\\nb")
    ([b'a', b'', b'b'], [b'a', b'b'])
    """
    lines = block.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def decode(path: str, line_number: int, raw: bytes) -> str:
    """Return a line as text; a byte that is not UTF-8 is an error, never replaced.

    :param line_number: 1-based.
    :raises DataError: naming file, line and the offending byte with its place in the line.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        found = f"byte 0x{raw[error.start]:02x} at byte {error.start + 1} of the line"
        raise DataError(path, line_number, f"expected UTF-8, found {found}") from error


def is_stream(path: str) -> bool:
    """Return whether a path leads to a stream, read once only: stdin, or a shell's ``<(...)``."""
    return path == "-" or (
        os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))
    )


def same_file(first: str, second: str) -> bool:
    """Return whether two paths lead to one file, also by way of links; ``-`` is never the same.

    Paths to files that do not exist yet are compared after resolving links and ``..``.
    """
    if "-" in (first, second):
        return False
    try:
        return os.path.samefile(first, second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)
