"""Signals that end a command, or ask a long run to stop at the next good place."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

# Code whose callers swallow exceptions, by its files: Python's own import code, which torch calls
# as it starts, and LLVM's, which runs as numba's functions are loaded.
_SWALLOWING = ("<frozen importlib._bootstrap>", f"{os.sep}llvmlite{os.sep}")


class EndedBySignal(BaseException):
    """A signal that ends this process; on the way out everything is put away as after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def raise_signal(number: int) -> NoReturn:
    """Raise the exception of a signal: KeyboardInterrupt for SIGINT, else `EndedBySignal`."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise EndedBySignal(number)


@contextmanager
def catching_signals() -> Iterator[list[int]]:
    """Yield a list to which SIGINT and SIGTERM add themselves; a second SIGINT interrupts.

    Elsewhere than in the main thread, where signals are not delivered, the list stays empty.
    """
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return

    def catch(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, catch) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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


@contextmanager
def deferring_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM wait, but for a second SIGINT, and keep their handlers as they are.

    Ray, as it starts, sets a handler of SIGTERM, and is left in a state that ends in a crash where
    a handler raises.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []

    def defer(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and number in waiting:
            raise KeyboardInterrupt
        waiting.append(number)

    def keep(*_: Any, **__: Any) -> None:
        pass

    install = signal.signal
    before = {number: install(number, defer) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal = keep
    try:
        yield
    finally:
        signal.signal = install
        for number, handler in before.items():
            install(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])


def _outermost_swallowing(frame: FrameType | None) -> FrameType | None:
    """Return the outermost frame of code that swallows exceptions, None where there is none."""
    found = None
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in _SWALLOWING):
            found = frame
        frame = frame.f_back
    return found
