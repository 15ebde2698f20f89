"""Promises of tests.benchmarks.capacity, by jobs whose course is known."""

import math
from dataclasses import replace

from tests.benchmarks.capacity import Rates, simulate

EVEN = Rates(
    driver=100_000.0,
    worker=1_000.0,
    piece=1_000,
    line_bytes=100.0,
    load=5.0,
    piece_megabytes=1.0,
    worker_megabytes=1.0,
    uneven=0.0,
    deaths=0.0,
)


def test_one_worker_takes_the_time_of_all_pieces() -> None:
    # 5 s to load, and 1 s for each of 100 pieces, before each of which the driver needs 0.01 s.
    found = simulate(EVEN, 100_000, 1)
    assert math.isclose(found.seconds, 5 + 100 * 1.01)
    assert math.isclose(found.workers_busy, 100 / found.seconds)
    assert found.repeated == 0


def test_even_workers_share_the_work_evenly() -> None:
    found = simulate(EVEN, 1_000_000, 10)
    assert 5 + 100 <= found.seconds <= 5 + 100 * 1.02


def test_the_driver_is_the_limit_of_many_workers() -> None:
    # 100,000 lines a second, whatever the workers could do.
    found = simulate(EVEN, 10_000_000, 1_000)
    assert 100 <= found.seconds <= 100 + 5 + 2
    assert found.driver_busy > 0.9


def test_deaths_cost_pieces_and_not_the_job() -> None:
    calm = simulate(EVEN, 10_000_000, 10)
    found = simulate(replace(EVEN, deaths=36.0), 10_000_000, 10)
    # One death in 100 s of each worker: of 10,000 pieces, about 100 are computed again.
    assert 60 < found.repeated < 140
    assert calm.seconds < found.seconds < 1.1 * calm.seconds
