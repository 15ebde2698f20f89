"""What all engines have in common: workers that load one work, and compute items in order."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, Self, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
_Item = TypeVar("_Item", contravariant=True)
_Result = TypeVar("_Result", covariant=True)


class Work(Protocol[_Item, _Result]):
    """Says what to compute: paths and settings, small enough to be sent to every worker."""

    def load(self) -> Callable[[_Item], _Result]:
        """Load all that the work needs, and return what computes the result of an item.

        It is called once in each worker. Equal items have equal results, whichever worker
        computes them; with threads, several compute at the same time.
        """
        ...


def device_of(work: Work[Any, Any]) -> str:
    """Return where a work computes: on the CPU, unless it says so."""
    device: str = getattr(work, "device", "cpu")
    return device


class Pending(Protocol[_Result]):
    """A result that is being computed."""

    def result(self) -> _Result:
        """Wait for the result, or raise what the work has raised."""
        ...


class WorkerPool(ABC, Generic[Item, Result]):
    """The workers of an engine, a context manager; one thread submits the items.

    :ivar workers: how many items are computed at the same time.
    :ivar notes: sentences about the workers, for the end of a run.
    """

    workers: int
    notes: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *error: object) -> None:
        """End the workers; what is not computed yet is given up."""

    @abstractmethod
    def submit(self, item: Item) -> Pending[Result]:
        """Let a worker compute an item; items begin in the order in which they are submitted."""

    def map(self, items: Iterable[Item], window: int | None = None) -> Iterator[Result]:
        """Yield the result of each item, in the order of the items.

        :param window: items that are read and whose results have not been taken, at the most; None
            for enough to keep all workers busy. It bounds the memory.
        :raises PhrasescoreError: that the work raises, or if workers die again and again.
        """
        size = window or 2 * self.workers + 1
        waiting: deque[Pending[Result]] = deque()
        for item in items:
            waiting.append(self.submit(item))
            if len(waiting) >= size:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
