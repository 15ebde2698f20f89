"""Signals that end a command, or ask a long run to stop at the next good place."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn


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


@contextlib.contextmanager
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
