"""Run work in this process, in several, or on Ray; the results come in order.

A `Work` says what to compute. Each worker loads it once, and then computes one item after another.
An engine (`open_pool`) has the workers and distributes the items; it knows nothing about tables,
lists and networks.
"""

import importlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from phrasescore.arguments import check_at_least, check_choice
from phrasescore.errors import ArgumentError

if TYPE_CHECKING:
    from phrasescore.engines.pool import Item, Result, Work, WorkerPool

EngineName = Literal["here", "processes", "ray"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)


@dataclass(frozen=True)
class EngineSettings:
    """An engine, and how much of it to use."""

    name: EngineName = "here"
    # Number of threads (here), processes, or Ray actors; None for one per core, or per GPU of Ray.
    workers: int | None = None
    # HOST:PORT of a running Ray, or "auto"; None starts a Ray on this machine.
    ray_address: str | None = None
    # Whether workers may differ in processor or torch version, which affects last bits.
    allow_unlike: bool = False

    def __post_init__(self) -> None:
        check_choice(ENGINES, engine=self.name)
        check_at_least(1, workers=self.workers)
        if self.name != "ray" and (self.ray_address is not None or self.allow_unlike):
            raise ArgumentError("--ray-address and --allow-unlike are for the engine ray")


def engine_or_here(engine: EngineSettings | None, threads: int | None) -> EngineSettings:
    """Return the engine, by default threads of this process.

    :param threads: another name for the number of workers of the engine here; None if not set.
    """
    engine = engine or EngineSettings()
    if threads is None:
        return engine
    if engine.name != "here":
        raise ArgumentError(f"--threads is for the engine here; use --workers for {engine.name}")
    if engine.workers is not None:
        raise ArgumentError("--threads and --workers are the same setting of the engine here")
    return replace(engine, workers=threads)


def device_on(engine: EngineSettings, device: str) -> str:
    """Return the device of an engine's workers; ``auto`` is the CPU, except in the engine here."""
    if engine.name == "here":
        return device
    if engine.name == "ray" and device.startswith("cuda:"):
        raise ArgumentError(f"--device {device}: Ray gives each worker a GPU; say cuda")
    if engine.name == "processes" and device.startswith("cuda"):
        raise ArgumentError("--device cuda: forked processes cannot use a GPU; here and ray can")
    return "cpu" if device == "auto" else device


def local_device(engine: EngineSettings, device: str) -> str:
    """Return the device of an engine's workers by name, after checking that it is here.

    Ray's machines may have a GPU that this one lacks.

    :raises ArgumentError: if the engine cannot use the device, or this machine has no such device.
    """
    from phrasescore.devices import choose_device  # imports torch

    wanted = device_on(engine, device)
    return wanted if engine.name == "ray" else str(choose_device(wanted))


def callers(engine: EngineSettings) -> int:
    """Return how many threads of a process of this engine compute at the same time."""
    from phrasescore.devices import usable_threads

    return usable_threads(engine.workers) if engine.name == "here" else 1


_POOLS = {
    "here": "phrasescore.engines.threads:ThreadPool",
    "processes": "phrasescore.engines.processes:ProcessPool",
    "ray": "phrasescore.engines.actors:ActorPool",
}


def open_pool(engine: EngineSettings, work: "Work[Item, Result]") -> "WorkerPool[Item, Result]":
    """Return the workers of an engine, as a context manager.

    :raises PhrasescoreError: on entering, if the work cannot be loaded or no worker starts.
    """
    module, _, name = _POOLS[engine.name].partition(":")
    pool: Any = getattr(importlib.import_module(module), name)
    return pool(work, engine)  # type: ignore[no-any-return]
