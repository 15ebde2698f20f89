"""The work of the translator's workers: the search of a known text, or whole sentences of a stream.

For a known text, each worker reads the tables once, for its sentences.
"""

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext

from moses_integration.decoder.configuration import DecoderConfiguration
from phrasescore.devices import torch_threads, usable_threads
from phrasescore.engines import WorkerPool, open_pool
from phrasescore.settings.compute import Compute
from phrasescore.systems.ranking import (
    Ranking,
    Translation,
    TranslationTask,
    load_list_features,
)
from phrasescore.systems.search import (
    DecoderFeatures,
    SearchOutput,
    SearchTask,
    SearchWork,
    read_configuration,
    search_weights,
)
from phrasescore.systems.system import System
from phrasescore.systems.text import SystemSentence

_logger = logging.getLogger(__name__)

SearchPool = WorkerPool[SearchTask | None, SearchOutput]

# Sentences queued per worker, so that all stay busy during a slow one.
AHEAD_IN_TEXT, _AHEAD_IN_STREAM = 8, 4


def open_search(
    system: System,
    configuration: DecoderConfiguration,
    sentences: Sequence[SystemSentence],
    compute: Compute,
    closed: Iterable[int] = (),
) -> SearchPool:
    """Return the workers that search translations of a known text; see `Translator`."""
    threads, device = 1, compute.device
    if compute.engine == "ray":
        device = compute.on_workers().device
    else:
        workers = min(usable_threads(compute.workers), max(1, len(sentences)))
        threads = compute.threads or max(1, usable_threads(None) // workers)
        compute = Compute(engine="here" if workers == 1 else "processes", workers=workers)
    work = SearchWork(
        configuration,
        system.search,
        system.search_names,
        search_weights(system),
        sentences=[sentence.tokens for sentence in sentences],
        threads=threads,
        device=device if system.search else "cpu",
    )
    return open_pool(compute, work, closed=closed)


def log_copied(pool: SearchPool, sentences: Sequence[SystemSentence], *, characters: bool) -> None:
    """Log how many words of a known text are not in the table; warn if they are most of them."""
    copied = int(pool.submit(None).result().words)
    words = sum(len(sentence.tokens) for sentence in sentences)
    unit = "characters" if characters else "words"
    line = f"{copied:,} of {words:,} source {unit} are not in the table, and are copied"
    if 2 * copied > words:
        _logger.warning("%s; is it a table for this language?", line)
    else:
        _logger.info("%s", line)


class StreamTranslator:
    """Translates a sentence: the search, the features of its list, and the best hypothesis.

    The models and the tables are read, and the search is compiled, before a fork.
    """

    def __init__(self, system: System, device: str) -> None:
        self._system = system
        self._stack = ExitStack()
        compute = Compute(workers=1, device=device)
        scoring = load_list_features(system, compute, sets_threads=False)
        if scoring is not None:
            self._stack.enter_context(scoring)
        configuration = read_configuration(system)
        self._characters = configuration.characters
        features = DecoderFeatures.of(system, configuration)
        added = () if scoring is None else scoring.names
        self._weights, lists = features.check(system, added)
        networks = system.search, system.search_names
        self._search = SearchWork(configuration, *networks, self._weights, device=device).load()
        self._ranking = Ranking(system, scoring, lists)
        kinds = {column.kind() for column in system.lists}
        self._uses_torch = bool(system.search) or "model" in kinds

    def close(self) -> None:
        """End the programs among the features."""
        self._stack.close()

    def __call__(self, task: TranslationTask) -> Translation:
        """Return the translation of a sentence."""
        request = task.request(self._system, characters=self._characters)
        tokens = task.sentence.tokens
        searched = SearchTask(task.number, tokens, self._weights, request, task.explain)
        # torch has the caller's threads afterwards.
        with torch_threads(1) if self._uses_torch else nullcontext():
            return self._ranking.output(task, self._search(searched))


class SharedWorkers:
    """The workers for a stream, which several threads use."""

    def __init__(self, pool: WorkerPool[TranslationTask, Translation]) -> None:
        self._pool, self._lock = pool, threading.Lock()

    def submit(self, task: TranslationTask) -> Callable[[], Translation]:
        """Submit a task; return a function that waits for the translation, or raises its error."""
        ready = threading.Event()
        with self._lock:
            pending = self._pool.submit(task)
            pending.add_done_callback(lambda _: ready.set())

        def result() -> Translation:
            ready.wait()
            with self._lock:
                # If the worker has died, this restarts the pool, and waits for the sentence.
                return pending.result()

        return result


def in_order(
    pool: WorkerPool[TranslationTask, Translation], tasks: Iterator[TranslationTask]
) -> Iterator[Translation]:
    """Yield the translation for each task, as soon as it and those before it are ready.

    A thread reads the tasks, so that a translation need not wait for the next task. An error in
    reading a task is raised after the translations for the tasks before it.
    """
    workers = SharedWorkers(pool)
    # An error comes last, or None.
    results: queue.SimpleQueue[Callable[[], Translation] | Exception | None] = queue.SimpleQueue()
    room = threading.Semaphore(_AHEAD_IN_STREAM * pool.workers)

    def read() -> None:
        try:
            for task in tasks:
                room.acquire()
                results.put(workers.submit(task))
            results.put(None)
        except Exception as error:
            results.put(error)

    threading.Thread(target=read, daemon=True).start()
    while (found := results.get()) is not None:
        if isinstance(found, Exception):
            raise found
        translation = found()
        room.release()
        yield translation
