"""Run work in this process, in several, or on Ray; the results come in order.

A `Work` says what to compute. Each worker loads it once, and then computes one item after another.
An engine (`open_pool`) has the workers and distributes the items; it knows nothing about tables,
lists and networks.
"""

import importlib
from typing import TYPE_CHECKING, Any

from phrasescore.settings.compute import Compute

if TYPE_CHECKING:
    from phrasescore.engines.pool import Item, Result, Work, WorkerPool

_POOLS = {
    "here": "phrasescore.engines.threads:ThreadPool",
    "processes": "phrasescore.engines.processes:ProcessPool",
    "ray": "phrasescore.engines.actors:ActorPool",
}


def local_device(engine: Compute) -> str:
    """Return the device of an engine's workers by name, after checking that it exists here.

    Ray's machines may have a GPU that this one lacks.

    :raises ArgumentError: if the engine cannot use the device, or this machine has no such device.
    """
    from phrasescore.devices import choose_device  # imports torch

    return engine.device if engine.engine == "ray" else str(choose_device(engine.device))


def callers(engine: Compute) -> int:
    """Return the number of threads that compute at the same time in a process of this engine."""
    from phrasescore.devices import usable_threads

    return usable_threads(engine.workers) if engine.engine == "here" else 1


def open_pool(engine: Compute, work: "Work[Item, Result]") -> "WorkerPool[Item, Result]":
    """Return the workers of an engine, as a context manager.

    :raises PhrasescoreError: on entering, if the work cannot be loaded or no worker starts.
    """
    module, _, name = _POOLS[engine.engine].partition(":")
    pool: Any = getattr(importlib.import_module(module), name)
    return pool(work, engine)  # type: ignore[no-any-return]
