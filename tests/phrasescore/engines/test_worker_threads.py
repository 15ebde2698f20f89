"""Promises of phrasescore.engines.worker_threads."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from phrasescore.engines.worker_threads import map_in_threads, worker_threads


def test_a_generator_may_be_closed_by_one_of_its_own_threads() -> None:
    # As the garbage collector does, wherever it happens to run.
    pools: list[ThreadPoolExecutor] = []
    started = threading.Barrier(3, timeout=60)

    def numbers() -> Iterator[int]:
        with worker_threads(2, lambda: None) as pool:
            pools.append(pool)
            for _ in range(2):
                pool.submit(started.wait)
            yield 1

    generator = numbers()
    assert next(generator) == 1
    started.wait()
    closing = pools[0].submit(generator.close)  # type: ignore[attr-defined]
    assert closing.exception(timeout=60) is None
    for thread in pools[0]._threads:
        thread.join(60)
        assert not thread.is_alive()


def test_what_waits_is_given_up_at_the_end() -> None:
    begun, goes_on = threading.Event(), threading.Event()
    with worker_threads(1, lambda: None) as pool:

        def work() -> None:
            begun.set()
            goes_on.wait(60)

        first, second = pool.submit(work), pool.submit(work)
        begun.wait(60)
        threading.Timer(0.1, goes_on.set).start()
    assert first.done()
    assert second.cancelled()


def test_results_come_in_order_and_items_are_read_one_more_ahead_than_threads() -> None:
    read: list[int] = []

    def items() -> Iterator[int]:
        for number in range(20):
            read.append(number)
            yield number

    results = map_in_threads(lambda number: -number, items(), 2, lambda: None)
    assert next(results) == 0
    assert len(read) == 4
    assert list(results) == list(range(-1, -20, -1))
