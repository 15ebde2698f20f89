"""The embedded search over a text, on an engine: tables and networks are loaded once."""

import functools
import itertools
import logging
import math
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from moses_integration.alignments import PhraseSpan, format_segmentation
from moses_integration.decoder.configuration import UNKNOWN_WORDS, DecoderConfiguration
from moses_integration.decoder.moses import NbestRequest
from moses_integration.decoder.options import OptionTable, read_language_model
from moses_integration.decoder.phrase_tables import read_tables
from moses_integration.decoder.search import StackDecoder, Translation
from moses_integration.decoder.stateful import StatefulFeature
from moses_integration.ini_text import IniText
from moses_integration.nbest_lines import format_hypothesis
from moses_integration.source_text import MAX_WORDS, markup_of, read_source
from moses_integration.weight_lines import check_weights
from phrasescore.devices import usable_threads
from phrasescore.engines import WorkerPool, open_pool
from phrasescore.engines.processes import ProcessPool
from phrasescore.errors import DataError
from phrasescore.io.output import open_output
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import Weights
from phrasescore.settings.compute import Compute, EngineName
from phrasescore.settings.kinds import KINDS
from phrasescore.workflows.search_settings import (
    LIMITS,
    SearchSettings,
    choose_engine,
    load_networks,
)
from phrasescore.workflows.text_checks import KnownWords, UnknownWordCheck, unknown_words_of

_logger = logging.getLogger(__name__)

Sentence = tuple[str, ...]

# Sentences queued per worker: all stay busy while one sentence takes long.
_AHEAD = 8


class EmbeddedSearch:
    """The embedded search with a moses.ini: checked by the constructor, loaded by `open`.

    Between `open` and the end of its block it translates any number of times, with any weights:
    each worker keeps its tables, language model and networks.

    :param ini_path: the moses.ini; its relative paths start at the working folder.
    :param engine: the engine that it runs on; None for the engine ``processes``.
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
        self._unknown_words: tuple[UnknownWordCheck, UnknownWordCheck] | None = None

    @property
    def ini_features(self) -> list[str]:
        """The features of the moses.ini."""
        return [slot.name for slot in self._configuration.slots]

    @property
    def feature_names(self) -> list[str]:
        """The names of all features that have weights."""
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
        """Start the workers, which read the tables and the language model. Start no threads before.

        :param sentences: everything that will be translated; the tables are read for it.
        :param weights: the weights of the first translation.
        :param closed: descriptors that forked processes close, such as a lock's.
        :param weights_path: the origin of the weights, for messages.
        """
        own = {name: weights[name] for name in weights if name in self.ini_features}
        # Report errors before the search starts.
        slots = self._configuration.with_weights(own).slots
        ranking = {slot.name: slot.weights for slot in slots if slot.kind != UNKNOWN_WORDS}
        check_weights({**weights, **ranking}, weights_path or self._ini_path)
        engine, settings, threads = self._engine, self._settings, 1
        if engine.engine == "ray":
            device = replace(engine, device=settings.device).on_workers().device
            settings = replace(settings, device=device)
        else:
            processes = min(usable_threads(engine.workers), max(1, len(sentences)))
            engine = Compute(engine="here" if processes == 1 else "processes", workers=processes)
            threads = settings.threads or max(1, usable_threads(None) // processes)
        work = SearchWork(
            *(self._ini_path, os.getcwd(), settings, sentences, weights, threads), engine.engine
        )
        forks = engine.engine == "processes"
        pool = ProcessPool(work, engine, closed) if forks else open_pool(engine, work)
        self._pool = pool.__enter__()
        try:
            _report_unknown(self._pool.submit(None).result().counts["copied"], sentences)
        except BaseException:  # Ctrl-C, too: this process must leave Ray before it ends
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
        """Translate a file into n-best lists, as a decoder of the tuning loop.

        The best translations are written beside the lists, to a file ending in ``.out``.
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

        :param sentences: some of the sentences that `open` was given.
        :param weights: override the weights of the moses.ini.
        :return: the number of ``untranslated`` sentences, and of the networks' ``requests``,
            ``distinct`` requests and ``calls``.
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
        """Return the checks of words that networks do not know, over all translations."""
        if self._unknown_words is None:
            settings = self._settings
            models = []
            if settings.models:
                from phrasescore.models.checkpoint import load_table_vocabularies  # imports torch
            for kind, path in zip(settings.features, settings.models, strict=True):
                source, target = load_table_vocabularies(path)
                models.append(KnownWords(path, source if KINDS[kind].is_aligned else None, target))
            self._unknown_words = unknown_words_of("the source", "the translations", models)
        return self._unknown_words


def _report_unknown(copied: int, sentences: Sequence[Sentence]) -> None:
    """Log the number of copied words; warn if more than half of all words are copied."""
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


class OutputLines(NamedTuple):
    """A worker's result for a sentence: its translation, its n-best list, and counts."""

    output: bytes
    nbest: bytes
    # The counts that `EmbeddedSearch.translate` adds up.
    counts: Counter[str]


class SentenceTask(NamedTuple):
    """A sentence to translate, with the weights and the n-best request."""

    sent_id: int
    words: Sentence
    weights: Weights
    nbest: NbestRequest | None


