"""Threads that compute for a generator."""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor


@contextlib.contextmanager
def worker_threads(count: int, start: Callable[[], None]) -> Iterator[ThreadPoolExecutor]:
    """Give threads; what still waits for them is given up at the end.

    A generator that is left in the middle, by an error of who reads it, is closed where the garbage
    collector happens to run. That may be one of its own threads, which cannot wait for itself: it
    ends by itself then.

    :param start: called first in each thread.
    """
    pool = ThreadPoolExecutor(count, initializer=start)
    try:
        yield pool
    finally:
        with contextlib.suppress(RuntimeError):  # cannot join current thread
            pool.shutdown(cancel_futures=True)
