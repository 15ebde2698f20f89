"""Run work in this process, in several processes, or on Ray; the results come in order.

A `Work` says what to compute. Each worker loads it once, and then computes one item after another.
An engine (`open_pool`) has the workers and distributes the items; it knows nothing about tables,
lists and networks.
"""

import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, Protocol, Self, TypeVar

from phrasescore.devices import choose_device, usable_threads
from phrasescore.settings.compute import Compute

Item = TypeVar("Item")
Result = TypeVar("Result")
Context = TypeVar("Context")
_Item = TypeVar("_Item", contravariant=True)
_Result = TypeVar("_Result", covariant=True)


class Work(Protocol[_Item, _Result]):
    """A computation, described by paths and settings that can be sent to every worker."""

    def load(self) -> Callable[[_Item], _Result]:
        """Load everything the work needs, and return a function that maps an item to its result.

        Each worker calls it once. The result must depend only on the item. Threads compute several
        items at the same time. The engine ``here`` calls the function's method ``close()`` at the
        end, if it has one. If the work has a method ``in_folders()``, which returns a copy with
        absolute paths, workers on other machines load this copy.
        """
        ...


@dataclass(frozen=True)
class LoadedWork(Generic[Item, Result]):
    """Work that is already loaded; for threads and forked processes."""

    compute: Callable[[Item], Result]

    def load(self) -> Callable[[Item], Result]:
        """Return the function that computes an item."""
        return self.compute


class Pending(Protocol[_Result]):
    """A result that is being computed."""

    def result(self) -> _Result:
        """Wait for the result, or raise the exception of the work."""
        ...

    def done(self) -> bool:
        """Return whether `result` need not wait."""
        ...

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call ``fn`` in any thread when `done` becomes true, which may happen repeatedly."""
        ...


class WorkerPool(ABC, Generic[Item, Result]):
    """The workers of an engine, as a context manager; one thread at a time uses it.

    :ivar workers: number of items that are computed at the same time.
    """

    workers: int

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

        :param window: maximum number of items that have been read and whose results have not been
            taken, which bounds the memory; None for as many as keep all workers busy.
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

    :param parts: pairs of any context and the pending results that belong to it.
    :param limit: returns how many results of later parts keep all workers busy; it is called after
        the first result is submitted.
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


class ThreadPool(WorkerPool[Item, Result]):
    """The engine ``here``: threads that share the loaded work."""

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
        if (close := getattr(self._compute, "close", None)) is not None:
            close()

    def submit(self, item: Item) -> Future[Result]:
        return self._threads.submit(self._compute, item)


def open_pool(
    engine: Compute, work: Work[Item, Result], *, gpu_threads: int = 1, closed: Iterable[int] = ()
) -> WorkerPool[Item, Result]:
    """Return the workers for an engine, as a context manager.

    :param gpu_threads: number of threads in this process if the work runs on its GPU.
    :param closed: file descriptors that forked processes close, such as a lock's.
    :raises PhrasescoreError: on entering, if the work cannot be loaded or no worker starts.
    """
    if engine.engine == "here":
        on_cpu = device_of(work) == "cpu"
        return ThreadPool(work, engine if on_cpu else replace(engine, workers=gpu_threads))
    if engine.engine == "processes":
        from phrasescore.engines.processes import ProcessPool

        return ProcessPool(work, engine, closed)
    from phrasescore.engines.actors import ActorPool

    return ActorPool(work, engine)


def local_device(engine: Compute) -> str:
    """Return the device of an engine's workers, after checking that it exists (not for Ray)."""
    return engine.device if engine.engine == "ray" else str(choose_device(engine.device))


def callers(engine: Compute) -> int:
    """Return the number of threads that compute at the same time in each process of an engine."""
    return usable_threads(engine.workers) if engine.engine == "here" else 1


def device_of(work: Work[Any, Any]) -> str:
    """Return the device on which ``work`` computes; the default is the CPU."""
    device: str = getattr(work, "device", "cpu")
    return device