@dataclass(frozen=True)
class SearchWork:
    """Translates with a moses.ini; processes share its tables, which are loaded before the fork."""

    ini_path: str
    # The relative paths in moses.ini start here.
    folder: str
    settings: SearchSettings
    # The tables are read for all of them.
    sentences: Sequence[Sentence]
    # The weights of the first translation.
    weights: Weights
    # Number of the networks' CPU threads in each worker.
    threads: int
    engine: EngineName

    @property
    def device(self) -> str:
        """The device of the networks."""
        return self.settings.device if self.settings.models else "cpu"

    def load(self) -> "SentenceTranslator":
        """Read the tables and the language model."""
        if self.engine == "ray":
            try:
                os.chdir(self.folder)  # the process is the worker's own
            except OSError as error:
                raise DataError(self.folder, None, f"cannot be entered: {error}") from error
        translator = SentenceTranslator(self)
        translator.prepare(self.weights)
        if self.engine == "ray":
            # Check early that the workers have the same torch.
            translator.load_networks()
        elif self.engine == "processes" and self.sentences:
            # Compile the search once, before the fork.
            translator.compile(min(self.sentences, key=len))
        return translator


def read_configuration(ini_path: str, settings: SearchSettings) -> DecoderConfiguration:
    """Read a moses.ini, with the limits of the settings."""
    limits = {LIMITS[section]: value for section, value in settings.limits().items()}
    return DecoderConfiguration.read(ini_path, settings.ignore).with_limits(**limits)


class SentenceTranslator:
    """Translates sentences; each worker loads the networks at its first sentence."""

    def __init__(self, work: SearchWork) -> None:
        settings, sentences = work.settings, work.sentences
        self._settings, self._threads = settings, work.threads
        self._ini = configuration = read_configuration(work.ini_path, settings)
        # For each value of each feature, whether n-best lists show it.
        self._shown = {slot.name: configuration.shown(slot) for slot in configuration.slots}
        self._shown |= dict.fromkeys(settings.feature_names, (True,))
        aligned = any(KINDS[kind].is_aligned for kind in settings.features)
        self._tables = read_tables(configuration, sentences, aligned=aligned)
        unknown = {word.decode() for word in self._tables.pairs.sources[self._tables.num_known :]}
        self._num_copied = sum(word in unknown for words in sentences for word in words)
        self._language_model = read_language_model(configuration)
        self._networks: Sequence[StatefulFeature] | None = None
        self._weights: Weights | None = None
        self._decoder: StackDecoder | None = None

    def prepare(self, weights: Weights) -> None:
        """Prepare the option table and the decoder for these weights."""
        if weights == self._weights:
            return
        extra = self._settings.feature_names
        own = {name: values for name, values in weights.items() if name not in extra}
        self._network_weights = [weights.get(name, (0.0,))[0] for name in extra]
        configuration = self._ini.with_weights(own)
        self._table = OptionTable(
            configuration, self._language_model, self._tables, sum(self._network_weights)
        )
        self._make_decoder = functools.partial(
            StackDecoder, configuration, self._table, self._language_model
        )
        self._weights, self._decoder = weights, None

    def compile(self, words: Sentence) -> None:
        """Translate a sentence without networks."""
        self._make_decoder().translate(words)

    def load_networks(self) -> Sequence[StatefulFeature]:
        """Return the networks, which are loaded once."""
        if self._networks is None:
            self._networks = load_networks(self._settings, self._threads)
        return self._networks

    def __call__(self, task: SentenceTask | None) -> OutputLines:
        """Return a sentence's lines; for None, the number of the text's ``copied`` words."""
        if task is None:
            return OutputLines(b"", b"", Counter(copied=self._num_copied))
        self.prepare(task.weights)
        if self._decoder is None:
            features = list(zip(self.load_networks(), self._network_weights, strict=True))
            self._decoder = self._make_decoder(features, buffer_size=self._settings.buffer_size)
        before = self._counts(self._decoder)
        size, distinct = (0, False) if task.nbest is None else task.nbest[1:3]
        best = self._decoder.translate(task.words, nbest=size, distinct=distinct)
        lines = [self._hypothesis(task, found) for found in best.nbest]
        counts = self._counts(self._decoder) - before
        counts["untranslated"] = int(not math.isfinite(best.score))
        return OutputLines(f"{' '.join(best.words)}\n".encode(), b"".join(lines), counts)

    @staticmethod
    def _counts(decoder: StackDecoder) -> Counter[str]:
        counts: Counter[str] = Counter()
        for buffer, _ in decoder.buffers:
            counts.update(requests=buffer.requests, distinct=buffer.distinct, calls=buffer.calls)
        return counts

    def _hypothesis(self, task: SentenceTask, found: Translation) -> bytes:
        assert task.nbest is not None
        columns = zip(self._shown.items(), found.values, strict=True)
        features = [
            (name, kept)
            for (name, shown), values in columns
            if (kept := list(itertools.compress(values, shown)))
        ]
        return format_hypothesis(
            *(task.sent_id, found.words, features, found.score),
            alignment=self._alignment(found) if task.nbest.alignment else None,
            segmentation=_segmentation(found) if task.nbest.segmentation else None,
        )

    def _alignment(self, found: Translation) -> str:
        """Return the word alignment of the phrase table, phrase by phrase."""
        points = []
        position = 0
        for segment in found.segments:
            inner = [point.split("-") for point in self._table.alignment(segment.option).split()]
            for source, target in sorted((int(one), int(other)) for one, other in inner):
                points.append(f"{segment.start + source}-{position + target}")
            position += len(segment.words)
        return " ".join(points)


def _segmentation(found: Translation) -> str:
    """Return the phrases, in the order of the target."""
    ends = itertools.accumulate(len(segment.words) for segment in found.segments)
    spans = [
        PhraseSpan(segment.start, segment.end, end - len(segment.words), end)
        for segment, end in zip(found.segments, ends, strict=True)
    ]
    return format_segmentation(spans)
