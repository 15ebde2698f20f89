"""The work of the embedded search: each worker translates one sentence after another."""

import functools
import itertools
import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.moses import NbestRequest
from moses_integration.decoder.options import OptionTable, read_language_model
from moses_integration.decoder.phrase_tables import read_tables
from moses_integration.decoder.search import StackDecoder, Translation
from moses_integration.decoder.stateful import StatefulFeature
from moses_integration.nbest_lines import format_hypothesis
from moses_integration.segmentation import PhraseSpan, format_segmentation
from phrasescore.errors import DataError
from phrasescore.records import Weights
from phrasescore.settings.compute import EngineName
from phrasescore.settings.kinds import KINDS
from phrasescore.workflows.search_settings import LIMITS, SearchSettings

Sentence = tuple[str, ...]


class OutputLines(NamedTuple):
    """The lines that a worker sends of a sentence."""

    output: bytes
    nbest: bytes
    # Whether it is ``untranslated``; of the networks the ``requests``, the ``distinct`` ones, and
    # the ``calls``.
    counts: Counter[str]


class SentenceTask(NamedTuple):
    """A sentence to translate, and how."""

    sent_id: int
    words: Sentence
    weights: Weights
    nbest: NbestRequest | None


@dataclass(frozen=True)
class SearchWork:
    """Translation by a moses.ini: the work of an engine's workers.

    Each loads tables, language model and networks. Processes share the first two, which the one
    that they are forked from has loaded.
    """

    ini_path: str
    # Where the relative paths begin.
    folder: str
    settings: SearchSettings
    # All that will be translated: the tables are read for these.
    sentences: Sequence[Sentence]
    # What is translated with first.
    weights: Weights
    # CPU threads of the networks in each worker.
    threads: int
    engine: EngineName

    @property
    def device(self) -> str:
        """Where the networks run."""
        return self.settings.device if self.settings.models else "cpu"

    def load(self) -> "SentenceTranslator":
        """Read tables and language model.

        :raises PhrasescoreError: if a file is not there, or not what it should be.
        """
        if self.engine == "ray":
            try:
                os.chdir(self.folder)  # the process is the worker's own
            except OSError as error:
                raise DataError(self.folder, None, f"cannot be entered: {error}") from error
        translator = SentenceTranslator(self)
        translator.prepare(self.weights)
        if self.engine == "ray":
            # Now: workers may differ in the version of torch.
            translator.load_networks()
        elif self.engine == "processes" and self.sentences:
            # Before the fork, so that not every process has to compile the search by itself.
            translator.compile(min(self.sentences, key=len))
        return translator


def read_configuration(ini_path: str, settings: SearchSettings) -> DecoderConfiguration:
    """Read a moses.ini, with the limits of the settings.

    :raises ConfigError: if it has something that this search lacks.
    """
    limits = {LIMITS[section]: value for section, value in settings.limits().items()}
    return DecoderConfiguration.read(ini_path, settings.ignore).with_limits(**limits)


class SentenceTranslator:
    """Translates sentences; loads its networks where it translates, at the first sentence."""

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
        """Make the options that these weights choose."""
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
            self._networks = _load_networks(self._settings, self._threads)
        return self._networks

    def __call__(self, task: SentenceTask | None) -> OutputLines:
        """Return the lines of a sentence; of None, how many words of the text are ``copied``."""
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
        """Return a line of a list."""
        assert task.nbest is not None
        features = []
        for (name, shown), values in zip(self._shown.items(), found.values, strict=True):
            if kept := list(itertools.compress(values, shown)):
                features.append((name, kept))
        return format_hypothesis(
            *(task.sent_id, found.words, features, found.score),
            alignment=self._alignment(found) if task.nbest.alignment else None,
            segmentation=_segmentation(found) if task.nbest.segmentation else None,
        )

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


def _segmentation(found: Translation) -> str:
    """Return the phrases, in the order of the target."""
    ends = itertools.accumulate(len(segment.words) for segment in found.segments)
    return format_segmentation(
        [
            PhraseSpan(segment.start, segment.end, end - len(segment.words), end)
            for segment, end in zip(found.segments, ends, strict=True)
        ]
    )


def _load_networks(settings: SearchSettings, threads: int) -> list[StatefulFeature]:
    """Return the networks; torch is imported here, in the process that uses them."""
    if not settings.models:
        return []
    import torch

    from phrasescore.devices import choose_device
    from phrasescore.features.cslm import SearchCslm
    from phrasescore.features.joint import SearchJoint
    from phrasescore.language_models.word_scorer import CslmOptions
    from phrasescore.models.checkpoint import load_checkpoint

    torch.set_num_threads(threads)
    device = choose_device(settings.device)
    options = CslmOptions(normalized=not settings.unnormalized, backoff=settings.backoff_lm)
    return [
        (SearchJoint if KINDS[kind].is_aligned else SearchCslm)(
            load_checkpoint(model), device, options=options, name=name
        )
        for kind, name, model in zip(
            settings.features, settings.feature_names, settings.models, strict=True
        )
    ]
