"""Send the sentences of concurrent requests to one pool of workers."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Self

from phrasescore.errors import DataError
from phrasescore.systems.ranking import Translation, TranslationTask
from phrasescore.systems.text import SystemSentence
from phrasescore.systems.translator import Translator
from phrasescore.systems.workers import SharedWorkers

_BYTES_PER_WORD = 100  # longer sentences are refused before they are split into words


class SentenceCollector:
    """Translates the sentences of any thread, each in a thread that waits for its worker.

    A context manager. A translation is ready as soon as its worker has finished. A sentence that is
    refused, or that fails, affects only its own request.

    :param plain: a translator of the same system whose texts are the system's words.
    """

    def __init__(self, translator: Translator, plain: Translator, max_words: int) -> None:
        self._translator, self._plain, self._max_words = translator, plain, max_words
        self._workers = SharedWorkers(translator.pool)
        # Enough to keep all workers busy; requests that are cancelled cost nothing until then.
        self._threads = ThreadPoolExecutor(2 * translator.pool.workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    def submit(self, text: str, task: TranslationTask, *, tokenized: bool) -> "Future[Translation]":
        """Return the translation of a sentence that will be computed; it can be cancelled.

        :param task: the requested output, and the sentence's 0-based number in its request.
        """
        translator = self._plain if tokenized else self._translator
        return self._threads.submit(self._translate, translator, text, task)

    def _translate(self, translator: Translator, text: str, task: TranslationTask) -> Translation:
        sentence = self._prepare(translator, task.number + 1, text)
        found = translator.finish(self._workers.submit(task._replace(sentence=sentence))())
        explained = found.hypotheses if task.attention else ()
        return replace(found, texts=tuple(translator.restore(each.words) for each in explained))

    def _prepare(self, translator: Translator, number: int, text: str) -> SystemSentence:
        raw = text.encode(errors="surrogatepass").rstrip(b"\r\n")
        if b"\n" in raw:
            raise DataError("text", number, "expected one sentence, found a line break")
        limit = self._max_words * _BYTES_PER_WORD
        if len(raw) > limit:
            problem = f"expected a sentence with at most {limit:,} bytes, found {len(raw):,}"
            raise DataError("text", number, problem)
        sentence = translator.prepare(number, raw)
        if len(sentence.tokens) > self._max_words:
            problem = f"expected a sentence with at most {self._max_words:,} words, found"
            raise DataError("text", number, f"{problem} {len(sentence.tokens):,}")
        return sentence
