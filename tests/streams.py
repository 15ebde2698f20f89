"""Bytes and streams that the tests of reading and writing share."""

import io

# Far more than one block, and not compressible to nothing.
MANY_LINES = b"".join(b"%d %d\n" % (n, n * n) for n in range(200_000))


class Stream:
    """Stands in for sys.stdin or sys.stdout."""

    def __init__(self, buffer: io.BufferedIOBase | io.RawIOBase) -> None:
        self.buffer = buffer
