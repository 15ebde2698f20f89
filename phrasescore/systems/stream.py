"""Sentences that are not known in advance: a worker translates whole sentences, one at a time."""

import queue
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from phrasescore.devices import torch_threads
from phrasescore.engines import Pending, WorkerPool
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
    # Tasks; None when one of them may be finished; an error at the end, a StopIteration as a rule.
    events: queue.SimpleQueue[TranslationTask | Exception | None] = queue.SimpleQueue()
    room = threading.Semaphore(_AHEAD * pool.workers)

    def read() -> None:
        try:
            for task in tasks:
                room.acquire()
                events.put(task)
            events.put(StopIteration())
        except Exception as error:
            events.put(error)

    threading.Thread(target=read, daemon=True).start()
    waiting: deque[tuple[TranslationTask, Pending[TranslationOutput]]] = deque()
    end: Exception | None = None
    while end is None or waiting:
        while waiting and (end is not None or waiting[0][1].done()):
            task, pending = waiting.popleft()
            room.release()
            yield task, pending.result()
        event = events.get() if end is None else None
        if isinstance(event, Exception):
            end = event
        elif event is not None:
            waiting.append((event, pool.submit(event)))
            waiting[-1][1].add_done_callback(lambda _: events.put(None))
    if not isinstance(end, StopIteration):
        raise end
