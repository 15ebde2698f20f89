"""The interface of all engines: workers that load one work, and compute items in order."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, Protocol, Self, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Context = TypeVar("Context")
_Item = TypeVar("_Item", contravariant=True)
_Result = TypeVar("_Result", covariant=True)


class Work(Protocol[_Item, _Result]):
    """A computation: paths and settings, small enough to be sent to every worker."""

    def load(self) -> Callable[[_Item], _Result]:
        """Load all that the work needs, and return the function from an item to its result.

        Each worker calls it once. The result must depend on the item only. In threads, several
        items are computed at the same time. Workers on other machines load what ``in_folders()``
        returns, if the work has this method: the same work with absolute paths.
        """
        ...


def device_of(work: Work[Any, Any]) -> str:
    """Return the device that a work computes on; the default is the CPU."""
    device: str = getattr(work, "device", "cpu")
    return device


class Pending(Protocol[_Result]):
    """A result that is being computed."""

    def result(self) -> _Result:
        """Wait for the result, or raise the exception of the work."""
        ...


class WorkerPool(ABC, Generic[Item, Result]):
    """The workers of an engine, as a context manager; one thread submits the items.

    :ivar workers: number of items that are computed at the same time.
    :ivar notes: sentences about the workers, to be shown at the end of a run.
    """

    workers: int
    notes: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *error: object) -> None:
        """End the workers; pending work is discarded."""

    @abstractmethod
    def submit(self, item: Item) -> Pending[Result]:
        """Submit an item to a worker; items start in the order of submission."""

    def map(self, items: Iterable[Item], window: int | None = None) -> Iterator[Result]:
        """Yield the result of each item, in the order of the items.

        :param window: limit for the items that have been read and whose results have not been
            taken, which bounds the memory; None for enough to keep all workers busy.
        :raises PhrasescoreError: from the work, or if workers die repeatedly.
        """
        size = window or 2 * self.workers + 1
        submitted = ((None, [self.submit(item)]) for item in items)
        for _, (pending,) in read_ahead(submitted, lambda: size - 1):
            yield pending.result()


def read_ahead(
    parts: Iterable[tuple[Context, Sequence[Pending[Result]]]], limit: Callable[[], int]
) -> Iterator[tuple[Context, Sequence[Pending[Result]]]]:
    """Yield parts in order, each as soon as enough later work is submitted; see `WorkerPool.map`.

    A part without pending results waits only for the parts before it.

    :param parts: anything, with results that are being computed for it.
    :param limit: returns the number of results of later parts that keep all workers busy; called
        after the first result is submitted.
    """
    waiting: deque[tuple[Context, Sequence[Pending[Result]]]] = deque()
    for part in parts:
        waiting.append(part)
        while waiting and (not waiting[0][1] or _num_later(waiting) >= limit()):
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()


def _num_later(parts: Iterable[tuple[object, Sequence[object]]]) -> int:
    return sum(max(1, len(pending)) for _, pending in islice(parts, 1, None))
