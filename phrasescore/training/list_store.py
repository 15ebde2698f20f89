"""N-best lists in memory as a network learns from them: pairs of ids, scores and gains.

A list takes about 4 bytes per word of its pairs and 30 per hypothesis.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from phrasescore.devices import move
from phrasescore.models.batches import BatchSide, PairBatch
from phrasescore.training.expected_bleu import KnownScores
from phrasescore.training.pair_store import Indices
from phrasescore.vocabulary import Vocabulary


class RaggedRows(NamedTuple):
    """Rows of unlike length, one after another."""

    values: Indices
    # (rows + 1,)
    starts: Indices

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Self:
        """Return rows of numbers below 2^31."""
        rows = list(rows)
        starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return cls(np.fromiter(chain.from_iterable(rows), np.int32, int(starts[-1])), starts)

    def lengths(self, indices: Indices) -> Indices:
        """Return the lengths of some rows."""
        lengths: Indices = self.starts[indices + 1] - self.starts[indices]
        return lengths

    def take(self, indices: Indices) -> "RaggedRows":
        """Return some rows, in the order of their indices; one may come twice."""
        lengths = self.lengths(indices)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.starts[indices] - starts[:-1], lengths) + np.arange(starts[-1])
        return RaggedRows(self.values[places].astype(np.int64), starts)

    def side(self, indices: Indices) -> BatchSide:
        """Return some rows, which are words, as a side of a batch."""
        words, starts = self.take(indices)
        ids = np.insert(words, starts[1:], Vocabulary.END)
        return BatchSide(torch.from_numpy(ids), torch.from_numpy(np.diff(starts)))


class ListBatch(NamedTuple):
    """Some lists."""

    # Distinct pairs of the hypotheses.
    pairs: PairBatch
    # (parts,) both: a hypothesis' value is the sum over its parts, each of which is a pair.
    part_pairs: Tensor
    part_hypotheses: Tensor
    scores: KnownScores
    # Pairs whose likelihood is kept up.
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


class HypothesisRecord(NamedTuple):
    """A hypothesis of a list."""

    # Of the log-linear model without the network.
    model_score: float
    # Sentence BLEU, 0 to 1.
    gain: float
    # Places of pairs, one at least.
    pairs: Sequence[int]


class ListStore:
    """Lists by their index, from 0 on in the order of their sentences.

    :param sources: ids of the read side of each pair; a pair is a place in both.
    :param targets: ids of the predicted side.
    :param lists: the hypotheses of each list, one at least.
    :param taught: of each list the pairs whose likelihood is kept up, one at least.
    """

    def __init__(
        self,
        sources: Iterable[Sequence[int]],
        targets: Iterable[Sequence[int]],
        lists: Sequence[Sequence[HypothesisRecord]],
        taught: Iterable[Sequence[int]],
    ) -> None:
        self._sources, self._targets = RaggedRows.of(sources), RaggedRows.of(targets)
        self._taught = RaggedRows.of(taught)
        hypotheses = list(chain.from_iterable(lists))
        self._starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        self._model_scores = np.array([each.model_score for each in hypotheses])
        self._gains = np.array([each.gain for each in hypotheses])
        self._parts = RaggedRows.of(each.pairs for each in hypotheses)

    def __len__(self) -> int:
        """Return the number of lists."""
        return len(self._starts) - 1

    @property
    def num_hypotheses(self) -> int:
        """The hypotheses of all lists."""
        return len(self._gains)

    def lengths(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return the hypotheses of each list, twice: that is how large it is."""
        sizes = self._starts[indices + 1] - self._starts[indices]
        return sizes, sizes

    def batch(self, indices: Indices) -> ListBatch:
        """Return the lists of these indices, in their order."""
        sizes, _ = self.lengths(indices)
        rows = np.repeat(self._starts[indices] - np.cumsum(sizes) + sizes, sizes)
        rows = rows + np.arange(len(rows))  # (hypotheses,)
        parts = self._parts.take(rows)
        pairs, places = np.unique(parts.values, return_inverse=True)
        taught = np.unique(self._taught.take(indices).values)
        owners = np.repeat(np.arange(len(rows)), np.diff(parts.starts))
        return ListBatch(
            self._pairs(pairs),
            torch.from_numpy(places),
            torch.from_numpy(owners),
            KnownScores(
                torch.from_numpy(self._model_scores[rows]),
                torch.from_numpy(self._gains[rows]),
                torch.from_numpy(np.repeat(np.arange(len(indices)), sizes)),
                len(indices),
            ),
            self._pairs(taught),
        )

    def _pairs(self, places: Indices) -> PairBatch:
        return PairBatch(self._sources.side(places), self._targets.side(places))
