"""The engine ``ray``: Ray actors on this machine or on a cluster.

Ray places the actors and transports items and results. The order, the window and the handling of
failures are our own: Ray's pool reads all items before it returns the first result, and an actor
that Ray restarts keeps its items, also while there is no room for it.
"""

import contextlib
import logging
import re
import socket
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Self

from phrasescore.devices import memory_problem
from phrasescore.engines import Item, Result, Work, device_of
from phrasescore.engines.ray_connection import RayConnection, describe, first_line
from phrasescore.engines.restarting import RestartingPool, Submitted
from phrasescore.errors import PhrasescoreError, file_problem
from phrasescore.settings.compute import Compute
from phrasescore.version import __version__

_ITEMS_PER_ACTOR = 2  # one is being computed, and one waits
_MAX_LOST = 2  # maximum number of workers that are replaced after they died while loading
_START_TIMEOUT = 120.0  # seconds to wait for the first worker's process
_END_TIMEOUT = 10.0  # seconds to wait for the calls of killed actors to end

_COLOUR = re.compile("\033\\[[0-9;]*m")  # Ray colours the traceback of a worker

_logger = logging.getLogger(__name__)


class _Actor:
    def begin(self) -> None:
        """Do nothing. A successful call shows that the process runs, before it loads the work."""

    def load(self, work: Work[Any, Any]) -> dict[str, str]:
        """Load the work, and describe everything that the last bits of its results may depend on.

        :raises PhrasescoreError: never a subclass, because the problem is local to a node, and the
            run can be resumed on other nodes.
        """
        with _naming_node():
            try:
                self._compute = work.load()
            except PhrasescoreError as error:
                raise _on_node(str(error)) from error
        return describe(device_of(work))

    def compute(self, item: Any) -> Any:
        with _naming_node():
            return self._compute(item)


@contextlib.contextmanager
def _naming_node() -> Iterator[None]:
    """Turn a machine's errors, such as a full disk, into PhrasescoreErrors; let bugs pass."""
    try:
        yield
    except (OSError, MemoryError, RuntimeError) as error:
        problem = file_problem(error) if isinstance(error, OSError) else memory_problem(error)
        if problem is None:
            raise
        raise _on_node(problem) from error


def _on_node(problem: str) -> PhrasescoreError:
    return PhrasescoreError(f"on node {socket.gethostname()}: {problem}")


@dataclass(eq=False)
class _Worker:
    actor: Any
    began: "Future[None]"
    loaded: "Future[dict[str, str]]"
    calls: "list[Future[Any]]"  # that may be unfinished
    is_ready: bool = False  # whether it has loaded the work


