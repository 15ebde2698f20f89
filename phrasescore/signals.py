"""Handle signals that end a command, or ask a long run to stop at the next good moment."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

# The signals that end a command after it has cleaned up.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
def _handling(numbers: Iterable[int], handler: Callable[..., Any]) -> Iterator[None]:
    """Install ``handler`` for signals within the block; outside the main thread, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def catching_signals() -> Iterator[list[int]]:
    """Yield a list to which SIGINT and SIGTERM are added; a second SIGINT interrupts."""
    caught: list[int] = []

    def catch(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    with _handling((signal.SIGINT, signal.SIGTERM), catch):
        yield caught


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP raise exceptions, so that child processes are ended.

    Ignored signals stay ignored. If something swallows the exception, as torch does while it
    imports numpy, it is raised again at the end.
    """
    ended: list[int] = []

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        ended.append(number)
        raise_signal(number)

    # nohup ignores SIGHUP, and a shell's & ignores SIGINT.
    defaults = (signal.SIG_DFL, signal.default_int_handler)
    try:
        with _handling([one for one in _ENDING if signal.getsignal(one) in defaults], end):
            yield
    finally:
        if ended:
            raise_signal(ended[0])


@contextmanager
def deferring_signals(*, keeps_handlers: bool = False) -> Iterator[None]:
    """Defer SIGINT, SIGTERM and SIGHUP, except a second SIGINT; ignored signals stay ignored.

    :param keeps_handlers: whether nothing can set handlers meanwhile. Ray sets one of SIGTERM when
        it starts, and crashes later if a handler raises meanwhile.
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
    try:
        others = (signal.SIG_IGN, None)  # None for a handler that Python cannot install again
        heeded = [number for number in _ENDING if signal.getsignal(number) not in others]
        with _handling(heeded, defer):
            if keeps_handlers:
                signal.signal = lambda *_, **__: None
            try:
                yield
            finally:
                signal.signal = install
    finally:
        if waiting:
            signal.raise_signal(waiting[0])
