"""Handle signals that end a command, or ask a long run to stop at the next good moment."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class EndedBySignal(BaseException):
    """A signal that ends this process; the clean-up is the same as after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def raise_signal(number: int) -> NoReturn:
    """Raise KeyboardInterrupt for SIGINT, and `EndedBySignal` for any other signal."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise EndedBySignal(number)


@contextmanager
def catching_signals() -> Iterator[list[int]]:
    """Yield a list that SIGINT and SIGTERM are added to; a second SIGINT interrupts.

    The list stays empty outside the main thread, where signals are not delivered.
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
    """Let SIGINT, SIGTERM and SIGHUP raise exceptions, so that child processes are ended.

    Ignored signals stay ignored. An exception that something swallows, as torch does while it
    imports numpy, is raised again at the end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    ended: list[int] = []

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        ended.append(number)
        raise_signal(number)

    # nohup ignores SIGHUP, and a shell's & ignores SIGINT.
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
    """Defer SIGINT and SIGTERM, except a second SIGINT, and protect their handlers.

    Ray sets a handler of SIGTERM when it starts, and crashes later if a handler raises meanwhile.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []

    def defer(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and number in waiting:
            raise KeyboardInterrupt
        waiting.append(number)

    install = signal.signal
    before = {number: install(number, defer) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal = lambda *_, **__: None
    try:
        yield
    finally:
        signal.signal = install
        for number, handler in before.items():
            install(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])
