"""Read plain or compressed text files, or stdin (``-``), as bytes.

The functions work on bytes, so that the bytes of a line survive a run unchanged. A line ends at
U+000A only: the ``\\r`` of CRLF, U+0085 and U+2028 are ordinary content.
`phrasescore.records.split_words` divides a line into words. A byte order mark at the beginning of a
file is an error, because Moses and KenLM treat it as part of the first word.
:mod:`phrasescore.io.output` writes files.
"""

import codecs
import contextlib
import importlib
import io
import math
import os
import re
import select
import shlex
import sys
import threading
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self

from xopen import xopen

from phrasescore.errors import BOM_PROBLEM, DataError
from phrasescore.io.compression import is_gzip_name, other_format
from phrasescore.progress import note_lines

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK_SIZE = 1 << 18  # bytes; larger blocks fall out of the cache and are slower to parse
MAX_LINE = 1 << 26  # bytes; a longer line means that the file is not text

# A number in Moses' files: no "inf", no "nan", no spaces or underscores. The possessive
# quantifiers reject other text of any length in one pass.
NUMBER = r"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+"

LARGEST_VALUE = 3.4028234663852886e38  # the largest float32, which Moses can read

_NUMBER = re.compile(NUMBER.encode())
# The possessive quantifiers read text of any length in one pass.
_TAG = re.compile(r'<(/?)([A-Za-z][^\s/>]*+)((?:"[^">]*+"|[^<>])*+)>')
_ATTRIBUTE = re.compile(r'\s[^\s"=]+="')
_TRANSLATION = ' translation="'
_SHOWN = 60  # characters of the offending text in a message


class NumberedLines(Protocol):
    """Consecutive lines of an input."""

    @property
    def before(self) -> int:
        """Number of input lines before the first of these lines."""

    @property
    def num_lines(self) -> int:
        """Number of these lines."""


class InputLines(NumberedLines, Protocol):
    """Consecutive input lines with their text, such as a block of a phrase table."""

    @property
    def raw(self) -> bytes:
        """The bytes of the lines in this block."""

    def lines(self, first: int, after: int) -> Self:
        """Return the lines from ``first`` up to, but not including, ``after``, counted from 0."""


# gzip.BadGzipFile is an OSError without an errno.
_READ_ERRORS: tuple[type[Exception], ...] = (zlib.error, EOFError, OSError)
for _name in ("isal.isal_zlib", "zlib_ng.zlib_ng"):  # their presence depends on the machine
    with contextlib.suppress(ImportError):
        _READ_ERRORS += (importlib.import_module(_name).error,)


def shorten(text: str | bytes) -> str:
    """Return input quoted for a message and truncated to 60 characters; bytes are decoded.

    >>> shorten("0,5"), shorten("été".encode()), shorten(b"\\xff")
    ("'0,5'", "'été'", "'\\\\\\\\xff'")
    """
    if isinstance(text, bytes):
        text = text[: 4 * (_SHOWN + 1)].decode(errors="backslashreplace")
    shown = repr(text[: _SHOWN + 1])
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."


class _CheckedReader(io.RawIOBase):
    """A byte source, such as a decompressor, whose failures are DataErrors that name the file."""

    def __init__(
        self, path: str, source: BinaryIO, opened: BinaryIO | None, form: str = "plain"
    ) -> None:
        self._form = form
        self._path = path
        self._source = source
        self._opened = opened
        self._at_start = True
        self._read = source.read1 if isinstance(source, io.BufferedReader) else source.read

    def share(self) -> float:
        """Return the share of the file read so far, from 0 to 1; 0 if unknown."""
        if self._opened is None or self._opened.closed:
            return 0.0
        size = os.fstat(self._opened.fileno()).st_size
        return self._opened.tell() / size if size and self._opened.seekable() else 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        try:
            if self._opened is None and not self._at_start:
                _wait(self._source)
            # Of a pipe, what is there: the rest may come only after an answer.
            data = self._read(len(view))
        except _READ_ERRORS as error:
            raise DataError(self._path, None, self._problem(error)) from error
        if self._at_start and data.startswith(codecs.BOM_UTF8):
            raise DataError(self._path, 1, f"expected text, {BOM_PROBLEM}")
        self._at_start = False
        view[: len(data)] = data
        return len(data)

    def _problem(self, error: Exception) -> str:
        if isinstance(error, EOFError):
            return f"the {self._form} data end too early (truncated?)"
        if not isinstance(error, OSError):
            return f"corrupt {self._form} data: {error}"
        return f"cannot read: {error.strerror}" if error.errno else f"corrupt {self._form}: {error}"

    def close(self) -> None:
        if not self.closed:
            if self._opened is not None:
                if self._source is not self._opened:
                    self._source.close()
                self._opened.close()
            super().close()


