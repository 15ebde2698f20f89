"""A pseudo-terminal, and what a test drew on it."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Callable
from typing import TextIO


def resize(descriptor: int, columns: int) -> None:
    """Set the width of a terminal."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def drawn(act: Callable[[TextIO], None], columns: int = 80) -> str:
    """Return what ``act`` wrote to a terminal of this width."""
    leader, follower = pty.openpty()
    resize(follower, columns)
    with os.fdopen(follower, "w") as stream:
        act(stream)
    data = b""
    with contextlib.suppress(OSError):  # EIO: all is read, and nobody writes any more
        while True:  # One read may return only the first of several writes.
            data += os.read(leader, 1 << 16)
    os.close(leader)
    return data.decode()


def screen(data: str, columns: int = 80) -> list[str]:
    """Return the lines that a terminal shows after it has received these data."""
    lines, row, column = [""], 0, 0
    for text in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|.", data, re.DOTALL):
        if text == "\r":
            column = 0
        elif text in ("\n", "\x1b[A"):
            row += 1 if text == "\n" else -1
            lines += [""] * (row + 1 - len(lines))
        elif text == "\x1b[K":
            lines[row] = lines[row][:column]
        elif text == "\x1b[J":
            lines[row:] = [lines[row][:column]]
        elif not text.startswith("\x1b"):
            if column == columns:
                row, column = row + 1, 0
                lines += [""] * (row + 1 - len(lines))
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]
