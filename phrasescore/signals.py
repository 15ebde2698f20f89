"""Signals that end a command, or ask a long run to stop at the next good place."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn


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

    Those that are ignored stay so. One that is swallowed, as torch does while it imports numpy, is
    raised again at the end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    ended: list[int] = []

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        ended.append(number)
        raise_signal(number)

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
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if ended:
            raise_signal(ended[0])


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
