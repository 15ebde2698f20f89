"""Promises of phrasescore.engines: every engine gives the results in order, whatever happens."""

import errno
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from phrasescore.engines import LoadedWork, ThreadPool, open_pool
from phrasescore.engines.processes import ProcessPool
from phrasescore.errors import DataError, ModelError, PhrasescoreError
from phrasescore.settings.compute import Compute, EngineName
from phrasescore.signals import EndedBySignal, ending_on_signals
from tests.children import leashed
from tests.ray_here import run_ray

ENGINES: list[EngineName] = ["here", "processes", "ray"]


class UnreadableError(Exception):
    """Cannot be unpickled: its arguments are two, and what it keeps of them is one."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


@dataclass(frozen=True)
class Double:
    """Doubles numbers; some of them make trouble, once or always."""

    # Where a worker notes that it has died already.
    folder: Path
    load_error: str = ""
    loads: int = 0

    def load(self) -> Callable[[int], int]:
        if self.load_error:
            raise ModelError(self.load_error)
        (self.folder / f"loaded.{os.getpid()}.{threading.get_ident()}").touch()
        return self._double

    def _double(self, number: int) -> int:
        if number == 4:
            raise UnreadableError("two", "arguments")
        if number == 5:
            raise KeyError("a bug")
        if number == 6:
            raise OSError(errno.ENOSPC, "No space left")
        if number == 7:
            raise DataError("table", 7, "seven is bad")
        if number == 8:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 9 and not (self.folder / "died").exists():
            (self.folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.02 if number % 2 else 0)
        return 2 * number


@dataclass(frozen=True)
class HasOpen:
    """Tells whether a worker has a file descriptor."""

    descriptor: int

    def load(self) -> Callable[[None], bool]:
        return lambda _: Path(f"/proc/self/fd/{self.descriptor}").exists()


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Compute]:
    for _ in run_ray() if request.param == "ray" else [None]:
        yield Compute(engine=request.param, workers=2)


@pytest.fixture
def forked(engine: Compute) -> Compute:
    if engine.engine == "here":
        pytest.skip("a thread cannot die alone")
    return engine


def test_results_come_in_the_order_of_the_items(engine: Compute, tmp_path: Path) -> None:
    numbers = list(range(10, 70))
    with open_pool(engine, Double(tmp_path)) as pool:
        assert list(pool.map(numbers)) == [2 * number for number in numbers]
        assert list(pool.map([1, 2])) == [2, 4]
        assert list(pool.map([])) == []
    loads = len(list(tmp_path.glob("loaded.*")))
    assert loads == (2 if engine.engine == "ray" else 1)


def test_an_error_of_the_work_is_that_of_the_whole(engine: Compute, tmp_path: Path) -> None:
    with open_pool(engine, Double(tmp_path)) as pool:
        results = pool.map([1, 2, 7, 3])
        assert [next(results), next(results)] == [2, 4]
        with pytest.raises(DataError, match=r"^table:7: seven is bad$") as caught:
            next(results)
        with pytest.raises(KeyError) as bug:
            list(pool.map([5]))
        with pytest.raises(PhrasescoreError if engine.engine == "ray" else OSError) as full_disk:
            list(pool.map([6]))
    assert (caught.value.path, caught.value.line) == ("table", 7)
    assert type(bug.value) is KeyError
    said = "".join(traceback.format_exception(bug.value))
    assert "in _double" in said
    assert "\033" not in said  # nothing is coloured
    if engine.engine == "ray":  # of several machines, it is that of one
        assert str(full_disk.value) == f"on node {socket.gethostname()}: No space left"


def test_a_work_that_cannot_be_loaded_is_told_on_entering(engine: Compute, tmp_path: Path) -> None:
    # Of a cluster, it is that of a node.
    node = f"on node {socket.gethostname()}: " if engine.engine == "ray" else ""
    with (
        pytest.raises(PhrasescoreError, match=f"^{node}m: no such model$"),
        open_pool(engine, Double(tmp_path, load_error="m: no such model")),
    ):
        pass


def test_a_worker_that_dies_costs_its_piece_alone(forked: Compute, tmp_path: Path) -> None:
    with open_pool(forked, Double(tmp_path)) as pool:
        assert list(pool.map([1, 2, 9, *range(10, 40)])) == [*(2, 4, 18), *range(20, 80, 2)]


def test_an_item_that_ends_every_worker_ends_the_run(forked: Compute, tmp_path: Path) -> None:
    with (
        open_pool(forked, Double(tmp_path)) as pool,
        pytest.raises(PhrasescoreError, match="was there too little memory"),
    ):
        list(pool.map([1, 2, 8, *range(10, 30)]))


def test_an_item_that_ends_every_worker_leaves_the_others_their_restarts(tmp_path: Path) -> None:
    with open_pool(Compute(engine="processes", workers=1), Double(tmp_path)) as pool:
        deadly, other = pool.submit(8), pool.submit(3)
        told: list[object] = []
        for each in (deadly, other):
            each.add_done_callback(told.append)
        with pytest.raises(PhrasescoreError, match="was there too little memory"):
            deadly.result()
        assert (other.result(), other.done()) == (6, True)
        assert pool.submit(11).result() == 22
        assert len(told) >= 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_during_the_fork_waits_for_its_end(number: signal.Signals, tmp_path: Path) -> None:
    sent: list[signal.Signals] = [number]

    def send_once() -> None:  # Python would ignore its exception, and what is locked stays locked.
        for number in sent[:]:
            sent.remove(number)
            signal.raise_signal(number)

    os.register_at_fork(after_in_parent=send_once)
    error = KeyboardInterrupt if number == signal.SIGINT else EndedBySignal
    is_open = False
    pool = open_pool(Compute(engine="processes", workers=1), Double(tmp_path))
    with pytest.raises(error), ending_on_signals(), pool:
        is_open = True
    assert not sent
    assert not is_open


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_worker_leaves_the_signals_of_a_terminal_to_the_command(
    number: signal.Signals, tmp_path: Path
) -> None:
    before = {*multiprocessing.active_children()}  # of earlier tests
    pool = open_pool(Compute(engine="processes", workers=1), Double(tmp_path))
    with ending_on_signals(), pool:
        (worker,) = {*multiprocessing.active_children()} - before
        assert worker.pid is not None
        for _ in range(2):
            os.kill(worker.pid, number)
            time.sleep(0.2)  # one that the signal ends is gone then
        assert list(pool.map([1])) == [2]
        assert {*multiprocessing.active_children()} - before == {worker}


def test_processes_close_what_they_are_told_to(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        engine = Compute(engine="processes", workers=2)
        for closed, kept in ((), True), ((lock.fileno(),), False):
            with ProcessPool(HasOpen(lock.fileno()), engine, closed) as pool:
                assert list(pool.map([None] * 4)) == [kept] * 4


@pytest.mark.parametrize("name", [signal.SIGKILL, signal.SIGINT])
def test_processes_end_with_the_one_that_started_them(name: signal.Signals, tmp_path: Path) -> None:
    code = f"""
