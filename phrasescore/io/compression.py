"""The compressed formats that files are read and written in: those that Moses reads."""

import bz2
import lzma
import re
from collections.abc import Callable
from typing import BinaryIO, Literal, NamedTuple, Protocol

from xopen import xopen
from zlib_ng import zlib_ng

# Files as large as Moses' own scripts make them (zlib at level 6), in less than half the time.
_GZIP_LEVEL = 5
_PIECE = 1 << 16  # bytes that are read at a time


class ByteSource(Protocol):
    """A stream that bytes are read from."""

    def read(self, size: int = ..., /) -> bytes:
        """Return at most so many bytes; none at the end."""

    def close(self) -> None:
        """Close it."""


class Compressor(Protocol):
    """Compresses data piece by piece."""

    def compress(self, data: bytes, /) -> bytes:
        """Return what can be written so far."""

    def flush(self) -> bytes:
        """Return the rest."""


class Compression(NamedTuple):
    """A compressed format. Files of it that follow one another are one file of it."""

    name: str
    # Of a file's name, without the point; also the name that xopen has for the format.
    ending: Literal["gz", "bz2", "xz"]
    # How a file begins.
    start: re.Pattern[bytes]
    # What else the bytes of a file depend on.
    version: str
    new_compressor: Callable[[], Compressor]
    # Opens a stream of such data for reading.
    decompress: Callable[[BinaryIO], ByteSource]


class _Decompressor:
    """Reads bzip2 or xz from a stream; Python's own readers end without a word at other data.

    :param new: makes an object that decompresses one file.
    """

    def __init__(
        self, stream: BinaryIO, new: type[bz2.BZ2Decompressor] | type[lzma.LZMADecompressor]
    ) -> None:
        self._stream, self._new = stream, new
        self._file = new()

    def read(self, size: int = -1) -> bytes:
        """Return some bytes, at most ``size``; none at the end.

        :raises EOFError, OSError, LZMAError: if the data are cut off, or others.
        """
        data = b""
        while not data:
            piece = b""
            if self._file.eof:
                rest = self._file.unused_data
                # Zeros may stand between files of xz, and at the end.
                while not (piece := rest.lstrip(b"\0")) and (rest := self._stream.read(_PIECE)):
                    pass
                if not piece:
                    break
                self._file = self._new()
            elif self._file.needs_input and not (piece := self._stream.read(_PIECE)):
                raise EOFError
            data = self._file.decompress(piece, size)
        return data

    def close(self) -> None:
        """Do nothing: the stream is closed by those who opened it."""


COMPRESSIONS = (
    Compression(
        "gzip",
        "gz",
        re.compile(rb"\x1f\x8b"),
        f"zlib-ng {zlib_ng.ZLIBNG_RUNTIME_VERSION}",
        # With no name and time 0.
        lambda: zlib_ng.compressobj(_GZIP_LEVEL, wbits=31),
        # threads=0 reads in this process: igzip takes 0.14 microseconds per line, and a thread
        # would only blur the place of an error.
        lambda stream: xopen(stream, "rb", format="gz", threads=0),
    ),
    Compression(
        "bzip2",
        "bz2",
        re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
        "level 9",
        bz2.BZ2Compressor,
        lambda stream: _Decompressor(stream, bz2.BZ2Decompressor),
    ),
    Compression(
        "xz",
        "xz",
        re.compile(rb"\xfd7zXZ\0"),
        "level 6",
        lzma.LZMACompressor,
        lambda stream: _Decompressor(stream, lzma.LZMADecompressor),
    ),
)


def compression_of(start: bytes) -> Compression | None:
    """Return the format of a file that begins with some bytes; None where it is not compressed."""
    return next((each for each in COMPRESSIONS if each.start.match(start)), None)


def compression_by_name(path: str) -> Compression | None:
    """Return the format that the name of a file says; None where it says none."""
    return next((each for each in COMPRESSIONS if path.endswith(f".{each.ending}")), None)
