"""Engines whose workers may die: their unfinished items are computed again."""

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic

from phrasescore.engines import Item, Result, WorkerPool
from phrasescore.errors import PhrasescoreError

_MAX_DEATHS = 3  # maximum number of restarts without a result in between


class Submitted(Generic[Item, Result]):
    """An item of a `RestartingPool`; see `phrasescore.engines.Pending`.

    The death of its worker counts as done, too.
    """

    def __init__(self, pool: "RestartingPool[Item, Result]", item: Item) -> None:
        self.item = item
        self.future: Future[Result]
        self.callbacks: list[Callable[[Any], object]] = []
        self._pool = pool

    def done(self) -> bool:
        """Return whether `result` need not wait, or the worker has died."""
        return self.future.done()

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call ``fn`` in any thread when `done` becomes true, also after each death."""
        self.callbacks.append(fn)
        self.future.add_done_callback(fn)

    def result(self) -> Result:
        """Wait for the result; if a worker has died, resubmit its unfinished items."""
        return self._pool.wait(self)


class RestartingPool(WorkerPool[Item, Result]):
    """Workers that are replaced if they die."""

    def __init__(self) -> None:
        self._unfinished: list[Submitted[Item, Result]] = []
        self._deaths = 0

    @abstractmethod
    def compute(self, item: Item) -> "Future[Result]":
        """Begin to compute an item."""

    @abstractmethod
    def is_death(self, error: BaseException | None) -> bool:
        """Return whether an error means that a worker has died, not that its work has failed."""

    def replace_dead(self) -> None:
        """Replace the workers that have died, if `compute` does not."""

    def submit(self, item: Item) -> Submitted[Item, Result]:
        task = Submitted(self, item)
        self._begin(task)
        self._unfinished.append(task)
        return task

    def _begin(self, task: Submitted[Item, Result]) -> None:
        task.future = self.compute(task.item)
        for callback in task.callbacks:
            task.future.add_done_callback(callback)

    def wait(self, task: Submitted[Item, Result]) -> Result:
        """Return the result of an item, replacing dead workers if necessary."""
        try:
            while self.is_death(error := task.future.exception()):
                self._restart(error)
            result = task.future.result()
        finally:
            self._unfinished.remove(task)
        self._deaths = 0
        return result

    def _restart(self, error: BaseException | None) -> None:
        self._deaths += 1
        if self._deaths > _MAX_DEATHS:
            self._deaths = 0  # other items, which may not be the cause, get as many restarts
            problem = "workers have died repeatedly; was there too little memory? (fewer"
            raise PhrasescoreError(f"{problem} workers need less)") from error
        self.replace_dead()
        for task in self._unfinished:
            if task.future.done() and self.is_death(task.future.exception()):
                self._begin(task)
