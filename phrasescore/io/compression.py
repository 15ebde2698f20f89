"""Gzip, the only compressed format of inputs and outputs. Concatenated files count as one."""

import re

from zlib_ng import zlib_ng

# Files are as small as with zlib's level 6, which Moses' scripts use, and take half the time.
GZIP_LEVEL = 5

# The version determines the bytes of a compressed file.
GZIP_VERSION = f"zlib-ng {zlib_ng.ZLIBNG_RUNTIME_VERSION}"


# Compressed formats that are refused: the program, the ending of names, and a file's first bytes.
_OTHERS = (
    ("bzip2", ".bz2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")),
    ("xz", ".xz", re.compile(rb"\xfd7zXZ\0")),
)


def is_gzip_name(path: str) -> bool:
    """Return whether a file is compressed with gzip, from its name."""
    return path.endswith(".gz")


def other_format(path: str, start: bytes = b"") -> str | None:
    """Return bzip2 or xz if a file has its name or first bytes, or None."""
    return next(
        (name for name, end, pattern in _OTHERS if path.endswith(end) or pattern.match(start)), None
    )


def new_compressor() -> zlib_ng._Compress:
    """Return a compressor to gzip; the header has no name and time 0."""
    return zlib_ng.compressobj(GZIP_LEVEL, wbits=31)
