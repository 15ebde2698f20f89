"""Translate one sentence at a time with the embedded search; a worker's part of all translation."""

import itertools
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from moses_integration.alignments import PhraseSpan, format_segmentation
from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.moses import NbestRequest
from moses_integration.decoder.options import OptionTable, read_language_models
from moses_integration.decoder.phrase_options import PhraseOptions
from moses_integration.decoder.search import Derivation, StackDecoder
from moses_integration.decoder.stack_search import StatefulFeature
from moses_integration.nbest_lines import format_hypothesis
from phrasescore.io.output import optional_path
from phrasescore.records import Weights
from phrasescore.settings.kinds import KINDS
from phrasescore.workflows.search_settings import LIMITS, SearchSettings

Sentence = tuple[str, ...]


class OutputLines(NamedTuple):
    """The output lines for a sentence: its translation and its n-best list."""

    output: bytes
    nbest: bytes
    counts: Counter[str]  # the counts that `EmbeddedSearch.translate` returns


class SentenceTask(NamedTuple):
    """A sentence to translate, as sent to a worker."""

    sent_id: int
    words: Sentence
    weights: Weights
    nbest: NbestRequest | None


def read_configuration(
    ini_path: str, settings: SearchSettings, paths_from: Path | None = None
) -> DecoderConfiguration:
    """Read a moses.ini, and apply the limits in the settings.

    :param paths_from: the folder of relative paths in the moses.ini; None for the working folder.
    """
    limits = {LIMITS[section]: value for section, value in settings.limits().items()}
    return DecoderConfiguration.read(ini_path, settings.ignore, paths_from).with_limits(**limits)


class SentenceTranslator(ABC):
    """Translates sentences; each worker loads the networks on its first sentence."""

    def __init__(
        self, configuration: DecoderConfiguration, settings: SearchSettings, threads: int
    ) -> None:
        self._ini, self._settings, self._threads = configuration, settings, threads
        # For each value of each feature, whether it appears in n-best lists.
        self._shown = {slot.name: configuration.shown(slot) for slot in configuration.slots}
        self._shown |= dict.fromkeys(settings.feature_names, (True,))
        self._aligned = any(KINDS[kind].is_aligned for kind in settings.features)
        self._language_model = read_language_models(configuration)
        self._networks: Sequence[StatefulFeature] | None = None
        self._table: OptionTable  # the options of the latest sentence

    @abstractmethod
    def _decoder_of(self, task: SentenceTask) -> StackDecoder:
        """Return the decoder for a sentence, and set the options."""

    def _network_weights(self, weights: Weights) -> list[float]:
        return [weights.get(name, (0.0,))[0] for name in self._settings.feature_names]

    def _own_weights(self, weights: Weights) -> Weights:
        extra = self._settings.feature_names
        return {name: values for name, values in weights.items() if name not in extra}

    def _features(self, weights: Weights) -> list[tuple[StatefulFeature, float]]:
        return list(zip(self.load_networks(), self._network_weights(weights), strict=True))

    def load_networks(self) -> Sequence[StatefulFeature]:
        """Return the networks, which are loaded once."""
        if self._networks is None:
            self._networks = _load_networks(self._settings, self._threads)
        return self._networks

    def translate(self, task: SentenceTask) -> OutputLines:
        """Return a sentence's lines."""
        return self.lines(task, *self.search(task))

    def search(self, task: SentenceTask) -> tuple[Derivation, Counter[str]]:
        """Return a sentence's translation, with its n-best list, and the counts of its lines."""
        decoder = self._decoder_of(task)
        before = self._counts(decoder)
        size, distinct = (0, False) if task.nbest is None else task.nbest[1:3]
        best = decoder.translate(task.words, nbest=size, distinct=distinct)
        if self._ini.characters:
            best = best.of_characters(distinct=distinct)
        counts = self._counts(decoder) - before
        counts["untranslated"] = int(not math.isfinite(best.score))
        return best, counts

    def lines(self, task: SentenceTask, best: Derivation, counts: Counter[str]) -> OutputLines:
        """Return the lines of what `search` returned for the latest sentence."""
        lines = [self._hypothesis(task, found) for found in best.nbest]
        return OutputLines(f"{' '.join(best.words)}\n".encode(), b"".join(lines), counts)

    def values(self, found: Derivation) -> dict[str, tuple[float, ...]]:
        """Return the values of all features, also of those that n-best lists omit."""
        return dict(zip(self._shown, found.values, strict=True))

    @staticmethod
    def _counts(decoder: StackDecoder) -> Counter[str]:
        counts: Counter[str] = Counter()
        for buffer, _ in decoder.buffers:
            counts.update(requests=buffer.requests, distinct=buffer.distinct, calls=buffer.calls)
        return counts

    def _hypothesis(self, task: SentenceTask, found: Derivation) -> bytes:
        assert task.nbest is not None
        features = [
            (name, kept)
            for (name, shown), values in zip(self._shown.items(), found.values, strict=True)
            if (kept := list(itertools.compress(values, shown)))
        ]
        return format_hypothesis(
            task.sent_id,
            found.words,
            features,
            found.score,
            alignment=self._alignment(found) if task.nbest.alignment else None,
            segmentation=self._segmentation(found) if task.nbest.segmentation else None,
        )

    @staticmethod
    def _segmentation(found: Derivation) -> str:
        ends = itertools.accumulate(len(segment.words) for segment in found.segments)
        return format_segmentation(
            [
                PhraseSpan(segment.start, segment.end, end - len(segment.words), end)
                for segment, end in zip(found.segments, ends, strict=True)
            ]
        )

    def _alignment(self, found: Derivation) -> str:
        points, position = [], 0
        for segment in found.segments:
            inner = [point.split("-") for point in self._table.alignment(segment.option).split()]
            for source, target in sorted((int(one), int(other)) for one, other in inner):
                points.append(f"{segment.start + source}-{position + target}")
            position += len(segment.words)
        return " ".join(points)


