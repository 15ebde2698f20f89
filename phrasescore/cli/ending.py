"""Signals that end a command, at a place where it can be ended."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

# Code whose callers swallow what is raised in it, by its files: Python's own import code, which
# torch calls as it starts, and what LLVM calls as numba's functions are loaded.
_SWALLOWED = ("<frozen importlib._bootstrap>", f"{os.sep}llvmlite{os.sep}")
# Seconds until a signal that came there is looked at again.
_PATIENCE = 0.05


class EndedBySignal(BaseException):
    """A signal that ends this process; on the way out everything is put away as after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP raise, so that what was started is ended.

    Those that are ignored stay so. One that comes during an import waits for its end: torch's own
    start imports numpy, swallows what that raises, and goes on with half of it. So does one that
    comes while a compiled function is loaded.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGALRM:
            pending[:] = [number]
        if _is_swallowed(frame):
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
        elif pending:
            _raise(pending.pop())

    before = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    }
    # nohup has SIGHUP ignored, and a shell's & has SIGINT.
    replaced = [
        number
        for number, handler in before.items()
        if handler in (signal.SIG_DFL, signal.default_int_handler)
    ]
    for number in replaced:
        signal.signal(number, end)
    try:
        yield
        if pending:
            _raise(pending.pop())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in replaced:
            signal.signal(number, before[number])


def _raise(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise EndedBySignal(number)


def _is_swallowed(frame: FrameType | None) -> bool:
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in _SWALLOWED):
            return True
        frame = frame.f_back
    return False
