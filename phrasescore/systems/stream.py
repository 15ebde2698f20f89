"""Sentences that are not known in advance: a worker translates whole sentences, one at a time."""

import queue
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from phrasescore.devices import torch_threads
from phrasescore.engines import Pending, WorkerPool
from phrasescore.errors import PhrasescoreError
from phrasescore.settings.compute import Compute
from phrasescore.systems.ranking import (
    Ranking,
    TranslationOutput,
    TranslationTask,
    load_list_features,
)
from phrasescore.systems.search import DecoderFeatures, SearchTask, SearchWork, read_configuration
from phrasescore.systems.system import System

_AHEAD = 4  # sentences queued per worker, so that all stay busy during a slow sentence
_END = object()  # after the last task


@dataclass(frozen=True)
class StreamWork:
    """The work of translating with a system: a :class:`phrasescore.engines.Work`."""

    system: System
    device: str

    def load(self) -> "StreamTranslator":
        """Read the models and the tables, and compile the search before a fork."""
        return StreamTranslator(self)


class StreamTranslator:
    """Translates a sentence: the search, the features of its list, and the best hypothesis."""

    def __init__(self, work: StreamWork) -> None:
        self._system = system = work.system
        self._stack = ExitStack()
        compute = Compute(workers=1, device=work.device)
        scoring = load_list_features(system, compute, sets_threads=False)
        if scoring is not None:
            self._stack.enter_context(scoring)
        configuration = read_configuration(system)
        self._characters = configuration.characters
        features = DecoderFeatures.of(system, configuration)
        added = () if scoring is None else scoring.names
        search, lists = features.check(system, added)
        work_of_search = SearchWork.of(system, configuration, search, device=work.device)
        self._weights, self._search = work_of_search.weights, work_of_search.load()
        self._ranking = Ranking(system, scoring, lists)
        kinds = {column.kind() for column in system.lists}
        self._uses_torch = bool(system.search) or "model" in kinds

    def close(self) -> None:
        """End the programs among the features."""
        self._stack.close()

    def __call__(self, task: TranslationTask) -> TranslationOutput:
        """Return the translation of a sentence."""
        if not self._uses_torch:
            return self._translate(task)
        with torch_threads(1):  # torch has the caller's threads afterwards
            return self._translate(task)

    def _translate(self, task: TranslationTask) -> TranslationOutput:
        request = task.request(self._system, characters=self._characters)
        tokens = task.sentence.tokens
        searched = SearchTask(task.number, tokens, self._weights, request, task.explain)
        return self._ranking.output(task, self._search(searched))


def in_order(
    pool: WorkerPool[TranslationTask, TranslationOutput], tasks: Iterator[TranslationTask]
) -> Iterator[tuple[TranslationTask, TranslationOutput]]:
    """Yield tasks with their outputs, each as soon as it is ready and those before it are.

    A thread reads the tasks, so that an output need not wait for the next task. An error in reading
    a task is raised after the outputs of the tasks before it.
    """
    window = _AHEAD * pool.workers
    live = _LiveTasks(tasks, window)
    pending: deque[tuple[TranslationTask, Pending[TranslationOutput]]] = deque()
    task: object = None
    problem: PhrasescoreError | None = None
    while task is not _END or pending:
        if task is not _END and len(pending) < window:
            first = pending[0][1] if pending else None
            try:
                task = live.next(first)
            except PhrasescoreError as error:
                task, problem = _END, error
            if isinstance(task, TranslationTask):
                pending.append((task, pool.submit(task)))
            if task is not _END and not (task is None and first is not None and first.done()):
                continue
        if pending:
            done, output = pending.popleft()
            yield done, output.result()
    if problem is not None:
        raise problem


class _LiveTasks:
    """Tasks that a thread reads, so that a finished one need not wait for the next one."""

    def __init__(self, tasks: Iterator[TranslationTask], size: int) -> None:
        self._room = threading.Semaphore(size)
        # A task, `_END` with an error or without one, or None: a task is finished.
        self._events: queue.SimpleQueue[tuple[object, Exception | None]] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(tasks,), daemon=True).start()

    def _read(self, tasks: Iterator[TranslationTask]) -> None:
        try:
            for task in tasks:
                self._room.acquire()
                self._events.put((task, None))
            self._events.put((_END, None))
        except Exception as error:
            self._events.put((_END, error))

    def next(self, first: Pending[TranslationOutput] | None) -> object:
        """Return the next task or `_END`, or None, at the latest when ``first`` is done."""
        if first is not None:
            first.add_done_callback(lambda _: self._events.put((None, None)))
        task, error = self._events.get()
        if error is not None:
            raise error
        if task is not None and task is not _END:
            self._room.release()
        return task
