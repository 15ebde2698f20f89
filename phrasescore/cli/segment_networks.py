"""The networks of ``phrasescore segment``: checked, and with threads for many spans."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch

from phrasescore.config.settings import LANGUAGE_MODELS
from phrasescore.errors import ModelError
from phrasescore.features.sentences import SentenceScores
from phrasescore.generation.beam_search import BeamSettings
from phrasescore.generation.generator import Generated, Generator
from phrasescore.generation.streams import best_targets
from phrasescore.models.checkpoint import REVERSE, Checkpoint, load_checkpoint
from phrasescore.records import HypothesisList

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from phrasescore.kernels.precision import PrecisionName


def load_forward(path: str) -> Checkpoint:
    """Return the model that translates spans.

    :raises ModelError: if it translates nothing, or the other way round.
    """
    checkpoint = load_checkpoint(path)
    _check_kind("--model", path, checkpoint)
    if checkpoint.reverse:
        problem = "expected a model that predicts the target, found one trained with --reverse"
        raise ModelError(f"--model {path}: {problem}; is it the --reverse-model?")
    return checkpoint


def load_back(path: str, forward: Checkpoint, *, swapped: bool) -> Checkpoint:
    """Return the model that scores spans given their translations, as one trained in reverse.

    :param swapped: it was trained without ``--reverse``, on the texts in the other order.
    :raises ModelError: if it scores nothing, or the same way round as ``forward``.
    """
    name = f"--reverse-model {path}"
    checkpoint = load_checkpoint(path)
    _check_kind("--reverse-model", path, checkpoint)
    if swapped and checkpoint.reverse:
        raise ModelError(f"{name}: trained with --reverse, so that it is not --swapped")
    if not swapped and not checkpoint.reverse:
        raise ModelError(
            f"{name}: expected a model trained with --reverse, found one that predicts its second "
            "text; if that was the source, say --swapped"
        )
    read, source, target = (
        {vocabulary.word(number) for number in range(len(vocabulary))}
        for vocabulary in (
            checkpoint.source_vocabulary,
            forward.source_vocabulary,
            forward.target_vocabulary,
        )
    )
    if len(read & source) > len(read & target):
        raise ModelError(
            f"{name}: expected a model that reads what --model writes, found one that has "
            f"{len(read & source):,} of the words that --model reads and {len(read & target):,} of "
            "those that it writes"
        )
    return dataclasses.replace(
        checkpoint, record=dataclasses.replace(checkpoint.record, direction=REVERSE)
    )


def _check_kind(option: str, path: str, checkpoint: Checkpoint) -> None:
    kind = checkpoint.config.kind
    if kind in LANGUAGE_MODELS:
        problem = f"expected a model that reads one text and predicts the other, found a {kind}"
        raise ModelError(f"{option} {path}: {problem}, which knows one language")


class Translator:
    """Finds translations of spans by beam search, in several threads.

    What a span gets depends on the span alone.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        settings: BeamSettings,
        *,
        precision: "PrecisionName",
        threads: int,
    ) -> None:
        self._generator = Generator([checkpoint], device, precision=precision)
        self._settings = settings
        self._threads = threads

    def __call__(self, spans: Sequence[tuple[str, ...]]) -> list[list[Generated]]:
        """Return the best translations of each span, the best first."""
        return list(best_targets(self._generator, spans, self._settings, threads=self._threads))


class BackScorer:
    """Scores spans given their translations, in several threads."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        *,
        precision: "PrecisionName",
        threads: int,
    ) -> None:
        self._scores = SentenceScores([checkpoint], device, precision=precision, threads=threads)

    def __call__(self, lists: Iterable[HypothesisList]) -> list[list[float]]:
        """Return log q(span ``</s>`` | translation) of each translation of each span."""
        columns: list[NDArray] = [found.columns[0] for found in self._scores.values(lists)]  # type: ignore[type-arg]
        return [column.tolist() for column in columns]
