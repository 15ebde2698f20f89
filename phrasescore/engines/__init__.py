"""Run work in this process, in several, or on Ray; the results come in order.

A `Work` says what to compute. Each worker loads it once, and then computes one item after another.
An engine (`open_pool`) has the workers and distributes the items; it knows nothing about tables,
lists and networks.
"""

import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from phrasescore.settings.compute import Compute

if TYPE_CHECKING:
    from phrasescore.engines.pool import Item, Result, Work, WorkerPool

_POOLS = {
    "here": "phrasescore.engines.threads:ThreadPool",
    "processes": "phrasescore.engines.processes:ProcessPool",
    "ray": "phrasescore.engines.actors:ActorPool",
}


def is_local(engine: Compute) -> bool:
    """Return whether all workers of an engine run on this machine."""
    return engine.engine != "ray"


def local_device(engine: Compute) -> str:
    """Return the device of an engine's workers by name, after checking that it exists here.

    Ray's machines may have a GPU that this one lacks.

    :raises ArgumentError: if the engine cannot use the device, or this machine has no such device.
    """
    from phrasescore.devices import choose_device  # imports torch

    return str(choose_device(engine.device)) if is_local(engine) else engine.device


def callers(engine: Compute) -> int:
    """Return the number of threads that compute at the same time in a process of this engine."""
    from phrasescore.devices import usable_threads

    return usable_threads(engine.workers) if engine.engine == "here" else 1


def open_pool(
    engine: Compute,
    work: "Work[Item, Result]",
    *,
    gpu_threads: int = 1,
    closed: Sequence[int] = (),
) -> "WorkerPool[Item, Result]":
    """Return the workers of an engine, as a context manager.

    :param gpu_threads: number of threads of this process if the work runs on its GPU.
    :param closed: file descriptors that forked processes close, such as a lock's.
    :raises PhrasescoreError: on entering, if the work cannot be loaded or no worker starts.
    """
    from phrasescore.engines.pool import device_of

    if engine.engine == "here" and device_of(work) != "cpu":
        engine = replace(engine, workers=gpu_threads)
    module, _, name = _POOLS[engine.engine].partition(":")
    pool: Any = getattr(importlib.import_module(module), name)
    options = {"closed": closed} if engine.engine == "processes" else {}
    return pool(work, engine, **options)  # type: ignore[no-any-return]
