"""Gzip, the only compressed format of inputs and outputs. Concatenated files count as one."""

import re
from typing import NamedTuple

from zlib_ng import zlib_ng

# Files are as small as with zlib's level 6, which Moses' scripts use, and take half the time.
GZIP_LEVEL = 5

# The version determines the bytes of a compressed file.
GZIP_VERSION = f"zlib-ng {zlib_ng.ZLIBNG_RUNTIME_VERSION}"


class OtherFormat(NamedTuple):
    """A compressed format that is refused."""

    name: str  # also the program that compresses
    ending: str  # of file names
    start: re.Pattern[bytes]  # the first bytes of a file
    reader: str  # the program that unpacks a file to stdout


_OTHERS = (
    OtherFormat("bzip2", ".bz2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), "bzcat"),
    OtherFormat("xz", ".xz", re.compile(rb"\xfd7zXZ\0"), "xzcat"),
)


def is_gzip(start: bytes) -> bool:
    """Return whether a file is compressed with gzip, from its first bytes."""
    return start.startswith(b"\x1f\x8b")


def is_gzip_name(path: str) -> bool:
    """Return whether a file is compressed with gzip, from its name."""
    return path.endswith(".gz")


def other_format(path: str, start: bytes = b"") -> OtherFormat | None:
    """Return bzip2 or xz if a file has its name or first bytes, or None."""
    return next(
        (form for form in _OTHERS if path.endswith(form.ending) or form.start.match(start)), None
    )


def new_compressor() -> zlib_ng._Compress:
    """Return a compressor to gzip; the header has no name and time 0."""
    return zlib_ng.compressobj(GZIP_LEVEL, wbits=31)
