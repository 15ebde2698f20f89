"""The search of this package over a text, on an engine: tables and networks are loaded once."""

import logging
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

from moses_integration.decoder.configuration import UNKNOWN_WORDS
from moses_integration.decoder.moses import NbestRequest
from moses_integration.ini_text import IniText
from moses_integration.source_text import MAX_WORDS, markup_of, read_source
from moses_integration.weight_lines import check_weights
from phrasescore.config.settings import ALIGNED
from phrasescore.devices import usable_threads
from phrasescore.engines import EngineSettings, device_on, open_pool
from phrasescore.engines.pool import WorkerPool
from phrasescore.engines.processes import ProcessPool
from phrasescore.errors import ArgumentError
from phrasescore.io.output import open_output
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import Weights
from phrasescore.workflows.search_settings import SearchSettings
from phrasescore.workflows.sentence_translator import (
    OutputLines,
    SearchWork,
    Sentence,
    SentenceTask,
    read_configuration,
)
from phrasescore.workflows.text_checks import KnownWords, UnknownWordCheck, unknown_words_of

_logger = logging.getLogger(__name__)

# Sentences queued per worker: enough to keep all busy while one of them takes long.
_AHEAD = 8


class EmbeddedSearch:
    """The embedded search by a moses.ini: checked when it is made, loaded by `open`.

    Between `open` and `close` (a context manager closes it) it translates as often as one likes,
    with any weights: each worker keeps its tables, language model and networks.

    :param ini_path: the moses.ini; the paths in it begin at the working folder.
    :param engine: where it runs; None for the engine processes.
    :raises ConfigError: if the moses.ini has something that this search lacks.
    :raises ArgumentError, PhrasescoreError: as `SearchSettings.check` and `choose_engine`.
    """

    def __init__(
        self, ini_path: str, settings: SearchSettings, engine: EngineSettings | None = None
    ) -> None:
        settings.check()
        self._ini_path, self._settings = ini_path, settings
        self._engine = choose_engine(engine, settings)
        self._configuration = read_configuration(ini_path, settings)
        self._markup = markup_of(IniText.read(ini_path))
        self._pool: WorkerPool[SentenceTask | None, OutputLines] | None = None
        self._unknown_words: tuple[UnknownWordCheck, UnknownWordCheck] | None = None

    @property
    def ini_features(self) -> list[str]:
        """The features of the moses.ini."""
        return [slot.name for slot in self._configuration.slots]

    @property
    def feature_names(self) -> list[str]:
        """The features that it has weights for."""
        return [*self.ini_features, *self._settings.feature_names]

    def read_source(self, path: str) -> list[Sentence]:
        """Return the words of each line of a text; see `moses_integration.source_text`."""
        return read_source(path, MAX_WORDS, self._markup)

    def open(
        self,
        sentences: Sequence[Sentence],
        weights: Weights,
        closed: Sequence[int] = (),
        weights_path: str | None = None,
    ) -> Self:
        """Start the workers, which read tables and language model: before threads are started.

        :param sentences: all that will be translated; the tables are read for these.
        :param weights: what is translated with first.
        :param closed: descriptors that forked processes do not keep, such as a lock's.
        :param weights_path: the file that the weights come from, for messages.
        :raises DataError: if the weights put translations in no order.
        """
        own = {name: weights[name] for name in weights if name in self.ini_features}
        # An error comes before the long work.
        slots = self._configuration.with_weights(own).slots
        ranking = {slot.name: slot.weights for slot in slots if slot.kind != UNKNOWN_WORDS}
        check_weights({**weights, **ranking}, weights_path or self._ini_path)
        engine, settings, threads = self._engine, self._settings, 1
        if engine.name == "ray":
            settings = replace(settings, device=device_on(engine, settings.device))
        else:
            processes = min(usable_threads(engine.workers), max(1, len(sentences)))
            engine = EngineSettings("here" if processes == 1 else "processes", processes)
            threads = settings.threads or max(1, usable_threads(None) // processes)
        work = SearchWork(
            *(self._ini_path, os.getcwd(), settings, sentences, weights, threads), engine.name
        )
        forks = engine.name == "processes"
        pool = ProcessPool(work, engine, closed) if forks else open_pool(engine, work)
        self._pool = pool.__enter__()
        try:
            _report_unknown(self._pool.submit(None).result().counts["copied"], sentences)
        except BaseException:  # Ctrl-C, too: a Ray must be left before this process ends
            self._pool.__exit__()
            raise
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.__exit__(*error)
            for note in self._pool.notes:
                _logger.warning("%s", note)

    def __call__(
        self,
        source: str,
        weights: Weights,
        size: int,
        nbest: str,
        *,
        progress: ProgressCallback | None = None,
    ) -> None:
        """Translate a file into n-best lists: a decoder of the tuning loop.

        The translations go to the name of the lists with ``.out`` for ``.nbest``.
        """
        own = {name: weights[name] for name in weights if name in self.feature_names}
        output = f"{nbest.removesuffix('.part').removesuffix('.nbest')}.out"
        request = NbestRequest(nbest, size, distinct=True)
        self.translate(self.read_source(source), own, output, request, progress)

    def translate(
        self,
        sentences: Sequence[Sentence],
        weights: Weights,
        output: str,
        nbest: NbestRequest | None = None,
        progress: ProgressCallback | None = None,
    ) -> Counter[str]:
        """Translate sentences; files appear whole, and only if all went well.

        :param sentences: of those that the tables were read for.
        :param weights: those of the moses.ini where it names none.
        :param output: gets a line per sentence.
        :return: how many sentences are ``untranslated``, and of the networks the ``requests``, the
            ``distinct`` ones and the ``calls``.
        """
        assert self._pool is not None
        tasks = (SentenceTask(at, words, weights, nbest) for at, words in enumerate(sentences))
        counts: Counter[str] = Counter()
        sources, targets = self._open_unknown_words()
        with ExitStack() as stack:
            target = stack.enter_context(open_output(output))
            lists = None if nbest is None else stack.enter_context(open_output(nbest.path))
            meter = stack.enter_context(
                Meter("decode", "sentences", progress, total=len(sentences))
            )
            results = self._pool.map(tasks, window=_AHEAD * self._pool.workers)
            for words, found in zip(sentences, results, strict=True):
                target.write(found.output)
                if self._settings.models:
                    sources.count(words)
                    targets.count(found.output.decode().split())
                if lists is not None:
                    lists.write(found.nbest)
                counts.update(found.counts)
                meter.update()
        sources.warn()
        targets.warn()
        _report(counts)
        return counts

    def _open_unknown_words(self) -> tuple[UnknownWordCheck, UnknownWordCheck]:
        """Return what counts the words that networks do not know, over all translations."""
        if self._unknown_words is None:
            settings = self._settings
            models = []
            if settings.models:
                from phrasescore.models.checkpoint import load_table_vocabularies  # imports torch
            for kind, path in zip(settings.features, settings.models, strict=True):
                source, target = load_table_vocabularies(path)
                models.append(KnownWords(path, source if kind in ALIGNED else None, target))
            self._unknown_words = unknown_words_of("the source", "the translations", models)
        return self._unknown_words


def choose_engine(engine: EngineSettings | None, settings: SearchSettings) -> EngineSettings:
    """Return the engine of a search; None is the engine processes.

    :raises ArgumentError: if the settings' numbers of processes and threads do not go with it.
    """
    engine = engine or EngineSettings("processes")
    if engine.name == "here":
        if (engine.workers or 1) > 1:
            raise ArgumentError("--workers: the engine here translates one sentence at a time")
        engine = replace(engine, workers=1)
    if engine.name == "ray" and settings.threads is not None:
        raise ArgumentError("--threads: a worker on Ray has one")
    if settings.processes is None:
        return engine
    if engine.name != "processes":
        problem = f"--processes is for the engine processes; {engine.name} has --workers"
        raise ArgumentError(problem)
    if engine.workers is not None:
        raise ArgumentError("--processes and --workers are one number with the engine processes")
    return replace(engine, workers=settings.processes)


def _report_unknown(copied: int, sentences: Sequence[Sentence]) -> None:
    """Say how many words are copied; warn where they are more than half of all."""
    words = sum(map(len, sentences))
    line = f"{copied:,} of {words:,} source words are no phrase of the table, and are copied"
    if 2 * copied > words:
        _logger.warning("%s; is it the table of this language?", line)
    else:
        _logger.info("%s", line)


def _report(counts: Counter[str]) -> None:
    if counts["untranslated"]:
        problem = "no order of phrases within the distortion limit translates them"
        _logger.warning("%s sentences are left empty: %s", f"{counts['untranslated']:,}", problem)
    if counts["calls"]:
        _logger.info(
            "networks: %s requests, %.1f%% of them distinct; %.0f at a time",
            f"{counts['requests']:,}",
            100 * counts["distinct"] / max(1, counts["requests"]),
            counts["distinct"] / counts["calls"],
        )
