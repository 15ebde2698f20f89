"""Threads that compute for a generator."""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor


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
