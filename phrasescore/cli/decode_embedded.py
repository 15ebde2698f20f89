"""The embedded search as ``phrasescore decode`` runs it: several processes, one order."""

import collections
import logging
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.moses_engine import Lists
from moses_integration.decoder.options import (
    OptionTable,
    PhraseTables,
    read_language_model,
    read_tables,
)
from moses_integration.decoder.search import StackDecoder, Translation
from moses_integration.moses_ini import MosesIni
from moses_integration.nbest_lines import format_hypothesis
from moses_integration.weights import Weights
from phrasescore.cli.progress import show_progress
from phrasescore.cli.source_words import is_foreign
from phrasescore.engines.ordered_work import OrderedProcesses
from phrasescore.io.output import open_output
from phrasescore.progress import Meter

if TYPE_CHECKING:
    from moses_integration.decoder.language_model import NgramModel
    from moses_integration.decoder.stateful import StatefulFeature

_logger = logging.getLogger(__name__)

Sentence = tuple[str, ...]


class SearchFeature(NamedTuple):
    """A feature of the search that moses.ini does not have."""

    # In n-best lists.
    name: str
    # The folder of its model.
    model: str
    device: str
    # Of a cslm: an n-gram model for the words outside its shortlist, and whether log Z is left out.
    backoff_lm: str | None = None
    unnormalized: bool = False

    def load(self, threads: int) -> "StatefulFeature":
        """Load its network."""
        import torch

        from phrasescore.devices import choose_device
        from phrasescore.features.cslm import CslmOptions, SearchCslm
        from phrasescore.models.checkpoint import load_checkpoint

        torch.set_num_threads(threads)
        device = choose_device(self.device)
        options = CslmOptions(normalized=not self.unnormalized, backoff=self.backoff_lm)
        return SearchCslm(load_checkpoint(self.model), device, options=options, name=self.name)


class Settings(NamedTuple):
    """How translating is done; no translation depends on it."""

    processes: int = 1
    # Of the networks in each process.
    threads: int = 1
    # Requests to a network that are passed on together.
    buffer_size: int = 4096


class Translated(NamedTuple):
    """What a process sends of a sentence."""

    output: bytes
    nbest: bytes
    # Whether there is a translation at all.
    found: bool
    # Of the networks: requests, those that were passed on, and calls.
    counts: dict[str, int]


class Task(NamedTuple):
    """A sentence to translate, and how."""

    sent_id: int
    words: Sentence
    weights: Weights
    lists: Lists | None


@dataclass
class Work:
    """Translates a sentence; the networks are loaded where it is done, at the first sentence."""

    engine: "EmbeddedEngine"
    tables: PhraseTables
    model: "NgramModel"
    extra: Sequence[SearchFeature]
    settings: Settings
    # The weights of the table and the decoder; others are made when a task has other weights.
    weights: Weights | None = None
    table: OptionTable | None = None
    decoder: StackDecoder | None = None
    networks: "Sequence[StatefulFeature] | None" = None
    _configuration: DecoderConfiguration | None = None

    def prepare(self, weights: Weights) -> None:
        """Make the options that these weights choose; processes forked later share them."""
        if weights != self.weights:
            own = {name: value for name, value in weights.items() if name not in self._extra_names}
            self._configuration = self.engine.with_weights(own).configuration
            other = sum(self._extra_weights(weights))
            self.table = OptionTable(self._configuration, self.model, self.tables, other)
            self.weights, self.decoder = weights, None

    def __call__(self, task: Task) -> Translated:
        """Return the lines of a sentence."""
        self.prepare(task.weights)
        if self.decoder is None:
            self.decoder = self._load()
        before = self._counts()
        if task.lists is None:
            best = self.decoder.translate(task.words)
        else:
            size, distinct = task.lists.size, task.lists.distinct
            best = self.decoder.translate(task.words, nbest=size, distinct=distinct)
        aligned = task.lists is not None and task.lists.alignment
        lines = [self._hypothesis(task.sent_id, found, aligned) for found in best.nbest]
        output = f"{' '.join(best.words)}\n".encode()
        counts = dict(self._counts() - before)
        return Translated(output, b"".join(lines), math.isfinite(best.score), counts)

    @property
    def _extra_names(self) -> list[str]:
        return [feature.name for feature in self.extra]

    def _extra_weights(self, weights: Weights) -> list[float]:
        return [weights.get(name, (0.0,))[0] for name in self._extra_names]

    def _load(self) -> StackDecoder:
        assert self.weights is not None
        assert self.table is not None
        assert self._configuration is not None
        if self.networks is None:
            self.networks = [each.load(self.settings.threads) for each in self.extra]
        features = list(zip(self.networks, self._extra_weights(self.weights), strict=True))
        size = self.settings.buffer_size
        return StackDecoder(self._configuration, self.table, self.model, features, buffer_size=size)

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
        shown = (*self.engine.shown, *((True,) for _ in self.extra))
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


