"""Signals that end a command, at a place where it can be ended."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

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
    comes while a compiled function is loaded. Meanwhile an alarm looks again and again; SIGALRM is
    ours for that time only, and where somebody else has set an alarm, nothing waits.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = _Waiting()
    # nohup has SIGHUP ignored, and a shell's & has SIGINT.
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if (handler := signal.getsignal(number)) in (signal.SIG_DFL, signal.default_int_handler)
    }
    for number in before:
        signal.signal(number, waiting.end)
    try:
        yield
        last = waiting.stop()
        if last is not None:
            _raise(last)
    finally:
        waiting.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


class _Waiting:
    """A signal that waits, if there is one, and the alarm that looks at it again."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._alarm: Any = signal.SIG_DFL  # what answered SIGALRM before

    def end(self, number: int, frame: FrameType | None) -> None:
        """Answer a signal: raise, or let it wait."""
        if self._number is not None:
            self._number = number
        elif _is_swallowed(frame) and not any(signal.getitimer(signal.ITIMER_REAL)):
            self._number = number
            self._alarm = signal.signal(signal.SIGALRM, self._look_again)
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
        else:
            _raise(number)

    def _look_again(self, _alarm: int, frame: FrameType | None) -> None:
        number = self.stop()
        if number is not None:
            self.end(number, frame)

    def stop(self) -> int | None:
        """Give SIGALRM back; return the signal that was waiting."""
        number, self._number = self._number, None
        if number is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._alarm)
        return number


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
