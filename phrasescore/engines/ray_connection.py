"""Connect this process to a running Ray, or start one; describe a worker's machine."""

import logging
import os
import platform
import secrets
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

from phrasescore.devices import usable_threads
from phrasescore.errors import PhrasescoreError
from phrasescore.settings.compute import Compute
from phrasescore.signals import deferring_signals
from phrasescore.version import __version__

# Ray's own switch: 0 binds all its servers to 127.0.0.1, on every system.
_NETWORK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_ANSWER = 15.0  # seconds to wait for a connection to an address
_ADDRESS = "RAY_ADDRESS"  # Ray's own variable: the address of a running Ray, or auto
# Instructions by which libraries choose their matrix kernels.
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")


class RayConnection:
    """A connection to the Ray at ``RAY_ADDRESS``, or to one started here."""

    def __init__(self, engine: Compute) -> None:
        address = os.environ.get(_ADDRESS) or None
        self.ray = _import_ray(address)
        self._is_ours = not self.ray.is_initialized()
        # Logs and sockets of the Ray that we have started.
        self._folder: Path | None = None
        if self._is_ours:
            try:
                self._open(engine, address)
            except BaseException:  # Ray may run: a signal waited until it had started
                self.close()
                raise

    def _open(self, engine: Compute, address: str | None) -> None:
        if address is None:
            # "local" ignores a running Ray.
            options: dict[str, Any] = {
                "address": "local",
                "num_cpus": usable_threads(engine.workers),
                "include_dashboard": False,
            }
        else:
            options = {"address": address}
            _check_answer(address)
        try:
            with deferring_signals(keeps_handlers=True):
                context = self.ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
                if address is None:
                    self._folder = Path(context.address_info["session_dir"])
        except Exception as error:  # of any type: Ray starts programs and parses their output
            where = "Ray cannot be started" if address is None else f"Ray at {address}"
            raise PhrasescoreError(f"{where}: {first_line(error)}") from error

    def close(self) -> None:
        """Disconnect, and stop Ray if this process started it."""
        if self._is_ours:
            self.ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _import_ray(address: str | None) -> Any:
    if "ray" not in sys.modules:  # Ray reads these variables when it is imported
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
    """Reject an address where nothing listens immediately; Ray itself would retry for minutes."""
    host, _, port = address.rpartition(":")
    if address == "auto" or address.startswith("ray://"):
        return
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER).close()
    except (OSError, ValueError) as error:
        problem = f"{_ADDRESS}: expected HOST:PORT of a running Ray, found {address!r}: {error}"
        raise PhrasescoreError(problem) from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def describe(device: str = "cpu") -> dict[str, str]:
    """Describe everything that the last bits of results depend on; all workers should be equal.

    :param device: the device on which the work computes; a GPU is described only if it is used.
    """
    properties = {"phrasescore": __version__, "processor": _processor()}
    torch = sys.modules.get("torch")
    if torch is not None:
        properties["torch"] = str(torch.__version__)
        if device.startswith("cuda"):
            properties["GPU"] = torch.cuda.get_device_name()
    return properties


def processor_fields() -> dict[str, str]:
    """Return Linux's description of the first processor; other systems have none."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        return {}
    fields = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in fields}


def _processor() -> str:
    fields = processor_fields()
    flags = fields.get("flags", "").split()
    known = [name for name in _INSTRUCTIONS if name in flags]
    return " ".join(filter(None, [platform.machine(), fields.get("vendor_id"), *known]))
