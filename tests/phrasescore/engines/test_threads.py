"""Promises of phrasescore.engines.threads."""

import threading
from collections.abc import Callable, Iterator

from phrasescore.engines import LoadedWork, ThreadPool
from phrasescore.settings.compute import Compute


def open_threads(count: int) -> "ThreadPool[Callable[[], object], object]":
    return ThreadPool(LoadedWork(lambda item: item()), Compute(workers=count))


def test_a_generator_may_be_closed_by_one_of_its_own_threads() -> None:
    # As the garbage collector does, wherever it happens to run.
    pools: list[ThreadPool[Callable[[], object], object]] = []
    started = threading.Barrier(3, timeout=60)

    def numbers() -> Iterator[int]:
        with open_threads(2) as pool:
            pools.append(pool)
            for _ in range(2):
                pool.submit(started.wait)
            yield 1

    generator = numbers()
    assert next(generator) == 1
    started.wait()
    closing = pools[0].submit(generator.close)  # type: ignore[attr-defined]
    assert closing.exception(timeout=60) is None
    for thread in pools[0]._threads._threads:
        thread.join(60)
        assert not thread.is_alive()


def test_what_waits_is_given_up_at_the_end() -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        goes_on.wait(60)

    with open_threads(1) as pool:
        first, second = pool.submit(work), pool.submit(work)
        begun.wait(60)
        threading.Timer(0.1, goes_on.set).start()
    assert first.done()
    assert second.cancelled()
