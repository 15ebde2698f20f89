"""N-best lists in memory, as a network learns from them: pairs of ids, scores and gains.

A list takes about 4 bytes per word of its pairs and 50 per hypothesis.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phrasescore.devices import move
from phrasescore.io.ragged import Array, Indices, RaggedArray, RaggedBuilder
from phrasescore.models.batches import PairBatch
from phrasescore.training.pair_store import Pairs


class KnownScores(NamedTuple):
    """What is known about the hypotheses of some lists without the network."""

    # (hypotheses,) float64: the log-linear model's score without the network's feature.
    model_scores: Tensor
    # (hypotheses,) float64: sentence BLEU, about 0 to 1.
    gains: Tensor
    # (hypotheses,) int64: the list of each, counted from 0.
    lists: Tensor
    num_lists: int


class ListBatch(NamedTuple):
    """Some lists."""

    # Distinct pairs of the hypotheses.
    pairs: PairBatch
    # (parts,) both: a hypothesis' value is the sum over its parts, each of which is a pair.
    part_pairs: Tensor
    part_hypotheses: Tensor
    scores: KnownScores
    # Pairs whose likelihood is part of the loss.
    taught: PairBatch

    def pin_memory(self) -> "ListBatch":
        """Return the batch with its words where a CUDA device can fetch them by itself."""
        return self._replace(pairs=self.pairs.pin_memory(), taught=self.taught.pin_memory())

    def to(self, device: torch.device) -> "ListBatch":
        """Return the batch on ``device``."""
        model_scores, gains, lists, size = self.scores
        pairs, hypotheses, lists = move(device, self.part_pairs, self.part_hypotheses, lists)
        model_scores, gains = move(device, model_scores, gains)
        scores = KnownScores(model_scores, gains, lists, size)
        return ListBatch(self.pairs.to(device), pairs, hypotheses, scores, self.taught.to(device))

    def values(self, log_probs: Tensor) -> Tensor:
        """Return the value of each hypothesis, ``(hypotheses,)`` float64.

        :param log_probs: of the pairs.
        """
        parts = log_probs.double().index_select(0, self.part_pairs)
        zeros = parts.new_zeros(len(self.scores.gains))
        return zeros.index_add(0, self.part_hypotheses, parts)


@dataclass(frozen=True)
class ListStore:
    """Pairs grouped into hypotheses, and these into lists, in the order of the sentences."""

    pairs: Pairs
    # The pairs of each hypothesis, at least one.
    parts: RaggedArray
    # The hypotheses of each list, at least one.
    hypotheses: RaggedArray
    # The pairs of each list whose likelihood is part of the loss, at least one.
    taught: RaggedArray
    # (hypotheses,) float64 both: scores by the log-linear model without the network, and sentence
    # BLEU, which is 1 for a reference.
    model_scores: Array
    gains: Array
    # What the lists were made from, by name: all that scores and gains depend on.
    inputs: dict[str, str]

    def __len__(self) -> int:
        """Return the number of lists."""
        return len(self.hypotheses)

    def lengths(self, rows: Indices) -> tuple[Indices, Indices]:
        """Return the number of hypotheses in some lists, twice: the draw sorts by it."""
        sizes = self.hypotheses.lengths_of(rows)
        return sizes, sizes

    def batch(self, rows: Indices) -> ListBatch:
        """Return the lists of these indices, in their order."""
        hypotheses = self.hypotheses.take(rows)
        parts = self.parts.take(hypotheses.values)
        pairs, part_pairs = np.unique(parts.values, return_inverse=True)
        return ListBatch(
            self.pairs.batch(pairs),
            torch.from_numpy(part_pairs),
            torch.from_numpy(parts.owners()),
            KnownScores(
                torch.from_numpy(self.model_scores[hypotheses.values]),
                torch.from_numpy(self.gains[hypotheses.values]),
                torch.from_numpy(hypotheses.owners()),
                len(rows),
            ),
            self.pairs.batch(np.unique(self.taught.take(rows).values)),
        )


class ListStoreBuilder:
    """Collects pairs and lists of them, without a Python object for each."""

    def __init__(self) -> None:
        self._sources, self._targets, self._affiliations = (RaggedBuilder() for _ in range(3))
        self._parts, self._taught = RaggedBuilder(), RaggedBuilder()
        self._sizes, self._scores = array("i"), array("d")

    def __len__(self) -> int:
        """Return the number of lists."""
        return len(self._sizes)

    def add_pair(
        self, read: Sequence[int], predicted: Sequence[int], affiliations: Sequence[int] = ()
    ) -> int:
        """Add a pair of ids; return its index.

        :param affiliations: for a joint model, of each target word.
        """
        self._sources.add(read)
        self._affiliations.add(affiliations)
        return self._targets.add(predicted)

    def add_list(
        self, model_scores: Sequence[float], pairs: Sequence[Sequence[int]], taught: Sequence[int]
    ) -> None:
        """Add a list of at least one hypothesis; see `ListStore`."""
        self._sizes.append(len(model_scores))
        self._scores.extend(model_scores)
        for row in pairs:
            self._parts.add(row)
        self._taught.add(taught)

    def build(self, gains: Sequence[float], inputs: dict[str, str]) -> ListStore:
        """Return the store.

        :param gains: of all hypotheses.
        :param inputs: see `ListStore`.
        """
        affiliations = self._affiliations.build()
        return ListStore(
            Pairs(
                self._sources.build(),
                self._targets.build(),
                affiliations if len(affiliations.values) else None,
            ),
            self._parts.build(),
            RaggedArray.from_lengths(np.arange(len(gains)), np.array(self._sizes)),
            self._taught.build(),
            np.array(self._scores),
            np.array(gains, np.float64),
            inputs,
        )
