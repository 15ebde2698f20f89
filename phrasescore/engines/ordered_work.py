"""Work on items in several processes, with the results in the order of the items."""

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Generic, NamedTuple, Self, TypeVar

from phrasescore.errors import PhrasescoreError

Item = TypeVar("Item")
Result = TypeVar("Result")

# Items queued per process: enough to keep all busy while one item takes long.
_AHEAD = 8
# Seconds between two checks that the parent process is alive.
_CHECK_EVERY = 1.0


class _Failed(NamedTuple):
    """An error that was raised on purpose, as text: not every exception can be sent."""

    message: str


class OrderedProcesses(Generic[Item, Result]):
    """A pool of processes that serves one stream of items after another; a context manager.

    They are forks of this one, made when the first item comes: what ``work`` holds then is shared
    and not copied, and it must not have started threads yet. Results are sent between processes, so
    they must be plain values.

    :param closed: file descriptors that the processes close, such as a lock's.
    """

    def __init__(
        self, work: Callable[[Item], Result], processes: int, closed: Sequence[int] = ()
    ) -> None:
        self._work, self._processes, self._closed = work, processes, closed
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, items: Iterable[Item]) -> Iterator[Result]:
        """Yield ``work(item)`` of each item, in their order; ``processes=1`` starts no process.

        :raises PhrasescoreError: that ``work`` raises, or if a process dies.
        """
        if self._processes == 1:
            yield from map(self._work, items)
            return
        if self._pool is None:
            context = multiprocessing.get_context("fork")
            arguments = (self._work, os.getpid(), self._closed)
            self._pool = ProcessPoolExecutor(self._processes, context, _begin, arguments)
        waiting: deque[Future[Result | _Failed]] = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(_work, item))
                if len(waiting) >= self._processes * _AHEAD:
                    yield _result(waiting.popleft())
            while waiting:
                yield _result(waiting.popleft())
        except BrokenProcessPool as error:
            problem = "a process that was at work has died; was there too little memory?"
            raise PhrasescoreError(f"{problem} (`processes` 1 needs the least)") from error
        finally:
            for future in waiting:
                future.cancel()


def _result(future: "Future[Result | _Failed]") -> Result:
    found = future.result()
    if isinstance(found, _Failed):
        raise PhrasescoreError(found.message)
    return found


# What a forked process does with an item; None in the process that has forked it.
_own_work: Callable[[Any], Any] | None = None


def _begin(work: Callable[[Any], Any], parent: int, closed: Sequence[int]) -> None:
    """Make a forked process ready for items."""
    global _own_work
    for descriptor in closed:
        os.close(descriptor)
    # Ctrl-C is for the process that started this one, which stops it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _own_work = work


def _end_with(parent: int) -> None:
    """End this process when its parent is gone, as after kill -9."""
    while os.getppid() == parent:
        time.sleep(_CHECK_EVERY)
    os._exit(1)


def _work(item: Any) -> Any:
    assert _own_work is not None
    try:
        return _own_work(item)
    except PhrasescoreError as error:
        return _Failed(str(error))
