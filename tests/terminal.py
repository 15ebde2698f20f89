"""A pseudo-terminal, and what a test drew on it."""

import contextlib
import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable
from typing import TextIO


def drawn(act: Callable[[TextIO], None], columns: int = 80) -> str:
    """Return what ``act`` wrote to a terminal of this width."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(follower, "w") as stream:
        act(stream)
    data = b""
    with contextlib.suppress(OSError):  # EIO: all is read, and nobody writes any more
        while True:  # One read may return only the first of several writes.
            data += os.read(leader, 1 << 16)
    os.close(leader)
    return data.decode()
