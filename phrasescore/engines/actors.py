"""The engine ``ray``: actors of Ray, on this machine or on a cluster.

Ray places the actors and carries items and results. Order, window and faults are ours: Ray's own
pool reads all items before it gives the first result, and its retries are off unless asked for.
"""

import logging
import os
import platform
import queue
import secrets
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Self

from phrasescore.engines import EngineSettings
from phrasescore.engines.pool import Item, Result, Work, WorkerPool
from phrasescore.errors import PhrasescoreError
from phrasescore.version import __version__

# Items that an actor has at a time: one at work, and one that is there when it is done.
_AT_A_TIME = 2
# Workers that an item may outlive.
_DEATHS = 3
# Seconds without any worker after which we give up, and those for a first answer of an address.
_PATIENCE = 120.0
_ANSWER = 5.0
# Ray's own switch: 0 binds all that it starts to 127.0.0.1, on every system.
_NETWORK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"

# Instructions by which the libraries of matrix products choose their kernels.
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")

_logger = logging.getLogger(__name__)


class _Actor:
    """A worker; Ray runs it in a process of its own."""

    def load(self, work: Work[Any, Any]) -> dict[str, str]:
        """Load the work, and return what the last bits of its results may depend on.

        :raises PhrasescoreError: and nothing more special, for it is about a node, and a run with
            others can go on.
        """
        try:
            self._compute = work.load()
        except PhrasescoreError as error:
            raise PhrasescoreError(f"on node {socket.gethostname()}: {error}") from error
        return describe()

    def compute(self, item: Any) -> Any:
        return self._compute(item)


def describe() -> dict[str, str]:
    """Return what results may depend on beside the work: two workers should not differ in it."""
    found = {"phrasescore": __version__, "processor": _processor()}
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = str(torch.__version__)
        if torch.cuda.is_available():
            found["GPU"] = torch.cuda.get_device_name()
    return found


def _processor() -> str:
    """Return what decides the last bits of a product: the maker, and the vector instructions."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:  # not on every system
        return platform.machine()
    found = dict(line.split(":", 1) for line in text.replace("\t", "").splitlines())
    flags = found.get("flags", "").split()
    known = [name for name in _INSTRUCTIONS if name in flags]
    return " ".join([platform.machine(), found.get("vendor_id", "").strip(), *known])


@dataclass(eq=False)
class _Piece(Generic[Item, Result]):
    item: Item
    future: "Future[Result]" = field(default_factory=Future)
    # Workers that died while this was the item at work.
    deaths: int = 0


@dataclass(eq=False)
class _Worker:
    actor: Any
    node: str = ""
    is_ready: bool = False
    tasks: "deque[_Piece[Any, Any]]" = field(default_factory=deque)


class ActorPool(WorkerPool[Item, Result]):
    """Actors of Ray, each with one CPU, or one GPU.

    An actor that dies costs its items, which others compute again; another actor is started in its
    place as soon as Ray has room for it.
    """

    def __init__(self, work: Work[Item, Result], engine: EngineSettings) -> None:
        self._work, self._engine = work, engine
        self.workers = engine.workers or 0
        # Called one after another by the thread that alone touches what follows.
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._waiting: deque[_Piece[Item, Result]] = deque()
        self._all: list[_Worker] = []
        self._likeness: dict[str, str] | None = None
        self._error: BaseException | None = None
        self._first_ready = threading.Event()

    def __enter__(self) -> Self:
        self._ray, self._is_ours = _connect(self._engine)
        try:
            resources = self._ray.cluster_resources()
            kind = "GPU" if getattr(self._work, "device", "cpu").startswith("cuda") else "CPU"
            self._resources = {f"num_{kind.lower()}s": 1}
            self.workers = self.workers or int(resources.get(kind, 0))
            if self.workers == 0:
                raise PhrasescoreError(f"Ray has no {kind} for a worker")
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
        for worker in self._all:
            self._ray.kill(worker.actor)
        if self._is_ours:
            self._ray.shutdown()

    def submit(self, item: Item) -> "Future[Result]":
        """Let an actor compute an item."""
        task: _Piece[Item, Result] = _Piece(item)
        self._events.put(lambda: self._accept(task))
        return task.future

    # In the thread

    def _run(self) -> None:
        while True:
            has_worker = any(worker.is_ready for worker in self._all)
            try:
                event = self._events.get(timeout=None if has_worker else _PATIENCE)
            except queue.Empty:
                problem = f"no worker has started within {_PATIENCE:.0f} seconds"
                self._fail(PhrasescoreError(f"Ray: {problem}; has it room for one?"))
                continue
            if event is None:
                break
            try:
                event()
            except BaseException as error:  # or whoever waits would wait for ever
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Give everything up."""
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
        # A worker that is not ready has no room, and one that dies is replaced by us.
        worker = _Worker(self._class.options(max_restarts=0, **self._resources).remote())
        self._all.append(worker)
        reference = worker.actor.load.remote(self._work)
        reference.future().add_done_callback(
            lambda found: self._events.put(lambda: self._loaded(worker, found))
        )

    def _loaded(self, worker: _Worker, found: "Future[dict[str, str]]") -> None:
        error = found.exception()
        if error is not None:
            if _is_death(self._ray, error) and self._first_ready.is_set():
                self._all.remove(worker)  # its node went as it began
                return
            self._fail(_cause(error, "a worker could not start"))
            return
        likeness = found.result()
        if self._likeness is None:
            self._likeness = likeness
            if likeness["phrasescore"] != __version__:
                self._compare({"phrasescore": __version__}, likeness)
        elif likeness != self._likeness:
            self._compare(self._likeness, likeness)
        worker.is_ready = True
        self._first_ready.set()
        self._share_out()

    def _compare(self, one: dict[str, str], other: dict[str, str]) -> None:
        """Refuse workers that are not alike, or note it."""
        differences = "; ".join(
            f"{name} {one[name]} and {other.get(name, 'none')}"
            for name in one
            if one[name] != other.get(name)
        )
        problem = f"Ray's workers are not alike: {differences}"
        if one["phrasescore"] != other["phrasescore"] or not self._engine.allow_unlike:
            self._fail(PhrasescoreError(f"{problem}: the last bits of values may differ"))
        elif problem not in self.notes:
            self.notes = (*self.notes, problem)

    def _accept(self, task: _Piece[Item, Result]) -> None:
        if self._error is not None:
            task.future.set_exception(self._error)
            return
        self._waiting.append(task)
        self._share_out()

    def _share_out(self) -> None:
        """Give waiting items to the workers that have fewest."""
        while self._waiting:
            free = [each for each in self._all if each.is_ready and len(each.tasks) < _AT_A_TIME]
            if not free:
                return
            worker = min(free, key=lambda each: len(each.tasks))
            task = self._waiting.popleft()
            worker.tasks.append(task)
            worker.actor.compute.remote(task.item).future().add_done_callback(
                lambda found, worker=worker, task=task: self._events.put(
                    lambda: self._computed(worker, task, found)
                )
            )

    def _computed(
        self, worker: _Worker, task: _Piece[Item, Result], found: "Future[Result]"
    ) -> None:
        error = found.exception()
        if error is not None and _is_death(self._ray, error):
            self._bury(worker, error)
        elif task in worker.tasks:
            worker.tasks.remove(task)
            if error is not None:
                task.future.set_exception(_cause(error, "a worker has failed"))
            else:
                task.future.set_result(found.result())
        self._share_out()

    def _bury(self, worker: _Worker, error: BaseException) -> None:
        """Give the items of a dead worker to the others, and start another one."""
        if worker not in self._all:
            return
        self._all.remove(worker)
        if not worker.tasks:
            return
        at_work = worker.tasks[0]
        at_work.deaths += 1
        if at_work.deaths >= _DEATHS:
            problem = (
                f"a piece of the work has ended {_DEATHS} workers; was there too little memory?"
            )
            self._waiting.extendleft(reversed(worker.tasks))
            self._fail(PhrasescoreError(f"{problem} ({_first_line(error)})"))
            return
        self._waiting.extendleft(reversed(worker.tasks))
        _logger.warning("a worker of Ray has died; its piece of the work is computed again")
        self._start_worker()


