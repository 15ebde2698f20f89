"""The embedded search over a text, on an engine: tables and networks are loaded once."""

import functools
import logging
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Self

from moses_integration.decoder.configuration import UNKNOWN_WORDS, DecoderConfiguration
from moses_integration.decoder.moses import NbestRequest
from moses_integration.decoder.phrase_options import PhraseOptions
from moses_integration.decoder.search import StackDecoder
from moses_integration.ini_text import IniText
from moses_integration.source_text import MAX_WORDS, markup_of, read_source
from moses_integration.weight_lines import check_weights
from phrasescore.devices import usable_threads
from phrasescore.engines import WorkerPool, is_local, open_pool
from phrasescore.errors import DataError
from phrasescore.io.characters import split_characters
from phrasescore.io.output import open_output
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import Weights
from phrasescore.settings.compute import Compute
from phrasescore.settings.kinds import KINDS
from phrasescore.systems.text_checks import KnownWords, UnknownWordCheck, unknown_words_of
from phrasescore.workflows.search_settings import SearchSettings, choose_engine
from phrasescore.workflows.translation.sentences import (
    OutputLines,
    Sentence,
    SentenceTask,
    SentenceTranslator,
    read_configuration,
)

_logger = logging.getLogger(__name__)

_AHEAD = 8  # sentences queued per worker, so that all stay busy during a slow sentence


