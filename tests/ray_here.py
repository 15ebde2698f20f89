"""A Ray of two workers for the tests of a module, and the death of a worker."""

import importlib.util
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from phrasescore.settings.compute import Compute


def run_ray() -> Iterator[None]:
    """Run Ray as the engine starts it; starting takes seconds, so a module shares one."""
    if importlib.util.find_spec("ray") is None:  # not imported: it would read its settings too soon
        pytest.skip("Ray is not installed")
    from phrasescore.engines.ray_connection import RayConnection

    connection = RayConnection(Compute(engine="ray", workers=2))
    yield
    connection.close()


def kill_worker() -> None:
    """Kill one of the processes that this one has forked, or one of the actors of its Ray."""
    for child in multiprocessing.active_children():
        child.kill()
        child.join()
        return
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_actor = (path / "cmdline").read_bytes().startswith(b"ray::_Actor")
        except OSError:  # it has ended meanwhile
            continue
        if is_actor and _parent(_parent(int(path.name))) == os.getpid():
            os.kill(int(path.name), signal.SIGKILL)
            return
    raise AssertionError("there is no worker")


def _parent(process: int) -> int:
    status = Path(f"/proc/{process}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])
