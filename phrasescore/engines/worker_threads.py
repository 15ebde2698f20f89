"""Threads that compute for a generator."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int, start: Callable[[], None]
) -> Iterator[Result]:
    """Yield ``work(item)`` of each item, in their order.

    Items are read in the caller's thread, one more ahead than there are threads.

    :param start: called first in each thread.
    """
    waiting: deque[Future[Result]] = deque()
    with worker_threads(threads, start) as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > threads + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextlib.contextmanager
def worker_threads(count: int, start: Callable[[], None]) -> Iterator[ThreadPoolExecutor]:
    """Yield a thread pool; queued work is cancelled on exit.

    A generator that its reader leaves in the middle is closed wherever the garbage collector runs.
    That may be one of the pool's own threads, which cannot wait for itself: it then ends by itself.

    :param start: called first in each thread.
    """
    pool = ThreadPoolExecutor(count, initializer=start)
    try:
        yield pool
    finally:
        with contextlib.suppress(RuntimeError):  # cannot join current thread
            pool.shutdown(cancel_futures=True)
