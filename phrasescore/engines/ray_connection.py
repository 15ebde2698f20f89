"""The connection of this process with a Ray: one that runs, or one that is started for it."""

import contextlib
import logging
import os
import secrets
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

from phrasescore.devices import usable_threads
from phrasescore.engines import EngineSettings
from phrasescore.errors import PhrasescoreError
from phrasescore.signals import deferring_signals

# Ray's own switch: 0 binds all that it starts to 127.0.0.1, on every system.
_NETWORK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
# Seconds for the first answer of an address.
_ANSWER = 15.0


class RayConnection:
    """Ray, connected.

    :param engine: its address of a Ray; without one a Ray is started on this machine alone.
    :ivar ray: the module.
    :raises PhrasescoreError: if Ray is not installed, not at the address, or cannot be started.
    """

    def __init__(self, engine: EngineSettings) -> None:
        self.ray = _import_ray(engine.ray_address)
        self._is_ours = not self.ray.is_initialized()
        # Of the Ray that we have started: its logs and sockets.
        self._folder: Path | None = None
        if self._is_ours:
            self._open(engine)

    def _open(self, engine: EngineSettings) -> None:
        address = engine.ray_address
        if address is None:
            # "local" does not go to a Ray that runs already, nor by RAY_ADDRESS.
            place: dict[str, Any] = {
                "address": "local",
                "num_cpus": usable_threads(engine.workers),
                "include_dashboard": False,
            }
        else:
            place = {"address": address}
            _check_answer(address)
        try:
            with deferring_signals():
                context = self.ray.init(**place, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # of every kind: Ray starts programs, and reads their output
            where = "Ray cannot be started" if address is None else f"Ray at {address}"
            raise PhrasescoreError(f"{where}: {first_line(error)}") from error
        if address is None:
            self._folder = Path(context.address_info["session_dir"])

    def close(self) -> None:
        """Leave the Ray, and end it where we have started it."""
        if self._is_ours:
            self.ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            latest = self._folder.with_name("session_latest")
            with contextlib.suppress(OSError):  # there is none
                if os.readlink(latest) == str(self._folder):
                    latest.unlink()


def _import_ray(address: str | None) -> Any:
    if "ray" not in sys.modules:  # it reads these when it is imported
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address is None:
            os.environ.setdefault(_NETWORK, "0")
            if os.environ.setdefault("RAY_AUTH_MODE", "token") == "token":
                os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
    except ImportError as error:
        problem = "the engine ray needs Ray: pip install 'phrasescore[cluster]'"
        raise PhrasescoreError(problem) from error
    return ray


def _check_answer(address: str) -> None:
    """Refuse at once an address where nothing listens: Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    if address == "auto" or address.startswith("ray://"):
        return
    problem = f"--ray-address: expected HOST:PORT of a running Ray, found {address!r}"
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER).close()
    except (OSError, ValueError) as error:
        raise PhrasescoreError(f"{problem}: {error}") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or what kind it is of."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