import os, time
from pathlib import Path
from phrasescore.engines import open_pool
from phrasescore.settings.compute import Compute
class Noted:
    def load(self):
        return self.note
    def note(self, number):
        Path({str(tmp_path)!r}, str(os.getpid())).touch()
        time.sleep(0.01)
with open_pool(Compute(engine="processes", workers=2), Noted()) as pool:
    for _ in pool.map(range(100_000)):
        pass
"""
    run = subprocess.Popen(
        leashed([sys.executable, "-c", code]),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    if name == signal.SIGINT:
        os.killpg(run.pid, name)  # as a terminal does: the processes get it, too
    else:
        run.kill()
    _, said = run.communicate()
    # Of Ctrl-C the one that was started says that it ended, and no other.
    assert said.count("KeyboardInterrupt") == (name == signal.SIGINT)
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


def test_items_are_read_as_they_are_needed(engine: Compute, tmp_path: Path) -> None:
    read = []

    def numbers() -> Iterator[int]:
        for number in range(100, 1000):
            read.append(number)
            yield number

    with open_pool(engine, Double(tmp_path)) as pool:
        results = pool.map(numbers(), window=6)
        assert next(results) == 200
        assert len(read) == 6
        assert [next(results) for _ in range(10)] == [2 * n for n in range(101, 111)]
        assert len(read) == 16


def test_an_error_that_cannot_be_read_is_no_death(tmp_path: Path) -> None:
    with (
        open_pool(Compute(engine="processes", workers=2), Double(tmp_path)) as pool,
        pytest.raises(RuntimeError, match="UnreadableError: two arguments"),
    ):
        list(pool.map([4]))


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
