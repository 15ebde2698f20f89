"""The search of this package over a text: tables and networks loaded once, several processes."""

import collections
import logging
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Self

from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.moses_engine import NbestRequest
from moses_integration.decoder.options import (
    OptionTable,
    PhraseTables,
    read_language_model,
    read_tables,
)
from moses_integration.decoder.search import StackDecoder, Translation
from moses_integration.decoder.source import read_source
from moses_integration.moses_ini import MosesIni
from moses_integration.nbest_lines import format_hypothesis
from phrasescore.devices import usable_threads
from phrasescore.engines.ordered_work import OrderedProcesses
from phrasescore.io.output import open_output
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import Weights
from phrasescore.workflows.search_settings import LIMITS, SearchSettings

if TYPE_CHECKING:
    from moses_integration.decoder.language_model import NgramModel
    from moses_integration.decoder.stateful import StatefulFeature

_logger = logging.getLogger(__name__)

Sentence = tuple[str, ...]


class _OutputLines(NamedTuple):
    """The lines that a process sends of a sentence."""

    output: bytes
    nbest: bytes
    # Whether there is a translation at all.
    found: bool
    # Of the networks: requests, distinct requests, and calls.
    counts: dict[str, int]


class _SentenceTask(NamedTuple):
    """A sentence to translate, and how."""

    sent_id: int
    words: Sentence
    weights: Weights
    nbest: NbestRequest | None


@dataclass(frozen=True)
class _IniModel:
    """A moses.ini that the search follows."""

    configuration: DecoderConfiguration
    # For each value of each feature, whether n-best lists show it.
    shown: tuple[tuple[bool, ...], ...]

    @classmethod
    def read(cls, path: str, settings: SearchSettings) -> Self:
        configuration = DecoderConfiguration.read(path, settings.ignore)
        limits = {LIMITS[section]: value for section, value in settings.limits().items()}
        configuration = replace(configuration, search=replace(configuration.search, **limits))
        configuration.search.check_supported(path)  # before anything is loaded
        ini = MosesIni.read(path)
        slots = configuration.slots
        shown = tuple(ini.shown_components(slot.name, len(slot.weights)) for slot in slots)
        return cls(configuration, shown)


@dataclass
class _SentenceTranslator:
    """Translates sentences; loads its networks where it translates, at the first sentence."""

    model: _IniModel
    tables: PhraseTables
    language_model: "NgramModel"
    settings: SearchSettings
    # CPU threads of the networks.
    threads: int
    # Features beside those of the moses.ini.
    extra: Sequence[str]
    # The weights of the table and the decoder; others are made when a task has other weights.
    weights: Weights | None = None
    table: OptionTable | None = None
    decoder: StackDecoder | None = None
    networks: "Sequence[StatefulFeature] | None" = None
    _configuration: DecoderConfiguration | None = None

    def prepare(self, weights: Weights) -> None:
        """Make the options that these weights choose; processes forked later share them."""
        if weights == self.weights:
            return
        own = {name: values for name, values in weights.items() if name not in self.extra}
        configuration = self.model.configuration
        self._configuration = configuration.with_weights(own) if own else configuration
        other = sum(self._extra_weights(weights))
        self.table = OptionTable(self._configuration, self.language_model, self.tables, other)
        self.weights, self.decoder = weights, None

    def __call__(self, task: _SentenceTask) -> _OutputLines:
        """Return the lines of a sentence."""
        self.prepare(task.weights)
        if self.decoder is None:
            self.decoder = self._make_decoder()
        before = self._counts()
        if task.nbest is None:
            best = self.decoder.translate(task.words)
        else:
            size, distinct = task.nbest.size, task.nbest.distinct
            best = self.decoder.translate(task.words, nbest=size, distinct=distinct)
        aligned = task.nbest is not None and task.nbest.alignment
        lines = [self._hypothesis(task.sent_id, found, aligned) for found in best.nbest]
        output = f"{' '.join(best.words)}\n".encode()
        counts = dict(self._counts() - before)
        return _OutputLines(output, b"".join(lines), math.isfinite(best.score), counts)

    def _extra_weights(self, weights: Weights) -> list[float]:
        return [weights.get(name, (0.0,))[0] for name in self.extra]

    def _make_decoder(self) -> StackDecoder:
        assert self.weights is not None
        assert self.table is not None
        assert self._configuration is not None
        if self.networks is None:
            self.networks = [
                _load_network(name, model, self.settings, self.threads)
                for name, model in zip(self.extra, self.settings.models, strict=False)
            ]
        features = list(zip(self.networks, self._extra_weights(self.weights), strict=True))
        size = self.settings.buffer_size
        places = (self._configuration, self.table, self.language_model, features)
        return StackDecoder(*places, buffer_size=size)

    def _counts(self) -> Counter[str]:
        assert self.decoder is not None
        counts: Counter[str] = Counter()
        for buffer, _ in self.decoder.buffers:
            counts.update(requests=buffer.requests, distinct=buffer.distinct, calls=buffer.calls)
        return counts

    def _hypothesis(self, sent_id: int, found: Translation, aligned: bool) -> bytes:
        """Return a line of a list."""
        assert self.decoder is not None
        features = []
        shown = (*self.model.shown, *((True,) for _ in self.extra))
        for name, values, which in zip(self.decoder.names, found.values, shown, strict=True):
            kept = [value for value, is_shown in zip(values, which, strict=True) if is_shown]
            if kept:
                features.append((name, kept))
        alignment = self._alignment(found) if aligned else None
        return format_hypothesis(sent_id, found.words, features, found.score, alignment)

    def _alignment(self, found: Translation) -> str:
        """Return the word alignment of the phrase table, phrase after phrase."""
        assert self.table is not None
        points = []
        position = 0
        for segment in found.segments:
            inner = [point.split("-") for point in self.table.alignment(segment.option).split()]
            for source, target in sorted((int(one), int(other)) for one, other in inner):
                points.append(f"{segment.start + source}-{position + target}")
            position += len(segment.words)
        return " ".join(points)


