"""The search of this package over a text: tables and networks loaded once, several processes."""

import collections
import functools
import itertools
import logging
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple, Self

from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.moses import NbestRequest
from moses_integration.decoder.options import OptionTable, read_language_model
from moses_integration.decoder.phrase_tables import PhraseTables, read_tables
from moses_integration.decoder.search import StackDecoder, Translation
from moses_integration.decoder.source import read_source
from moses_integration.decoder.stateful import StatefulFeature
from moses_integration.nbest_lines import format_hypothesis
from phrasescore.devices import usable_threads
from phrasescore.engines.ordered_work import OrderedProcesses
from phrasescore.io.output import open_output
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import Weights
from phrasescore.workflows.search_settings import LIMITS, SearchSettings

_logger = logging.getLogger(__name__)

Sentence = tuple[str, ...]


class _OutputLines(NamedTuple):
    """The lines that a process sends of a sentence."""

    output: bytes
    nbest: bytes
    # Whether it is ``untranslated``; of the networks the ``requests``, the ``distinct`` ones, and
    # the ``calls``.
    counts: Counter[str]


class _SentenceTask(NamedTuple):
    """A sentence to translate, and how."""

    sent_id: int
    words: Sentence
    weights: Weights
    nbest: NbestRequest | None


class _SentenceTranslator:
    """Translates sentences; loads its networks where it translates, at the first sentence.

    :param threads: CPU threads of the networks.
    """

    def __init__(
        self,
        configuration: DecoderConfiguration,
        settings: SearchSettings,
        sentences: Sequence[Sentence],
        threads: int,
    ) -> None:
        self._ini, self._settings, self._threads = configuration, settings, threads
        # For each value of each feature, whether n-best lists show it.
        self._shown = {slot.name: configuration.shown(slot) for slot in configuration.slots}
        self._shown |= dict.fromkeys(settings.feature_names, (True,))
        self._tables = read_tables(configuration, sentences)
        _report_unknown(self._tables, sentences)
        self._language_model = read_language_model(configuration)
        self._networks: Sequence[StatefulFeature] | None = None
        self._weights: Weights | None = None
        self._decoder: StackDecoder | None = None

    def prepare(self, weights: Weights) -> None:
        """Make the options that these weights choose; processes forked later share them."""
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
        """Translate a sentence without networks: the processes find the search compiled."""
        self._make_decoder().translate(words)

    def __call__(self, task: _SentenceTask) -> _OutputLines:
        """Return the lines of a sentence."""
        self.prepare(task.weights)
        if self._decoder is None:
            if self._networks is None:
                self._networks = _load_networks(self._settings, self._threads)
            features = list(zip(self._networks, self._network_weights, strict=True))
            self._decoder = self._make_decoder(features, buffer_size=self._settings.buffer_size)
        before = self._counts(self._decoder)
        size, distinct, aligned = 0, False, False
        if task.nbest is not None:
            size, distinct, aligned = task.nbest[1:]
        best = self._decoder.translate(task.words, nbest=size, distinct=distinct)
        lines = [self._hypothesis(task.sent_id, found, aligned) for found in best.nbest]
        counts = self._counts(self._decoder) - before
        counts["untranslated"] = int(not math.isfinite(best.score))
        return _OutputLines(f"{' '.join(best.words)}\n".encode(), b"".join(lines), counts)

    @staticmethod
    def _counts(decoder: StackDecoder) -> Counter[str]:
        counts: Counter[str] = Counter()
        for buffer, _ in decoder.buffers:
            counts.update(requests=buffer.requests, distinct=buffer.distinct, calls=buffer.calls)
        return counts

    def _hypothesis(self, sent_id: int, found: Translation, aligned: bool) -> bytes:
        """Return a line of a list."""
        features = []
        for (name, shown), values in zip(self._shown.items(), found.values, strict=True):
            if kept := list(itertools.compress(values, shown)):
                features.append((name, kept))
        alignment = self._alignment(found) if aligned else None
        return format_hypothesis(sent_id, found.words, features, found.score, alignment)

    def _alignment(self, found: Translation) -> str:
        """Return the word alignment of the phrase table, phrase after phrase."""
        points = []
        position = 0
        for segment in found.segments:
            inner = [point.split("-") for point in self._table.alignment(segment.option).split()]
            for source, target in sorted((int(one), int(other)) for one, other in inner):
                points.append(f"{segment.start + source}-{position + target}")
            position += len(segment.words)
        return " ".join(points)


def _load_networks(settings: SearchSettings, threads: int) -> list[StatefulFeature]:
    """Return the networks; torch is imported here, in the process that uses them."""
    if not settings.models:
        return []
    import torch

    from phrasescore.devices import choose_device
    from phrasescore.features.cslm import SearchCslm
    from phrasescore.language_models.word_scorer import CslmOptions
    from phrasescore.models.checkpoint import load_checkpoint

    torch.set_num_threads(threads)
    device = choose_device(settings.device)
    options = CslmOptions(normalized=not settings.unnormalized, backoff=settings.backoff_lm)
    return [
        SearchCslm(load_checkpoint(model), device, options=options, name=name)
        for name, model in zip(settings.feature_names, settings.models, strict=True)
    ]


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
        configuration = DecoderConfiguration.read(ini_path, settings.ignore)
        limits = {LIMITS[section]: value for section, value in settings.limits().items()}
        self._configuration = configuration.with_limits(**limits)
        self._processes: OrderedProcesses[_SentenceTask, _OutputLines] | None = None

    @property
    def ini_features(self) -> list[str]:
        """The features of the moses.ini."""
        return [slot.name for slot in self._configuration.slots]

    @property
    def feature_names(self) -> list[str]:
        """The features that it has weights for."""
        return [*self.ini_features, *self._settings.feature_names]

    def open(
        self, sentences: Sequence[Sentence], weights: Weights, closed: Sequence[int] = ()
    ) -> Self:
        """Read tables and language model, and make the processes: before threads are started.

        :param sentences: all that will be translated; the tables are read for these.
        :param weights: what is translated with first.
        :param closed: descriptors that the processes do not keep, such as a lock's.
        """
        own = {name: weights[name] for name in weights if name in self.ini_features}
        self._configuration.with_weights(own)  # an error comes before the long work
        processes = min(usable_threads(self._settings.processes), max(1, len(sentences)))
        threads = self._settings.threads or max(1, usable_threads(None) // processes)
        translator = _SentenceTranslator(self._configuration, self._settings, sentences, threads)
        self._processes = OrderedProcesses(translator, processes, closed)
        translator.prepare(weights)
        if processes > 1 and sentences:
            # Here, so that not every process has to compile the search by itself.
            shortest = min(sentences, key=len)
            translator.compile(shortest)
            first = _SentenceTask(0, shortest, weights, None)
            collections.deque(self._processes.map([first]), maxlen=0)
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