def open_input(path: str) -> io.BufferedReader:
    """Open a file for reading bytes; gzip is recognised by its first bytes.

    :param path: ``-`` is stdin, which may also be compressed, and is not closed. A file whose name
        ends in ``.gz`` must be gzip. Concatenated compressed files are read as one text.
    :raises DataError: at the call or on reading, if the file cannot be read or is malformed.
    """
    opened: io.BufferedReader | None = None
    if path != "-":
        try:
            opened = io.BufferedReader(io.FileIO(path), BLOCK_SIZE)
        except OSError as error:
            raise DataError(path, None, f"cannot open: {error.strerror}") from error
    try:
        stream = opened or _stdin()
        if opened is None:
            _wait(stream)
        try:
            start = stream.peek(16)
        except OSError as error:
            raise DataError(path, None, f"cannot read: {error.strerror}") from error
        if (other := other_format(path, start)) is not None:
            file = "FILE" if path == "-" else shlex.quote(path)
            cure = f"give - for stdin, as in: {other} -dc {file} | phrasescore ... -"
            problem = f"expected plain text or gzip, found {other}; {cure}"
            raise DataError(path, None, problem)
        is_packed = start.startswith(b"\x1f\x8b")
        if is_gzip_name(path) and not is_packed:
            shown = shorten(start[:8]) if start else "an empty file"
            problem = f"expected gzip data, as the name says, found {shown}"
            raise DataError(path, None, problem)
        source: BinaryIO = stream
        if is_packed:
            # threads=0 reads in this process, where igzip takes 0.14 microseconds per line. With a
            # thread, an error would be reported too late.
            source = xopen(stream, "rb", format="gz", threads=0)
    except BaseException:
        if opened is not None:
            opened.close()
        raise
    name = "gzip" if is_packed else "plain"
    return io.BufferedReader(_CheckedReader(path, source, opened, name), BLOCK_SIZE)


def _wait(stream: Any) -> None:
    """Wait until stdin can be read, in a thread other than the main one."""
    # A thread that waits in a read holds the stream's lock, and Python could not end meanwhile.
    if threading.current_thread() is not threading.main_thread():
        with contextlib.suppress(OSError, ValueError, TypeError):
            select.select([stream], [], [])


def _stdin() -> io.BufferedReader:
    """Return stdin as bytes with a peek(), even if a test runner has replaced it."""
    if sys.stdin is None:  # as after "<&-" in a shell
        raise DataError("-", None, "cannot open: this process was started without a stdin")
    stream: object = sys.stdin.buffer
    if isinstance(stream, io.BufferedReader):
        return stream
    return io.BufferedReader(_CheckedReader("-", sys.stdin.buffer, None))


def read_blocks(path: str) -> Iterator[bytes]:
    """Yield the bytes of a file in blocks of whole lines, each about a quarter of a megabyte.

    The last block lacks a final newline if the file does. This is the fastest way to read a file. A
    line longer than 64 MiB is an error.
    """
    lines = 0
    pending: list[bytes] = []
    pending_size = 0
    with open_input(path) as stream:
        reader = stream.raw
        assert isinstance(reader, _CheckedReader)
        while True:
            try:
                # read1, not read: it returns the bytes before a damaged place first.
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
                    cause = "does CR alone end its lines" if b"\r" in chunk else "is it binary"
                    raise DataError(path, lines + 1, f"{problem}; {cause}?")
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
    """Yield the lines of a file without their newline, lazily; a ``\\r`` before it stays."""
    for block in read_blocks(path):
        yield from split_block(block)


def count_lines(block: bytes) -> int:
    """Return the number of lines in a block from `read_blocks`."""
    return block.count(b"\n") + (not block.endswith(b"\n"))


def split_block(block: bytes) -> list[bytes]:
    """Return the lines in a block from `read_blocks`, without their newlines.

    >>> split_block(b"a\\n\\nb\\n"), split_block(b"a\\nb")
    ([b'a', b'', b'b'], [b'a', b'b'])
    """
    lines = block.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def decode(path: str, line_number: int, raw: bytes) -> str:
    """Return a line as text; a byte that is not UTF-8 is an error and never replaced."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        found = f"byte 0x{raw[error.start]:02x} at byte {error.start + 1} of the line"
        raise DataError(path, line_number, f"expected UTF-8, found {found}") from error


def check_markup(path: str, line_number: int, text: str) -> None:
    """Raise a DataError if a line has tags of Moses' -xml-input, as in moses/XmlOption.cpp.

    A tag has a letter directly after the opening bracket: ``a < b`` has no tag. A bare name in
    brackets, such as ``<num>``, is a word, and so are ``<s>`` and ``</s>``.
    """
    tag = _find_tag(text) if "<" in text else None
    if tag is None and _TRANSLATION in text:  # a tag in other brackets (-xml-brackets)
        tag = text[text.rfind(" ", 0, text.index(_TRANSLATION)) + 1 :]
    if tag is not None:
        problem = f"expected words, found markup: {shorten(tag)}; remove it, or escape it as"
        raise DataError(path, line_number, f"{problem} &lt; and &gt; if these are words")


def _find_tag(text: str) -> str | None:
    """Return the first tag that has an attribute, is empty like ``<wall/>``, or is closed."""
    opened: dict[str, str] = {}
    for tag in _TAG.finditer(text):
        is_end, name, content = tag.groups()
        if is_end and name in opened and name != "s":
            return opened[name]
        if content.strip() == "/" or _ATTRIBUTE.search(content):
            return tag.group()
        if not is_end:
            opened.setdefault(name, tag.group())
    return None


def is_stream(path: str) -> bool:
    """Return whether a path is a stream, which can be read only once: stdin or ``<(...)``."""
    return path == "-" or (
        os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))
    )


def same_file(first: str, second: str) -> bool:
    """Return whether two paths lead to the same file, existing or not; ``-`` never does."""
    if "-" in (first, second):
        return False
    try:
        return os.path.samefile(first, second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)


def parse_number(token: bytes, path: str, line: int | None) -> float:
    """Parse a finite number; texts that Moses reads as another number are an error."""
    # float() would also accept nan, inf, 1_0 and tabs.
    value = float(token) if _NUMBER.fullmatch(token) else math.nan
    if not abs(value) <= LARGEST_VALUE:
        raise DataError(path, line, f"expected a number, found {shorten(token)}")
    return value
