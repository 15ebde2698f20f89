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
from typing import Any, Generic, Self

from phrasescore.devices import usable_threads
from phrasescore.engines import Item, Result, Work, WorkerPool
from phrasescore.errors import PhrasescoreError
from phrasescore.settings.compute import Compute

_PARENT_CHECK_SECONDS = 1.0  # seconds between two checks that the parent process is alive
_MAX_DEATHS = 3  # maximum number of restarts without a result in between


class _Submitted(Generic[Item, Result]):
    def __init__(self, pool: "ProcessPool[Item, Result]", item: Item) -> None:
        self.item = item
        self.future: Future[Result]
        self.callbacks: list[Callable[[Any], object]] = []
        self._pool = pool

    def done(self) -> bool:
        """See `phrasescore.engines.Pending`; the death of a process counts, too."""
        return self.future.done()

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        self.callbacks.append(fn)
        self.future.add_done_callback(fn)

    def result(self) -> Result:
        """Wait for the result; if a process has died, resubmit the unfinished work."""
        return self._pool.wait(self)


class ProcessPool(WorkerPool[Item, Result]):
    """Processes that share the memory of the loaded work with this process.

    They are forked on entering, which must happen before other threads start. If a process dies,
    the unfinished items are computed again.
    """

    def __init__(
        self, work: Work[Item, Result], engine: Compute, closed: Iterable[int] = ()
    ) -> None:
        self._work, self._closed = work, closed
        self.workers = usable_threads(engine.workers)
        self._unfinished: list[_Submitted[Item, Result]] = []
        self._deaths = 0

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
        with contextlib.suppress(BrokenProcessPool):
            self._processes.submit(os.getpid).result()

    def submit(self, item: Item) -> _Submitted[Item, Result]:
        task = _Submitted(self, item)
        self._unfinished.append(task)
        self._begin(task)
        return task

    def _begin(self, task: _Submitted[Item, Result]) -> None:
        try:
            task.future = self._processes.submit(_compute, task.item)
        except BrokenProcessPool as error:
            task.future = Future()
            task.future.set_exception(error)
        for callback in task.callbacks:
            task.future.add_done_callback(callback)

    def wait(self, task: _Submitted[Item, Result]) -> Result:
        """Return the result of a task, restarting the processes if necessary."""
        while True:
            try:
                try:
                    result = task.future.result()
                except BrokenProcessPool as error:
                    self._restart(error)
                    continue
            except BaseException:
                self._unfinished.remove(task)
                raise
            self._deaths = 0
            self._unfinished.remove(task)
            return result

    def _restart(self, error: Exception) -> None:
        self._deaths += 1
        if self._deaths > _MAX_DEATHS:
            self._deaths = 0  # other items, which may not be the cause, get as many restarts
            problem = "worker processes have died repeatedly; was there too little memory? (fewer"
            raise PhrasescoreError(f"{problem} processes need less)") from error
        self._processes.shutdown()
        self._start()
        for task in self._unfinished:
            if not task.future.done() or isinstance(task.future.exception(), BrokenProcessPool):
                self._begin(task)


_computes: list[Callable[[Any], Any]] = []  # the function that a forked process computes


def _start(compute: Callable[[Any], Any], parent: int, closed: Iterable[int]) -> None:
    for descriptor in closed:
        os.close(descriptor)
    # Ctrl-C is handled by the parent process, which stops this one.
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
