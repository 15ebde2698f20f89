"""Read text files as bytes: plain, compressed, or stdin, whose path is ``-``.

Everything here works on bytes, because the bytes of a line have to survive a run untouched. A
line ends at U+000A and nowhere else: the ``\\r`` of CRLF, U+0085 and U+2028 are ordinary content.
Words are separated by U+0020 and nothing else. A byte order mark at the beginning of any input is
an error: Moses and KenLM take it for a part of the first word.
:mod:`phrasescore.io.output` writes files.
"""

import codecs
import contextlib
import importlib
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Protocol, Self, cast

from phrasescore.errors import DataError
from phrasescore.io.compression import ByteSource, compression_by_name, compression_of
from phrasescore.progress import note_lines

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK_SIZE = 1 << 18  # bytes; larger blocks fall out of the cache and are slower to parse
MAX_LINE = 1 << 26  # bytes; a longer line means that the file is not text

# A number as Moses' files have it: no "inf", no "nan", no spaces or underscores.
# Possessive: so that a text that is none of any length is refused in one pass over it.
NUMBER = r"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+"

# Of messages about a file that begins with one.
BOM_PROBLEM = "found a byte order mark before it: save the file as UTF-8 without one"

_ATTRIBUTE = re.compile(r'\s[^\s"=]+="')
_TRANSLATION = ' translation="'
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
    """Return the errors that the implementations behind xopen raise on damaged data."""
    errors: list[type[Exception]] = [zlib.error, lzma.LZMAError, EOFError]
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

    def __init__(
        self, path: str, source: ByteSource, opened: BinaryIO | None, form: str = "plain"
    ) -> None:
        """
        :param source: the stream to read; of compressed data, the decompressor.
        :param opened: the file underneath, which is closed at the end; None for stdin.
        :param form: the name of the compressed format, for messages.
        """
        self._form = form
        self._path = path
        self._source = source
        self._opened = opened
        self._at_start = True

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
            problem = f"the {self._form} data end too early (truncated?)"
            raise DataError(self._path, None, problem) from error
        except _DECOMPRESSION_ERRORS as error:
            raise DataError(self._path, None, f"corrupt {self._form} data: {error}") from error
        except OSError as error:
            # gzip.BadGzipFile is an OSError without an errno, and so is what bz2 raises.
            problem = f"corrupt {self._form}: {error}"
            if error.errno:
                problem = f"cannot read: {error.strerror}"
            raise DataError(self._path, None, problem) from error
        if self._at_start and data.startswith(codecs.BOM_UTF8):
            raise DataError(self._path, 1, f"expected text, {BOM_PROBLEM}")
        self._at_start = False
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
    """Open a file for reading bytes; gzip, bzip2 and xz are recognised by their first bytes.

    :param path: ``-`` is stdin, which may be compressed too and is left open at the end. A file
        called ``.gz`` has to be gzip, and so on. Several compressed files in one are one text.
    :raises DataError: at the call, when the file cannot be opened or is not what its name says; on
        reading, when the text begins with a byte order mark, or compressed data are truncated or
        corrupt, or gzip is followed by others. The error about compressed data has no line;
        `read_blocks` and `read_lines` add the last one that they have read.
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
            start = stream.peek(16)
        except OSError as error:
            raise DataError(path, None, f"cannot read: {error.strerror}") from error
        found, named = compression_of(start), compression_by_name(path)
        if named is not None and named is not found:
            shown = shorten(start[:8]) if start else "an empty file"
            problem = f"expected {named.name} data, as the name says, found {shown}"
            raise DataError(path, None, problem)
        if found is not None:
            source: ByteSource = found.decompress(cast(BinaryIO, _PackedBytes(stream)))
        else:
            source = stream
    except BaseException:
        if opened is not None:
            opened.close()
        raise
    form = "plain" if found is None else found.name
    return io.BufferedReader(_CheckedReader(path, source, opened, form), BLOCK_SIZE)


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

    :raises DataError: at the first ``next`` if the file cannot be opened, later if compressed data
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


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a sentence, which U+0020 alone separates.

    >>> split_words(" la  maison ")
    ('la', 'maison')
    """
    words = text.strip(" ").split(" ")
    return tuple(filter(None, words)) if "" in words else tuple(words)


class Markup:
    """The tags of Moses' -xml-input in a source text, as moses/XmlOption.cpp takes them apart.

    A letter follows the opening bracket at once: ``a < b`` has no tag. A name in brackets alone,
    such as ``<num>``, is a word, and so are ``<s>`` and ``</s>``.

    :param opening: the brackets, which Moses' option -xml-brackets names.
    :param every_tag: whether a name in brackets is a tag, too, as it is to Moses with -xml-input.
    """

    def __init__(self, opening: str = "<", closing: str = ">", *, every_tag: bool = False) -> None:
        self._opening, self._every_tag = opening, every_tag
        left, right = re.escape(opening), re.escape(closing)
        # Possessive: so that text of any length is read in one pass over it.
        content = rf'(?:"(?:(?!{right})[^"])*+"|(?!{left}|{right}).)*+'
        self._tag = re.compile(rf"{left}(/?)([A-Za-z](?:(?!{right})[^\s/])*+)({content}){right}")

    def check(self, path: str, line_number: int, text: str) -> None:
        """Refuse a line with markup.

        :param line_number: 1-based.
        :raises DataError: naming file, line and the first tag.
        """
        tag = self._find(text) if self._opening in text else None
        if tag is None and _TRANSLATION in text:  # in the brackets of some -xml-brackets
            tag = text[text.rfind(" ", 0, text.index(_TRANSLATION)) + 1 :]
        if tag is not None:
            problem = f"expected words, found markup: {shorten(tag)}"
            cure = "take it out, or escape it if it is words, as &lt; and &gt;"
            raise DataError(path, line_number, f"{problem}; {cure}")

    def _find(self, text: str) -> str | None:
        """Return a tag that has an attribute, is empty as ``<wall/>``, or is closed later."""
        opened: dict[str, str] = {}
        for tag in self._tag.finditer(text):
            is_end, name, content = tag.groups()
            if is_end and name in opened and name != "s":
                return opened[name]
            if self._every_tag or content.strip() == "/" or _ATTRIBUTE.search(content):
                return tag.group()
            if not is_end:
                opened.setdefault(name, tag.group())
        return None


# Of the brackets that Moses has where -xml-brackets names no others.
MARKUP = Markup()


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
