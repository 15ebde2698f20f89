"""Promises of the engine ``ray`` about its workers' beginnings, with a Ray of threads."""

import logging
import sys
import time
import types
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from phrasescore.engines import actors, open_pool
from phrasescore.engines.ray_connection import describe
from phrasescore.errors import PhrasescoreError
from phrasescore.settings.compute import Compute


class RayError(Exception):
    """The base of all errors of Ray."""


class DeathError(RayError):
    """What a call ends with whose worker has died."""


class OtherError(RayError):
    """Any other error of Ray."""


@dataclass
class ThreadActor:
    """An actor: a thread that makes the calls one after another."""

    instance: object
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def __getattr__(self, method: str) -> Any:
        def remote(*arguments: Any) -> object:
            call: Future[Any] = self.thread.submit(getattr(self.instance, method), *arguments)
            return types.SimpleNamespace(future=lambda: call)

        return types.SimpleNamespace(remote=remote)


class ThreadRay:
    """A Ray of two CPUs whose actors are threads."""

    exceptions = types.SimpleNamespace(
        RayError=RayError,
        RayActorError=DeathError,
        OutOfMemoryError=DeathError,
        WorkerCrashedError=DeathError,
        RayTaskError=OtherError,
    )

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def remote(self, kind: type) -> object:
        made = types.SimpleNamespace(remote=lambda: ThreadActor(kind()))
        return types.SimpleNamespace(options=lambda **_: made)

    def kill(self, actor: ThreadActor) -> None:
        actor.thread.shutdown(wait=False, cancel_futures=True)


@pytest.fixture(autouse=True)
def ray(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = types.SimpleNamespace(ray=ThreadRay(), close=lambda: None)
    monkeypatch.setattr(actors, "RayConnection", lambda _engine: connection)


@dataclass
class Negate:
    """Negates numbers, after some loads have ended their workers."""

    load_seconds: float = 0.0
    deaths: int = 0
    device: str = "cpu"

    def load(self) -> Callable[[int], int]:
        self.deaths -= 1
        if self.deaths >= 0:
            raise DeathError("the node is gone")
        time.sleep(self.load_seconds)
        return lambda number: -number


def test_loading_may_take_longer_than_the_start_of_a_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(actors, "_START_TIMEOUT", 0.1)
    with open_pool(Compute(engine="ray"), Negate(load_seconds=0.5)) as pool:
        assert list(pool.map([1, 2])) == [-1, -2]


def test_a_worker_that_never_starts_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actors, "_START_TIMEOUT", 0.1)
    monkeypatch.setattr(actors._Actor, "begin", lambda _self: time.sleep(0.5))
    with (
        pytest.raises(PhrasescoreError, match="no worker has started within 0 seconds"),
        open_pool(Compute(engine="ray"), Negate()),
    ):
        pass


@pytest.mark.parametrize("deaths", [1, 2, 3])
def test_workers_that_die_as_they_load_cost_no_run(
    deaths: int, caplog: pytest.LogCaptureFixture
) -> None:
    with open_pool(Compute(engine="ray"), Negate(0.1, deaths)) as pool:
        assert list(pool.map(range(9))) == [-number for number in range(9)]
    said = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    again = "a Ray worker died; starting another one (the node is gone)"
    fewer = "a Ray worker died; 1 of 2 go on"
    assert said == [again] * min(deaths, 2) + [fewer] * (deaths == 3)


def test_a_work_that_ends_all_workers_ends_the_run() -> None:
    with (
        pytest.raises(PhrasescoreError, match=r"too little memory\? \(the node is gone\)$"),
        open_pool(Compute(engine="ray"), Negate(deaths=9)),
    ):
        pass


@pytest.mark.parametrize("workers", [None, 2])
def test_a_ray_without_gpus_is_refused_at_once(workers: int | None) -> None:
    with (
        pytest.raises(PhrasescoreError, match=r"^Ray has no GPU for a worker$"),
        open_pool(Compute(engine="ray", workers=workers), Negate(device="cuda")),
    ):
        pass


def test_a_gpu_counts_where_the_work_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = types.SimpleNamespace(is_available=lambda: True, get_device_name=lambda: "H100")
    torch = types.SimpleNamespace(__version__="2.13", cuda=cuda)
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert "GPU" not in describe()
    assert describe("cuda")["GPU"] == "H100"