class ActorPool(RestartingPool[Item, Result]):
    """Ray actors, each with one CPU or one GPU.

    If an actor dies, another one starts as soon as Ray has room for it. Only the first actors that
    die while loading are replaced: if there is too little memory for all actors, the run continues
    with fewer.
    """

    def __init__(self, work: Work[Item, Result], engine: Compute) -> None:
        super().__init__()
        # The workers may be on other machines.
        self._work = work.in_folders() if hasattr(work, "in_folders") else work
        self._engine = engine
        self.workers = engine.workers or 0
        self._all: list[_Worker] = []
        self._likeness: dict[str, str] | None = None
        self._lost = 0  # number of actors that died while loading

    def __enter__(self) -> Self:
        self._connection = RayConnection(self._engine)
        self._ray = self._connection.ray
        try:
            kind = "GPU" if device_of(self._work).startswith("cuda") else "CPU"
            count = int(self._ray.cluster_resources().get(kind, 0))
            if count == 0:
                raise PhrasescoreError(f"Ray has no {kind} for a worker")
            self.workers = self.workers or count
            # max_restarts=0, because we replace dead workers ourselves.
            options = {"max_restarts": 0, f"num_{kind.lower()}s": 1}
            self._class = self._ray.remote(_Actor).options(**options)
            for _ in range(self.workers):
                self._start_worker()
            self._free_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._all:
            self._ray.kill(worker.actor)
        # Ray's own threads end the calls, which must not happen while Ray or Python shuts down.
        wait([call for worker in self._all for call in (worker.began, *worker.calls)], _END_TIMEOUT)
        self._connection.close()

    def _start_worker(self) -> None:
        actor = self._class.remote()
        began, loaded = actor.begin.remote().future(), actor.load.remote(self._work).future()
        self._all.append(_Worker(actor, began, loaded, [loaded]))

    def compute(self, item: Item) -> "Future[Result]":
        worker = self._free_worker()
        call: Future[Result] = worker.actor.compute.remote(item).future()
        worker.calls.append(call)
        return call

    def wait(self, task: Submitted[Item, Result]) -> Result:
        with self._own_errors("a worker has failed"):
            return super().wait(task)

    def is_death(self, error: BaseException | None) -> bool:
        kinds = self._ray.exceptions
        deaths = kinds.RayActorError | kinds.OutOfMemoryError | kinds.WorkerCrashedError
        return isinstance(error, deaths) and not isinstance(error, kinds.RayTaskError)

    def _free_worker(self) -> _Worker:
        """Wait until a worker has loaded the work and has room for an item."""
        while True:
            for worker in list(self._all):
                self._inspect(worker)
            free = [each for each in self._all if each.is_ready]
            free = [each for each in free if len(each.calls) < _ITEMS_PER_ACTOR]
            if free:
                return min(free, key=lambda worker: len(worker.calls))
            began = wait([each.began for each in self._all], _START_TIMEOUT, FIRST_COMPLETED)
            if not began.done:
                problem = f"no worker has started within {_START_TIMEOUT:.0f} seconds"
                raise PhrasescoreError(f"Ray: {problem}; does it have room for one?")
            wait([call for each in self._all for call in each.calls], None, FIRST_COMPLETED)

    def _inspect(self, worker: _Worker) -> None:
        """Notice that a worker is ready; replace it if it has died, or continue with the others."""
        ended = [call for call in worker.calls if call.done()]
        worker.calls = [call for call in worker.calls if call not in ended]
        error = next(filter(self.is_death, (call.exception() for call in ended)), None)
        if error is None:
            if worker.loaded in ended:
                with self._own_errors("a worker could not start"):
                    self._compare(worker.loaded.result())
                worker.is_ready = True
            return
        self._all.remove(worker)
        self._lost += not worker.is_ready
        if worker.is_ready or self._lost <= _MAX_LOST:
            _logger.warning("a Ray worker died; starting another one (%s)", first_line(error))
            self._start_worker()
        elif self._all:
            _logger.warning("a Ray worker died; %d of %d go on", len(self._all), self.workers)
        else:
            problem = "all workers died while loading; was there too little memory?"
            raise PhrasescoreError(f"Ray: {problem} ({first_line(error)})")

    def _compare(self, likeness: dict[str, str]) -> None:
        one = self._likeness = self._likeness or {**likeness, "phrasescore": __version__}
        differences = "; ".join(
            f"{name} {one[name]} and {likeness.get(name, 'none')}"
            for name in one
            if one[name] != likeness.get(name)
        )
        if differences:
            problem = f"Ray's workers differ: {differences}: the last bits of values may differ"
            raise PhrasescoreError(problem)

    @contextlib.contextmanager
    def _own_errors(self, where: str) -> Iterator[None]:
        """Raise the error that the work raised, or a one-line PhrasescoreError for Ray's errors."""
        try:
            yield
        except self._ray.exceptions.RayError as error:
            cause: BaseException | None = getattr(error, "cause", None)
            if cause is None:
                raise PhrasescoreError(f"Ray: {where}: {first_line(error)}") from None
            if not isinstance(cause, PhrasescoreError):  # a bug: add the worker's traceback
                cause.add_note(_COLOUR.sub("", str(error)))
            raise cause from None
