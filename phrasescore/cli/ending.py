"""Signals that end a command, at a place where an exception is not swallowed."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from phrasescore.training.signals import raise_signal

# Code whose callers swallow exceptions, by its files: Python's own import code, which torch calls
# as it starts, and LLVM's, which runs as numba's functions are loaded.
_SWALLOWING = ("<frozen importlib._bootstrap>", f"{os.sep}llvmlite{os.sep}")


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP raise, so that what was started is ended.

    Those that are ignored stay so. One that comes during an import raises when the import ends:
    torch's own start imports numpy, swallows what that raises, and goes on with half of it. So
    does one that comes while a compiled function is loaded.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        outermost = _outermost_swallowing(frame)
        if outermost is None:
            raise_signal(number)
        waiting.append(number)
        # Python calls a profile function as each frame ends, and lets it raise.
        sys.setprofile(lambda *event: raise_after(outermost, *event))

    def raise_after(outermost: FrameType, frame: FrameType, event: str, _argument: object) -> None:
        if frame is outermost and event == "return":
            sys.setprofile(None)
            raise_signal(waiting.pop())

    # nohup has SIGHUP ignored, and a shell's & has SIGINT.
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if (handler := signal.getsignal(number)) in (signal.SIG_DFL, signal.default_int_handler)
    }
    for number in before:
        signal.signal(number, end)
    try:
        yield
        if waiting:
            sys.setprofile(None)
            raise_signal(waiting.pop())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _outermost_swallowing(frame: FrameType | None) -> FrameType | None:
    """Return the outermost frame of code that swallows exceptions, None where there is none."""
    found = None
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in _SWALLOWING):
            found = frame
        frame = frame.f_back
    return found
