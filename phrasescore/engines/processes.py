"""The engine ``processes``: forked copies of this process."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any, Self

from phrasescore.devices import usable_threads
from phrasescore.engines import Item, Result, Work
from phrasescore.engines.restarting import RestartingPool
from phrasescore.settings.compute import Compute
from phrasescore.signals import deferring_signals

_PARENT_CHECK_SECONDS = 1.0  # seconds between two checks that the parent process is alive


class ProcessPool(RestartingPool[Item, Result]):
    """Processes that share the memory of the loaded work with this process.

    They are forked on entering, which must happen before other threads start.
    """

    def __init__(
        self, work: Work[Item, Result], engine: Compute, closed: Iterable[int] = ()
    ) -> None:
        super().__init__()
        self._work, self._closed = work, closed
        self.workers = usable_threads(engine.workers)

    def __enter__(self) -> Self:
        self._compute = self._work.load()
        self._start()
        return self

    def __exit__(self, *error: object) -> None:
        self._processes.shutdown(cancel_futures=True)

    def _start(self) -> None:
        context = multiprocessing.get_context("fork")
        start = partial(_start, self._compute, os.getpid(), self._closed)
        self._processes = ProcessPoolExecutor(self.workers, context, start)
        # If a handler raises during a fork, Python ignores the exception and keeps logging's lock.
        with deferring_signals(), contextlib.suppress(BrokenProcessPool):
            self._processes.submit(os.getpid).result()

    def compute(self, item: Item) -> "Future[Result]":
        try:
            return self._processes.submit(_compute, item)
        except BrokenProcessPool as error:
            future: Future[Result] = Future()
            future.set_exception(error)
            return future

    def is_death(self, error: BaseException | None) -> bool:
        return isinstance(error, BrokenProcessPool)

    def replace_dead(self) -> None:
        self._processes.shutdown()
        self._start()


_computes: list[Callable[[Any], Any]] = []  # the function that a forked process computes


def _start(compute: Callable[[Any], Any], parent: int, closed: Iterable[int]) -> None:
    for descriptor in closed:
        os.close(descriptor)
    # A second Ctrl-C would interrupt; the parent process, which gets it too, stops this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _computes.append(compute)


def _end_with(parent: int) -> None:
    """End this process when its parent has died, as after kill -9."""
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    os._exit(1)


def _compute(item: Any) -> Any:
    try:
        return _computes[-1](item)
    except Exception as error:
        try:
            # An exception that cannot be unpickled would look like the death of this process.
            ForkingPickler.loads(ForkingPickler.dumps(error))
        except Exception:
            raise RuntimeError("".join(traceback.format_exception(error))) from None
        raise
