"""The engine ``ray``: Ray actors on this machine or on a cluster.

Ray places the actors and transports items and results. The order, the window and the handling of
failures are our own: Ray's pool reads all items before it returns the first result, and it retries
only on request.
"""

import contextlib
import logging
import queue
import re
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Self

from phrasescore.devices import memory_problem
from phrasescore.engines import Item, Result, Work, WorkerPool, device_of
from phrasescore.engines.ray_connection import RayConnection, describe, first_line
from phrasescore.errors import PhrasescoreError, file_problem
from phrasescore.settings.compute import Compute
from phrasescore.version import __version__

_ITEMS_PER_ACTOR = 2  # one is being computed, and one waits
# Maximum number of workers that may die while computing the same item, and of workers that are
# replaced after dying while loading.
_MAX_DEATHS = 3
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
class _ActorTask(Generic[Item, Result]):
    item: Item
    future: "Future[Result]" = field(default_factory=Future)
    deaths: int = 0  # number of workers that died while computing this item


@dataclass(eq=False)
class _Worker:
    actor: Any
    # Whether its process runs, and whether it has loaded the work.
    is_there: bool = False
    is_ready: bool = False
    tasks: "deque[_ActorTask[Any, Any]]" = field(default_factory=deque)


class ActorPool(WorkerPool[Item, Result]):
    """Ray actors, each with one CPU or one GPU.

    If an actor dies, its items are resubmitted, and another actor starts as soon as Ray has room
    for it. Only the first actors that die while loading are replaced: if there is too little
    memory for all actors, the run continues with fewer.
    """

    def __init__(self, work: Work[Item, Result], engine: Compute) -> None:
        # The workers may be on other machines.
        self._work = work.in_folders() if hasattr(work, "in_folders") else work
        self._engine = engine
        self.workers = engine.workers or 0
        # A thread, which owns all fields below, calls the events one after another.
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._waiting: deque[_ActorTask[Item, Result]] = deque()
        self._all: list[_Worker] = []
        self._likeness: dict[str, str] | None = None
        self._error: BaseException | None = None
        self._first_ready = threading.Event()
        # Number of unfinished calls of actors, and of actors that died while loading.
        self._calls = 0
        self._lost = 0

    def __enter__(self) -> Self:
        self._connection = RayConnection(self._engine)
        self._ray = self._connection.ray
        try:
            kind = "GPU" if device_of(self._work).startswith("cuda") else "CPU"
            count = int(self._ray.cluster_resources().get(kind, 0))
            if count == 0:
                raise PhrasescoreError(f"Ray has no {kind} for a worker")
            self._resources = {f"num_{kind.lower()}s": 1}
            self.workers = self.workers or count
            self._class = self._ray.remote(_Actor)
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
            for _ in range(self.workers):
                self._events.put(self._start_worker)
            self._first_ready.wait()
            if self._error is not None:
                raise self._error
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._events.put(None)
        if hasattr(self, "_thread"):
            self._thread.join()
        self._connection.close()

    def submit(self, item: Item) -> "Future[Result]":
        task: _ActorTask[Item, Result] = _ActorTask(item)
        self._events.put(lambda: self._accept(task))
        return task.future

    # The methods below run in the thread.

    def _run(self) -> None:
        self._handle_events()
        for worker in self._all:
            self._ray.kill(worker.actor)
        # Ray's own threads call us when calls end, which must not happen while Ray or Python shuts
        # down.
        with contextlib.suppress(queue.Empty):
            while self._calls:
                self._events.get(timeout=_END_TIMEOUT)
                self._calls -= 1

    def _handle_events(self) -> None:
        while True:
            has_worker = any(worker.is_there for worker in self._all)
            try:
                event = self._events.get(timeout=None if has_worker else _START_TIMEOUT)
            except queue.Empty:
                problem = f"no worker has started within {_START_TIMEOUT:.0f} seconds"
                self._fail(PhrasescoreError(f"Ray: {problem}; does it have room for one?"))
                continue
            if event is None:
                break
            try:
                event()
            except BaseException as error:  # otherwise the callers would wait forever
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._error = error
        for worker in self._all:
            self._waiting.extend(worker.tasks)
            worker.tasks.clear()
        while self._waiting:
            task = self._waiting.popleft()
            if not task.future.done():
                task.future.set_exception(error)
        self._first_ready.set()

    def _start_worker(self) -> None:
        # max_restarts=0, because we replace dead workers ourselves.
        worker = _Worker(self._class.options(max_restarts=0, **self._resources).remote())
        self._all.append(worker)
        self._when_done(worker.actor.begin.remote(), partial(self._began, worker))
        self._when_done(worker.actor.load.remote(self._work), partial(self._loaded, worker))

    def _when_done(self, reference: Any, then: "Callable[[Future[Any]], None]") -> None:
        self._calls += 1
        reference.future().add_done_callback(
            lambda call: self._events.put(lambda: self._end_call(call, then))
        )

    def _end_call(self, call: "Future[Any]", then: "Callable[[Future[Any]], None]") -> None:
        self._calls -= 1
        then(call)

    def _began(self, worker: _Worker, call: "Future[None]") -> None:
        worker.is_there = call.exception() is None  # the next call reports a death

    def _loaded(self, worker: _Worker, call: "Future[dict[str, str]]") -> None:
        error = call.exception()
        if error is not None:
            if _is_death(self._ray, error):
                self._replace_unloaded(worker, error)
            else:
                self._fail(_cause(error, "a worker could not start"))
            return
        likeness = call.result()
        if self._likeness is None:
            self._likeness = likeness
            if likeness["phrasescore"] != __version__:
                self._compare({"phrasescore": __version__}, likeness)
        elif likeness != self._likeness:
            self._compare(self._likeness, likeness)
        worker.is_ready = True
        self._first_ready.set()
        self._share_out()

    def _replace_unloaded(self, worker: _Worker, error: BaseException) -> None:
        """Replace a worker that died while loading, or continue with the others."""
        self._all.remove(worker)
        self._lost += 1
        if self._lost < _MAX_DEATHS:
            _logger.warning("a Ray worker died while loading; starting another one")
            self._start_worker()
        elif self._all:
            if self._lost == _MAX_DEATHS:
                text = "fewer than %d Ray workers are running: some died while loading"
                _logger.warning(text, self.workers)
        else:
            problem = "all workers died while loading; was there too little memory?"
            self._fail(PhrasescoreError(f"Ray: {problem} ({first_line(error)})"))

    def _compare(self, one: dict[str, str], other: dict[str, str]) -> None:
        differences = "; ".join(
            f"{name} {one[name]} and {other.get(name, 'none')}"
            for name in one
            if one[name] != other.get(name)
        )
        problem = f"Ray's workers differ: {differences}: the last bits of values may differ"
        self._fail(PhrasescoreError(problem))

    def _accept(self, task: _ActorTask[Item, Result]) -> None:
        if self._error is not None:
            task.future.set_exception(self._error)
            return
        self._waiting.append(task)
        self._share_out()

    def _share_out(self) -> None:
        while self._waiting:
            free = [
                each for each in self._all if each.is_ready and len(each.tasks) < _ITEMS_PER_ACTOR
            ]
            if not free:
                return
            worker = min(free, key=lambda worker: len(worker.tasks))
            task = self._waiting.popleft()
            worker.tasks.append(task)
            reference = worker.actor.compute.remote(task.item)
            self._when_done(reference, partial(self._computed, worker, task))

    def _computed(
        self, worker: _Worker, task: _ActorTask[Item, Result], call: "Future[Result]"
    ) -> None:
        error = call.exception()
        if error is not None and _is_death(self._ray, error):
            self._handle_dead_worker(worker, error)
        elif task in worker.tasks:
            worker.tasks.remove(task)
            if error is not None:
                task.future.set_exception(_cause(error, "a worker has failed"))
            else:
                task.future.set_result(call.result())
        self._share_out()

    def _handle_dead_worker(self, worker: _Worker, error: BaseException) -> None:
        """Resubmit the items of a dead worker, and start another one."""
        if worker not in self._all:
            return
        self._all.remove(worker)
        if not worker.tasks:
            return
        current = worker.tasks[0]
        current.deaths += 1
        self._waiting.extendleft(reversed(worker.tasks))
        if current.deaths >= _MAX_DEATHS:
            self._fail(
                PhrasescoreError(
                    f"{_MAX_DEATHS} workers died while computing the same item; was there too "
                    f"little memory? ({first_line(error)})"
                )
            )
            return
        _logger.warning("a Ray worker died; its items are computed again")
        self._start_worker()


def _is_death(ray: Any, error: BaseException) -> bool:
    """Return whether an error means that a worker has died, and not that its work has failed."""
    kinds = ray.exceptions
    return isinstance(
        error, kinds.RayActorError | kinds.OutOfMemoryError | kinds.WorkerCrashedError
    ) and not isinstance(error, kinds.RayTaskError)


def _cause(error: BaseException, where: str) -> BaseException:
    """Return the error that the work raised, or a one-line PhrasescoreError for Ray's errors."""
    cause: BaseException | None = getattr(error, "cause", None)
    if cause is None:
        return PhrasescoreError(f"Ray: {where}: {first_line(error)}")
    if not isinstance(cause, PhrasescoreError):  # a bug: add the worker's traceback
        cause.add_note(_COLOUR.sub("", str(error)))
    return cause
