"""Promises of engines.ordered_work: results in order, errors passed on, no process left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from phrasescore.engines.ordered_work import OrderedProcesses
from phrasescore.errors import PhrasescoreError


def double(number: int) -> int:
    if number == 7:
        raise PhrasescoreError("seven is bad")
    if number == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02 if number % 2 else 0)
    return 2 * number


def in_order(work: Callable[[int], int], items: Iterable[int], processes: int) -> Iterator[int]:
    with OrderedProcesses(work, processes) as pool:
        yield from pool.map(items)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(processes: int) -> None:
    numbers = [number for number in range(60) if number not in (7, 8)]
    assert list(in_order(double, numbers, processes)) == [2 * number for number in numbers]


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_of_the_work_is_that_of_the_whole(processes: int) -> None:
    with pytest.raises(PhrasescoreError, match=r"^seven is bad$"):
        list(in_order(double, [1, 2, 7, 3], processes))


def test_a_process_that_is_killed_is_told() -> None:
    with pytest.raises(PhrasescoreError, match="a process that was at work has died"):
        list(in_order(double, [1, 2, 8, 3], 2))


def test_items_are_read_as_they_are_needed() -> None:
    read = []

    def numbers() -> Iterator[int]:
        for number in range(100, 1000):
            read.append(number)
            yield number

    results = in_order(double, numbers(), 2)
    assert next(results) == 200
    assert len(read) < 30
    results.close()  # type: ignore[attr-defined]


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    code = f"""
import os, time
from phrasescore.engines.ordered_work import OrderedProcesses
def work(number):
    open(os.path.join({str(tmp_path)!r}, str(os.getpid())), "w").close()
    time.sleep(0.01)
    return number
with OrderedProcesses(work, 2) as pool:
    for _ in pool.map(range(100_000)):
        pass
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    until = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    process.kill()
    process.wait()
    children = [int(path.name) for path in tmp_path.iterdir()]
    assert len(children) == 2
    while any(map(_is_alive, children)):
        assert time.monotonic() < until, "they are still there"
        time.sleep(0.05)


def _is_alive(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