def _connect(engine: EngineSettings) -> tuple[Any, bool]:
    """Return Ray, connected, and whether it was us who did that."""
    if "ray" not in sys.modules:  # it reads these when it is imported
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if engine.ray_address is None:
            os.environ.setdefault(_NETWORK, "0")
            if os.environ.setdefault("RAY_AUTH_MODE", "token") == "token":
                os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
    except ImportError as error:
        problem = "the engine ray needs Ray: pip install 'phrasescore[cluster]'"
        raise PhrasescoreError(problem) from error
    if ray.is_initialized():
        return ray, False
    usual: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "configure_logging": True,
    }
    if engine.ray_address is None:
        ray.init(num_cpus=engine.workers, include_dashboard=False, **usual)
        return ray, True
    _check_answer(engine.ray_address)
    try:
        ray.init(address=engine.ray_address, **usual)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise PhrasescoreError(f"Ray at {engine.ray_address}: {_first_line(error)}") from error
    return ray, True


def _check_answer(address: str) -> None:
    """Refuse an address where nobody listens, at once: Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    if address == "auto" or address.startswith("ray://"):
        return
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER).close()
    except (OSError, ValueError) as error:
        problem = f"expected HOST:PORT of a running Ray, found {address!r}: {error}"
        raise PhrasescoreError(f"`ray_address`: {problem}") from error


def _is_death(ray: Any, error: BaseException) -> bool:
    """Return whether a worker has died, and not its work raised an error."""
    kinds = ray.exceptions
    return isinstance(
        error, kinds.RayActorError | kinds.OutOfMemoryError | kinds.WorkerCrashedError
    ) and not isinstance(error, kinds.RayTaskError)


def _cause(error: BaseException, where: str) -> BaseException:
    """Return the error that a work raised on purpose, or a line about another one."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, PhrasescoreError):
        return cause
    if cause is not None:
        return error  # a bug: its traceback says more
    return PhrasescoreError(f"Ray: {where}: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
