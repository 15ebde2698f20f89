"""Send the sentences of concurrent requests to one pool of workers."""

import queue
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Self

from phrasescore.engines import Pending
from phrasescore.errors import DataError
from phrasescore.systems.ranking import Translation, TranslationTask
from phrasescore.systems.translator import Translator

_BYTES_PER_WORD = 100  # longer sentences are refused before they are split into words


@dataclass(eq=False)
class _Job:
    translator: Translator  # prepares the sentence, and restores its translation
    raw: bytes
    task: TranslationTask  # without its sentence until it is submitted
    answer: "Future[Translation]" = field(default_factory=Future)
    pending: Pending[Translation] | None = None


class SentenceCollector:
    """Collects sentences from any thread, and submits them in a thread of its own.

    A context manager. A translation is ready as soon as its worker has finished. A sentence that is
    refused, or that fails, affects only its own request.

    :param plain: a translator of the same system whose texts are the system's words.
    """

    def __init__(self, translator: Translator, plain: Translator, max_words: int) -> None:
        self._translator, self._plain, self._max_words = translator, plain, max_words
        self._pool = translator.pool
        self._waiting: deque[_Job] = deque()
        self._running: set[_Job] = set()
        # New jobs, and jobs whose workers have finished or died; None at the end.
        self._events: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._events.put(None)
        self._thread.join()

    def submit(self, text: str, task: TranslationTask, *, tokenized: bool) -> "Future[Translation]":
        """Return the translation of a sentence that will be computed; it can be cancelled.

        :param task: the requested output, and the sentence's 0-based number in its request.
        """
        translator = self._plain if tokenized else self._translator
        job = _Job(translator, text.encode(errors="surrogatepass"), task)
        self._events.put(job)
        return job.answer

    def _run(self) -> None:
        while (job := self._events.get()) is not None:
            if job.pending is None:
                self._waiting.append(job)
            elif job in self._running and job.pending.done():
                self._running.remove(job)
                self._finish(job, job.pending)
            # Enough to keep all workers busy; requests that are cancelled cost nothing until then.
            while self._waiting and len(self._running) < 2 * self._pool.workers:
                self._begin(self._waiting.popleft())

    def _begin(self, job: _Job) -> None:
        if not job.answer.set_running_or_notify_cancel():
            return
        try:
            self._submit(job)
        except Exception as error:
            job.answer.set_exception(error)

    def _submit(self, job: _Job) -> None:
        number, raw = job.task.number + 1, job.raw.rstrip(b"\r\n")
        if b"\n" in raw:
            raise DataError("text", number, "expected one sentence, found a line break")
        limit = self._max_words * _BYTES_PER_WORD
        if len(raw) > limit:
            problem = f"expected a sentence with at most {limit:,} bytes, found {len(raw):,}"
            raise DataError("text", number, problem)
        sentence = job.translator.prepare(number, raw)
        if len(sentence.tokens) > self._max_words:
            problem = f"expected a sentence with at most {self._max_words:,} words, found"
            raise DataError("text", number, f"{problem} {len(sentence.tokens):,}")
        job.task = job.task._replace(sentence=sentence)
        job.pending = self._pool.submit(job.task)
        self._running.add(job)
        job.pending.add_done_callback(lambda _: self._events.put(job))

    def _finish(self, job: _Job, pending: Pending[Translation]) -> None:
        try:
            # If the worker has died, this restarts the pool, and waits for the sentence.
            found = job.translator.finish(pending.result())
            explained = found.hypotheses if job.task.attention else ()
            texts = tuple(job.translator.restore(each.words) for each in explained)
            job.answer.set_result(replace(found, texts=texts))
        except Exception as error:
            job.answer.set_exception(error)
