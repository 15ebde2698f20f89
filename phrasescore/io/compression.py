"""The compressed file formats that Moses reads."""

import bz2
import lzma
import re
from collections.abc import Callable
from typing import BinaryIO, Literal, NamedTuple, Protocol

from xopen import xopen
from zlib_ng import zlib_ng

# Files are as small as with zlib's level 6, which Moses' scripts use, and take half the time.
GZIP_LEVEL = 5
_PIECE = 1 << 16  # bytes per read


class ByteSource(Protocol):
    """A readable stream of bytes."""

    def read(self, size: int = ..., /) -> bytes:
        """Return at most ``size`` bytes; ``b""`` at the end."""

    def close(self) -> None:
        """Close the stream."""


class Compressor(Protocol):
    """Compresses data in pieces; `compress` buffers data until `flush`."""

    def compress(self, data: bytes, /) -> bytes:
        """Return the compressed bytes that are complete."""

    def flush(self) -> bytes:
        """Return the remaining compressed bytes."""


class Compression(NamedTuple):
    """A compressed format. Concatenated files in the same format count as one file."""

    name: str
    ending: Literal["gz", "bz2", "xz"]  # the ending of file names; also xopen's name for the format
    start: re.Pattern[bytes]  # the first bytes of a file
    version: str  # the version and level, which determine the bytes of a compressed file
    new_compressor: Callable[[], Compressor]
    decompress: Callable[[BinaryIO], ByteSource]  # opens a stream of compressed data for reading


class _Decompressor:
    """Reads bzip2 or xz from a stream. Python's own readers silently ignore trailing garbage."""

    def __init__(
        self, stream: BinaryIO, new: type[bz2.BZ2Decompressor] | type[lzma.LZMADecompressor]
    ) -> None:
        self._stream, self._new = stream, new
        self._file = new()

    def read(self, size: int = -1) -> bytes:
        data = b""
        while not data:
            piece = b""
            if self._file.eof:
                rest = self._file.unused_data
                # Zeros are allowed between xz files and at the end.
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
        """The code that opened the stream closes it."""


COMPRESSIONS = (
    Compression(
        "gzip",
        "gz",
        re.compile(rb"\x1f\x8b"),
        f"zlib-ng {zlib_ng.ZLIBNG_RUNTIME_VERSION}",
        # The gzip header has no name and time 0.
        lambda: zlib_ng.compressobj(GZIP_LEVEL, wbits=31),
        # threads=0 reads in this process, where igzip takes 0.14 microseconds per line. With a
        # thread, an error would be reported too late.
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
    """Return the format of a file from its first bytes, or None if it is not compressed."""
    return next((form for form in COMPRESSIONS if form.start.match(start)), None)


def compression_by_name(path: str) -> Compression | None:
    """Return the format of a file from its name, or None."""
    return next((form for form in COMPRESSIONS if path.endswith(f".{form.ending}")), None)
