"""N-best lists in memory as a network learns from them: pairs of ids, scores and gains.

A list takes about 4 bytes per word of its pairs and 50 per hypothesis.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phrasescore.devices import move
from phrasescore.models.batches import BatchSide, PairBatch, absolute_affiliations
from phrasescore.training.expected_bleu import KnownScores
from phrasescore.training.pair_store import Indices
from phrasescore.vocabulary import Vocabulary


class RaggedRows(NamedTuple):
    """Rows of unlike length, one after another."""

    values: Indices
    # (rows + 1,)
    starts: Indices

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


class RowsBuilder:
    """Rows that grow, without an object per row."""

    def __init__(self) -> None:
        self._values, self._lengths = array("i"), array("i")

    def add(self, row: Sequence[int]) -> int:
        """Add a row of numbers below 2^31; return its place."""
        self._values.extend(row)
        self._lengths.append(len(row))
        return len(self._lengths) - 1

    def build(self) -> RaggedRows:
        """Return the rows."""
        starts = np.cumsum([0, *self._lengths], dtype=np.int64)
        return RaggedRows(np.array(self._values, np.int32), starts)


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


class ListStore:
    """Lists by their index, from 0 on in the order of their sentences.

    Lists are added first, and their gains are set, before any is taken out.
    """

    def __init__(self) -> None:
        self._builders = [RowsBuilder() for _ in range(5)]
        self._sizes, self._scores = array("i"), array("d")
        self._gains = np.empty(0)

    def add_pair(
        self, read: Sequence[int], predicted: Sequence[int], affiliations: Sequence[int] = ()
    ) -> int:
        """Add a pair, of ids; return its place.

        :param affiliations: for a joint model the place in the source of each target word's.
        """
        sources, targets, affiliated, _, _ = self._builders
        sources.add(read)
        affiliated.add(affiliations)
        return targets.add(predicted)

    def add_list(
        self,
        model_scores: Sequence[float],
        pairs: Sequence[Sequence[int]],
        taught: Sequence[int],
    ) -> None:
        """Add a list of one hypothesis at least.

        :param model_scores: of the hypotheses, by the log-linear model without the network.
        :param pairs: the places of each one's pairs, of which it has one at least.
        :param taught: places of the pairs whose likelihood is kept up, one at least.
        """
        _, _, _, parts, kept = self._builders
        self._sizes.append(len(model_scores))
        self._scores.extend(model_scores)
        for row in pairs:
            parts.add(row)
        kept.add(taught)

    def set_gains(self, gains: Sequence[float]) -> None:
        """Set the sentence BLEU of all hypotheses, 1 for a reference; no list is added after it."""
        self._gains = np.array(gains, np.float64)
        self._starts = np.cumsum([0, *self._sizes], dtype=np.int64)
        self._model_scores = np.array(self._scores)
        rows = [builder.build() for builder in self._builders]
        self._sources, self._targets, self._affiliations, self._parts, self._taught = rows
        self._builders.clear()

    def __len__(self) -> int:
        """Return the number of lists."""
        return len(self._sizes)

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
        source, target = self._sources.side(places), self._targets.side(places)
        if not len(self._affiliations.values):
            return PairBatch(source, target)
        affiliated = self._affiliations.take(places).values
        lengths = source.lengths.numpy(), target.lengths.numpy()
        absolute = torch.from_numpy(absolute_affiliations(affiliated, *lengths))
        return PairBatch(source, target._replace(affiliations=absolute))