@dataclass(frozen=True)
class EmbeddedEngine:
    """A moses.ini that the embedded search follows."""

    configuration: DecoderConfiguration
    # For each value of each feature, whether n-best lists show it.
    shown: tuple[tuple[bool, ...], ...]

    @classmethod
    def read(cls, path: str, ignore: Sequence[str], limits: dict[str, Any]) -> "EmbeddedEngine":
        """Read a moses.ini.

        :param limits: of the search, by the fields of SearchSettings; None for those that stay.
        :raises ConfigError: if it has what this search has not.
        """
        configuration = DecoderConfiguration.read(path, ignore)
        given = {name: value for name, value in limits.items() if value is not None}
        configuration = replace(configuration, search=replace(configuration.search, **given))
        configuration.search.check_supported(path)  # before anything is loaded
        ini = MosesIni.read(path)
        shown = tuple(
            ini.shown_components(slot.name, len(slot.weights)) for slot in configuration.slots
        )
        return cls(configuration, shown)

    @property
    def feature_names(self) -> list[str]:
        """The features of the moses.ini."""
        return [slot.name for slot in self.configuration.slots]

    def with_weights(self, weights: Weights) -> "EmbeddedEngine":
        """Return the same with other weights."""
        if not weights:
            return self
        return replace(self, configuration=self.configuration.with_weights(weights))


class EmbeddedSearch:
    """The embedded search over the sentences of a text: a context manager.

    Tables and language model are read once, for these sentences; each process keeps its networks.

    :param extra: features beside those of the moses.ini.
    :param closed: descriptors that its processes do not keep.
    """

    def __init__(
        self,
        engine: EmbeddedEngine,
        sentences: Sequence[Sentence],
        extra: Sequence[SearchFeature],
        settings: Settings,
        closed: Sequence[int] = (),
    ) -> None:
        tables = read_tables(engine.configuration, sentences)
        _report_unknown(tables, sentences)
        model = read_language_model(engine.configuration)
        self._work = Work(engine, tables, model, extra, settings)
        self._processes = OrderedProcesses(self._work, settings.processes, closed)
        self._settings = settings

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._processes.__exit__(*error)

    @property
    def feature_names(self) -> list[str]:
        """The features that it has weights for."""
        return [*self._work.engine.feature_names, *(each.name for each in self._work.extra)]

    def start(self, weights: Weights, sentences: Sequence[Sentence]) -> None:
        """Make what processes share, and the processes: before anything here starts threads."""
        self._work.prepare(weights)
        if self._settings.processes > 1 and sentences:
            # Here, so that not every process has to compile the search by itself.
            shortest = Task(0, min(sentences, key=len), weights, None)
            replace(self._work, extra=(), decoder=None)(shortest)
            collections.deque(self._processes.map([shortest]), maxlen=0)

    def translate(
        self, sentences: Sequence[Sentence], weights: Weights, output: str, lists: Lists | None
    ) -> None:
        """Translate sentences; files appear whole, and only if all went well.

        :param sentences: of those that the tables were read for.
        :param weights: those of the moses.ini where it names none.
        :param output: a line a sentence.
        """
        tasks = (Task(at, words, weights, lists) for at, words in enumerate(sentences))
        counts: Counter[str] = Counter()
        with ExitStack() as stack:
            target = stack.enter_context(open_output(output))
            nbest = None if lists is None else stack.enter_context(open_output(lists.path))
            progress = Meter("decode", "sentences", show_progress, total=len(sentences))
            stack.enter_context(progress)
            for found in self._processes.map(tasks):
                target.write(found.output)
                if nbest is not None:
                    nbest.write(found.nbest)
                counts.update(found.counts)
                counts["untranslated"] += not found.found
                progress.update()
        _report(counts)


def _report_unknown(tables: PhraseTables, sentences: Sequence[Sentence]) -> None:
    unknown = {word.decode() for word in tables.pairs.sources[tables.num_known :]}
    words = sum(map(len, sentences))
    copied = sum(word in unknown for sentence in sentences for word in sentence)
    line = f"{copied:,} of {words:,} source words are no phrase of the table, and are copied"
    if is_foreign(copied, words):
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
