"""The engine ``here``: threads of this process."""

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Self

from phrasescore.devices import usable_threads
from phrasescore.engines.pool import Item, Result, Work, WorkerPool
from phrasescore.settings.compute import Compute


@dataclass(frozen=True)
class LoadedWork(Generic[Item, Result]):
    """A work that is already loaded; for threads only."""

    compute: Callable[[Item], Result]

    def load(self) -> Callable[[Item], Result]:
        """Return the function that computes an item."""
        return self.compute


class ThreadPool(WorkerPool[Item, Result]):
    """Threads that share what the work has loaded."""

    def __init__(self, work: Work[Item, Result], engine: Compute) -> None:
        self._work = work
        self.workers = usable_threads(engine.workers)

    def __enter__(self) -> Self:
        self._compute = self._work.load()
        self._threads = ThreadPoolExecutor(self.workers)
        return self

    def __exit__(self, *error: object) -> None:
        # The garbage collector closes an abandoned generator in any thread. If it is one of these
        # threads, it cannot join itself.
        with contextlib.suppress(RuntimeError):  # cannot join current thread
            self._threads.shutdown(cancel_futures=True)

    def submit(self, item: Item) -> Future[Result]:
        """Submit an item to a thread."""
        return self._threads.submit(self._compute, item)
