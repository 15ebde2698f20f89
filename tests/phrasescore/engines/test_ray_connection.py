"""Promises of the connection with a Ray: which one it is, what it refuses, what it leaves."""

import signal
import sys
import time
import types
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from phrasescore.devices import usable_threads
from phrasescore.engines.ray_connection import RayConnection
from phrasescore.errors import PhrasescoreError
from phrasescore.settings.compute import Compute
from phrasescore.signals import EndedBySignal, ending_on_signals


class FakeRay(types.ModuleType):
    """Takes the arguments of ``ray.init``, and makes the folder that a Ray of one's own has."""

    def __init__(self, folder: Path) -> None:
        super().__init__("ray")
        self.folder = folder
        self.arguments: dict[str, Any] = {}
        self.error: Exception | None = None
        # A signal that comes while it starts, and whether SIGHUP is ignored meanwhile.
        self.signal: int | None = None
        self.ignored = False

    def is_initialized(self) -> bool:
        return bool(self.arguments)

    def init(self, **arguments: Any) -> object:
        if self.error is not None:
            raise self.error
        if self.signal is not None:
            signal.raise_signal(self.signal)
        self.ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        self.arguments = arguments
        # As Ray does.
        signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(number))
        self.folder.mkdir(parents=True)
        (self.folder / "log").touch()
        return types.SimpleNamespace(address_info={"session_dir": str(self.folder)})

    def shutdown(self) -> None:
        assert not self.arguments or self.folder.exists()
        self.arguments = {}


@pytest.fixture
def ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRay]:
    fake = FakeRay(tmp_path / "ray" / "session_1")
    monkeypatch.setitem(sys.modules, "ray", fake)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield fake
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_ray_of_our_own_is_started_and_leaves_no_folder(ray: FakeRay) -> None:
    neighbour = ray.folder.with_name("session_0")
    neighbour.mkdir(parents=True)
    connection = RayConnection(Compute(engine="ray"))
    # By default Ray connects to one that runs, and counts cores that this process may not use.
    assert ray.arguments["address"] == "local"
    assert ray.arguments["num_cpus"] == usable_threads(None)
    connection.close()
    assert neighbour.exists()
    assert not ray.folder.exists()


def test_a_ray_that_was_there_is_left_as_it_is(ray: FakeRay) -> None:
    ray.init(address="auto")
    RayConnection(Compute(engine="ray")).close()
    assert ray.is_initialized()
    assert ray.folder.exists()


def test_a_ray_that_cannot_be_started_is_told_in_a_line(ray: FakeRay) -> None:
    ray.error = OSError("AF_UNIX path is too long\nand more")
    with pytest.raises(PhrasescoreError) as caught:
        RayConnection(Compute(engine="ray"))
    assert str(caught.value) == "Ray cannot be started: AF_UNIX path is too long"


def test_a_running_ray_is_used_at_its_address(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    RayConnection(Compute(engine="ray")).close()
    assert ray.folder.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_until_ray_has_started_and_then_stops_it(ray: FakeRay, number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    ray.signal = number
    with pytest.raises(EndedBySignal), ending_on_signals():
        RayConnection(Compute(engine="ray"))
    assert ray.folder.parent.exists()
    assert not ray.is_initialized()
    assert list(ray.folder.parent.iterdir()) == []


def test_ray_ignores_what_nohup_ignores(ray: FakeRay) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    RayConnection(Compute(engine="ray")).close()
    assert ray.ignored


@pytest.mark.usefixtures("ray")
def test_ray_does_not_replace_our_handlers_of_signals() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with closing(RayConnection(Compute(engine="ray"))):
        assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere"])
def test_an_address_where_no_ray_listens_is_refused_at_once(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    begin = time.monotonic()
    with pytest.raises(PhrasescoreError, match="RAY_ADDRESS: expected HOST:PORT of a running Ray"):
        RayConnection(Compute(engine="ray"))
    assert time.monotonic() - begin < 30