class EmbeddedSearch:
    """The embedded search for a moses.ini, which the constructor checks and `open` loads.

    Until it is closed, it can translate any number of times, with any weights. Each worker keeps
    its tables, language model and networks.
    """

    def __init__(
        self, ini_path: str, settings: SearchSettings, engine: Compute | None = None
    ) -> None:
        settings.check()
        self._ini_path, self._settings = ini_path, settings
        self._engine = choose_engine(engine, settings)
        self._configuration = read_configuration(ini_path, settings)
        self._markup = markup_of(IniText.read(ini_path))
        self._pool: WorkerPool[SentenceTask | None, OutputLines] | None = None

    @property
    def feature_names(self) -> list[str]:
        """The names of all features that have weights."""
        return [slot.name for slot in self._configuration.slots] + self.network_names

    @property
    def network_names(self) -> list[str]:
        """The names of the features that moses.ini lacks."""
        return self._settings.feature_names

    def read_source(self, path: str) -> list[Sentence]:
        """Return the words in each line of a text, or their characters."""
        return read_source(path, MAX_WORDS, self._markup, characters=self._configuration.characters)

    def open(
        self,
        sentences: Sequence[Sentence],
        weights: Weights,
        closed: Sequence[int] = (),
        weights_path: str | None = None,
    ) -> Self:
        """Start the workers, which read the tables and the language model.

        It must be called before this process starts threads.

        :param sentences: all sentences to be translated; the tables are read for them.
        :param closed: file descriptors that forked processes close, such as a lock's.
        """
        known = {slot.name for slot in self._configuration.slots}
        own = {name: weights[name] for name in weights if name in known}
        # Report errors before the search starts.
        slots = self._configuration.with_weights(own).slots
        ranking = {slot.name: slot.weights for slot in slots if slot.kind != UNKNOWN_WORDS}
        check_weights({**weights, **ranking}, weights_path or self._ini_path)
        engine, settings, threads = self._engine, self._settings, 1
        if is_local(engine):
            processes = min(usable_threads(engine.workers), max(1, len(sentences)))
            engine = Compute(engine="here" if processes == 1 else "processes", workers=processes)
            threads = settings.threads or max(1, usable_threads(None) // processes)
        else:
            device = replace(engine, device=settings.device).on_workers().device
            settings = replace(settings, device=device)
        work = SearchWork(self._ini_path, settings, sentences, weights, threads)
        self._pool = open_pool(engine, work, closed=closed).__enter__()
        try:
            copied = self._pool.submit(None).result().counts["copied"]
        except BaseException:  # Ctrl-C, too: this process must leave Ray before it ends
            self._pool.__exit__()
            raise
        words = sum(map(len, sentences))
        line = f"{copied:,} of {words:,} source words are not in the table, and are copied"
        if 2 * copied > words:
            _logger.warning("%s; is it a table for this language?", line)
        else:
            _logger.info("%s", line)
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
        progress: ProgressCallback | None,
    ) -> None:
        """Translate a file into n-best lists, as a decoder for the tuning loop.

        The best translations are written next to the lists, to a file that ends in ``.out``.
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
        """Translate sentences, which must be among the sentences given to `open`.

        :param weights: weights that override those in the moses.ini.
        :return: the number of ``untranslated`` sentences, and of the networks' ``requests``,
            ``distinct`` requests and ``calls``.
        """
        assert self._pool is not None
        tasks = (SentenceTask(at, words, weights, nbest) for at, words in enumerate(sentences))
        counts: Counter[str] = Counter()
        sources, targets = self._unknown_words
        is_split = self._configuration.characters
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
                    translated = found.output.decode().split()
                    targets.count(split_characters(translated) if is_split else translated)
                if lists is not None:
                    lists.write(found.nbest)
                counts.update(found.counts)
                meter.update()
        sources.warn()
        targets.warn()
        if counts["untranslated"]:
            _logger.warning(
                f"{counts['untranslated']:,} sentences have empty translations: no phrase order "
                "within the distortion limit covers them"
            )
        if counts["calls"]:
            requests, distinct = counts["requests"], counts["distinct"]
            _logger.info(
                f"the networks scored {requests:,} words in their contexts, "
                f"{distinct / max(1, requests):.0%} of them different, "
                f"{distinct / counts['calls']:.0f} at a time"
            )
        return counts

    @functools.cached_property
    def _unknown_words(self) -> tuple[UnknownWordCheck, UnknownWordCheck]:
        """The checks for words that networks do not know, over all translations."""
        settings, models = self._settings, []
        if settings.models:
            from phrasescore.models.checkpoint import load_table_vocabularies  # imports torch
        for kind, path in zip(settings.features, settings.models, strict=True):
            source, target = load_table_vocabularies(path)
            models.append(KnownWords(path, source if KINDS[kind].is_aligned else None, target))
        return unknown_words_of("the source", "the translations", models)


@dataclass(frozen=True)
class SearchWork:
    """The work of translating with a moses.ini: a :class:`phrasescore.engines.Work`."""

    ini_path: str
    settings: SearchSettings
    sentences: Sequence[Sentence]  # all sentences, for which the tables are read
    weights: Weights  # the weights of the first translation
    threads: int  # number of the networks' CPU threads in each worker
    # The folder where the relative paths in moses.ini start, for a worker on another machine.
    folder: str | None = None
    configuration: DecoderConfiguration | None = None  # of moses.ini, if it has been read

    @property
    def device(self) -> str:
        """The device of the networks."""
        return self.settings.device if self.settings.models else "cpu"

    def in_folders(self) -> "SearchWork":
        """Return a copy for workers on other machines, which have the same folders."""
        return replace(self, folder=os.getcwd())

    def load(self) -> "TextTranslator":
        """Read the tables and the language model."""
        if self.folder is not None:
            try:
                os.chdir(self.folder)  # each worker has its own process
            except OSError as error:
                raise DataError(self.folder, None, f"cannot be entered: {error}") from error
        translator = TextTranslator(self)
        translator.prepare(self.weights)
        if self.folder is not None:
            translator.load_networks()  # so that the engine can compare the workers' torch
        elif self.sentences:
            # Compile the search once, before a fork.
            translator.compile(min(self.sentences, key=len))
        return translator


class TextTranslator(SentenceTranslator):
    """Translates the sentences of one text, under any weights."""

    def __init__(self, work: SearchWork) -> None:
        configuration = work.configuration or read_configuration(work.ini_path, work.settings)
        super().__init__(configuration, work.settings, work.threads)
        self._options = PhraseOptions(
            configuration, self._language_model, aligned=self._aligned, sentences=work.sentences
        )
        self._weights: Weights | None = None
        self._decoder: StackDecoder | None = None

    def prepare(self, weights: Weights) -> None:
        """Prepare the option table and the decoder for the given weights."""
        if weights == self._weights:
            return
        configuration = self._ini.with_weights(self._own_weights(weights))
        self._options.use(configuration, sum(self._network_weights(weights)))
        self._table = self._options.of(())
        self._make_decoder = functools.partial(
            StackDecoder, configuration, self._table, self._language_model
        )
        self._weights, self._decoder = weights, None

    def compile(self, words: Sentence) -> None:
        """Compile the search by translating a sentence without networks."""
        self._make_decoder().translate(words)

    def _decoder_of(self, task: SentenceTask) -> StackDecoder:
        self.prepare(task.weights)
        if self._decoder is None:
            features, size = self._features(task.weights), self._settings.buffer_size
            self._decoder = self._make_decoder(features, buffer_size=size)
        return self._decoder

    def __call__(self, task: SentenceTask | None) -> OutputLines:
        """Return a sentence's lines; for None, the count of ``copied`` words in the text."""
        if task is None:
            return OutputLines(b"", b"", Counter(copied=self._options.num_copied))
        return self.translate(task)
