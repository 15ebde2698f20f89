"""The engine ``here``: threads of this process."""

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Self

from phrasescore.devices import usable_threads
from phrasescore.engines import EngineSettings
from phrasescore.engines.pool import Item, Result, Work, WorkerPool


@dataclass(frozen=True)
class LoadedWork(Generic[Item, Result]):
    """A work that is loaded already; for threads alone."""

    compute: Callable[[Item], Result]

    def load(self) -> Callable[[Item], Result]:
        """Return what computes the result of an item."""
        return self.compute


class ThreadPool(WorkerPool[Item, Result]):
    """Threads that share what the work has loaded."""

    def __init__(self, work: Work[Item, Result], engine: EngineSettings) -> None:
        self._work = work
        self.workers = usable_threads(engine.workers)

    def __enter__(self) -> Self:
        self._compute = self._work.load()
        self._threads = ThreadPoolExecutor(self.workers)
        return self

    def __exit__(self, *error: object) -> None:
        # A generator that its reader leaves in the middle is closed wherever the garbage collector
        # runs. That may be one of these threads, which cannot wait for itself.
        with contextlib.suppress(RuntimeError):  # cannot join current thread
            self._threads.shutdown(cancel_futures=True)

    def submit(self, item: Item) -> Future[Result]:
        """Let a thread compute an item."""
        return self._threads.submit(self._compute, item)