def _load_network(
    name: str, model: str, settings: SearchSettings, threads: int
) -> "StatefulFeature":
    """Return the network of a feature; torch is imported here, in the process that uses it."""
    import torch

    from phrasescore.devices import choose_device
    from phrasescore.features.cslm import SearchCslm
    from phrasescore.language_models.word_scorer import CslmOptions
    from phrasescore.models.checkpoint import load_checkpoint

    torch.set_num_threads(threads)
    device = choose_device(settings.device)
    options = CslmOptions(normalized=not settings.unnormalized, backoff=settings.backoff_lm)
    return SearchCslm(load_checkpoint(model), device, options=options, name=name)


class EmbeddedSearch:
    """The embedded search by a moses.ini: checked when it is made, loaded by `open`.

    Between `open` and `close` (a context manager closes it) it translates as often as one likes,
    with any weights: tables and language model are read once, and each process keeps its networks.

    :param ini_path: the moses.ini; the paths in it begin at the working folder.
    :raises ConfigError: if the moses.ini has something that this search lacks.
    :raises ArgumentError, PhrasescoreError: as `SearchSettings.check`.
    """

    def __init__(self, ini_path: str, settings: SearchSettings) -> None:
        settings.check()
        self._settings = settings
        self._model = _IniModel.read(ini_path, settings)
        self._translator: _SentenceTranslator | None = None
        self._processes: OrderedProcesses[_SentenceTask, _OutputLines] | None = None

    @property
    def ini_features(self) -> list[str]:
        """The features of the moses.ini."""
        return [slot.name for slot in self._model.configuration.slots]

    @property
    def feature_names(self) -> list[str]:
        """The features that it has weights for."""
        return [*self.ini_features, *self._settings.feature_names]

    def check_weights(self, weights: Weights) -> None:
        """Check weights of features of the moses.ini.

        :raises ConfigError: if a feature has another number of weights.
        """
        self._model.configuration.with_weights(weights)

    def open(
        self, sentences: Sequence[Sentence], weights: Weights, closed: Sequence[int] = ()
    ) -> Self:
        """Read tables and language model, and make the processes: before threads are started.

        :param sentences: all that will be translated; the tables are read for these.
        :param weights: what is translated with first.
        :param closed: descriptors that the processes do not keep, such as a lock's.
        """
        tables = read_tables(self._model.configuration, sentences)
        _report_unknown(tables, sentences)
        language_model = read_language_model(self._model.configuration)
        processes = min(usable_threads(self._settings.processes), max(1, len(sentences)))
        threads = self._settings.threads or max(1, usable_threads(None) // processes)
        self._translator = translator = _SentenceTranslator(
            *(self._model, tables, language_model, self._settings, threads),
            self._settings.feature_names,
        )
        self._processes = OrderedProcesses(translator, processes, closed)
        translator.prepare(weights)
        if processes > 1 and sentences:
            # Here, so that not every process has to compile the search by itself.
            shortest = _SentenceTask(0, min(sentences, key=len), weights, None)
            replace(translator, extra=(), decoder=None)(shortest)
            collections.deque(self._processes.map([shortest]), maxlen=0)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._processes is not None:
            self._processes.__exit__(*error)

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
        self.translate(read_source(source), own, output, request, progress)

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
        assert self._processes is not None
        tasks = (_SentenceTask(at, words, weights, nbest) for at, words in enumerate(sentences))
        counts: Counter[str] = Counter()
        with ExitStack() as stack:
            target = stack.enter_context(open_output(output))
            lists = None if nbest is None else stack.enter_context(open_output(nbest.path))
            meter = stack.enter_context(
                Meter("decode", "sentences", progress, total=len(sentences))
            )
            for found in self._processes.map(tasks):
                target.write(found.output)
                if lists is not None:
                    lists.write(found.nbest)
                counts.update(found.counts)
                counts["untranslated"] += not found.found
                meter.update()
        _report(counts)
        return counts


def _report_unknown(tables: PhraseTables, sentences: Sequence[Sentence]) -> None:
    """Say how many words are copied; warn where they are more than half of all."""
    unknown = {word.decode() for word in tables.pairs.sources[tables.num_known :]}
    words = sum(map(len, sentences))
    copied = sum(word in unknown for sentence in sentences for word in sentence)
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