class StreamTranslator(SentenceTranslator):
    """Translates sentences that are not known in advance, under one set of weights.

    :param sentences: the sentences, if they are known: the tables are read for them.
    """

    def __init__(
        self,
        configuration: DecoderConfiguration,
        settings: SearchSettings,
        weights: Weights,
        sentences: Sequence[Sentence] | None,
        *,
        threads: int,
    ) -> None:
        super().__init__(configuration, settings, threads)
        self._weights = weights
        self._weighted = configuration.with_weights(self._own_weights(weights))
        self._options = PhraseOptions(
            configuration, self._language_model, aligned=self._aligned, sentences=sentences
        )
        self._options.use(self._weighted, sum(self._network_weights(weights)))
        self._example = ("a", "b") if sentences is None else max(sentences, key=len, default=())[:2]

    def compile(self) -> None:
        """Compile the search by translating a sentence without networks."""
        decoder = StackDecoder(
            self._weighted, self._options.of(self._example), self._language_model
        )
        decoder.translate(self._example, nbest=2, distinct=True)

    def _decoder_of(self, task: SentenceTask) -> StackDecoder:
        self._table = self._options.of(task.words)
        return StackDecoder(
            self._weighted,
            self._table,
            self._language_model,
            self._features(self._weights),
            buffer_size=self._settings.buffer_size,
        )


def _load_networks(settings: SearchSettings, threads: int) -> list[StatefulFeature]:
    """Return the networks; torch is imported here, in the process that uses it."""
    if not settings.models:
        return []
    import torch

    from phrasescore.devices import choose_device
    from phrasescore.features.search_network import SearchCslm, SearchJoint
    from phrasescore.language_models.word_scorer import CslmOptions
    from phrasescore.models.checkpoint import load_checkpoint

    torch.set_num_threads(threads)
    device = choose_device(settings.device)
    backoff = optional_path(settings.backoff_lm)
    options = CslmOptions(normalized=not settings.unnormalized, backoff=backoff)
    return [
        (SearchJoint if KINDS[kind].is_aligned else SearchCslm)(
            load_checkpoint(model), device, options=options, name=name
        )
        for kind, name, model in zip(
            settings.features, settings.feature_names, settings.models, strict=True
        )
    ]
