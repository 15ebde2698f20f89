"""Batches of phrase or sentence pairs as word ids, without padding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phrasescore.devices import move
from phrasescore.io.ragged import Indices, RaggedArray
from phrasescore.vocabulary import Vocabulary


class BatchSide(NamedTuple):
    """The word ids of one side: concatenated sequences, each with ``</s>`` at its end.

    Lengths stay on the CPU, so that arithmetic on them never waits for a device.
    """

    ids: Tensor  # (words + batch,) int64
    lengths: Tensor  # (batch,) int64: words in each sequence without ``</s>``; on the CPU
    # Only for word-aligned targets: (words + batch,) int64, the index among the source ids of each
    # target word's affiliated word.
    affiliations: Tensor | None = None

    def placed(self, move_ids: Callable[[Tensor], Tensor]) -> "BatchSide":
        """Return a copy whose ids are moved to another device or memory."""
        affiliations = None if self.affiliations is None else move_ids(self.affiliations)
        return self._replace(ids=move_ids(self.ids), affiliations=affiliations)

    @property
    def starts(self) -> Tensor:
        """The index of the first id of each sequence, ``(batch,)``, on the CPU."""
        return torch.cumsum(self.lengths + 1, 0) - (self.lengths + 1)

    def owners(self) -> tuple[Tensor, Tensor]:
        """Return the sequence of each id, and the position in it, on the CPU."""
        owners = torch.repeat_interleave(self.lengths + 1)
        return owners, torch.arange(len(owners)) - self.starts[owners]

    def words(self) -> "Steps":
        """Return the packed steps of an encoder that reads the words, on the CPU."""
        return pack_steps(self.lengths, self.starts)

    def words_and_ends(self) -> "Steps":
        """Return the packed steps over words and ``</s>``, on the CPU."""
        return pack_steps(self.lengths + 1, self.starts)

    def previous_ids(self, steps: "Steps") -> Tensor:
        """Return the id before each row of `words_and_ends`, except the first step's rows."""
        return self.ids[steps.positions[len(self.lengths) :] - 1]


class PairBatch(NamedTuple):
    """Phrase or sentence pairs; a language model uses only the target."""

    source: BatchSide
    target: BatchSide

    def pin_memory(self) -> "PairBatch":
        """Return a copy in pinned memory, for asynchronous copies to CUDA."""
        return PairBatch(*(side.placed(Tensor.pin_memory) for side in self))

    def to(self, device: torch.device) -> "PairBatch":
        """Return a copy with its ids on ``device``."""
        return PairBatch(
            *(side.placed(lambda ids: ids.to(device, non_blocking=True)) for side in self)
        )


class Pairs:
    """Pairs of word ids. The network reads the source and predicts the target.

    :param affiliations: for a joint model, the index of each target word's source word.
    """

    def __init__(
        self, sources: RaggedArray, targets: RaggedArray, affiliations: RaggedArray | None = None
    ) -> None:
        self.sources, self.targets, self.affiliations = sources, targets, affiliations

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def num_words(self) -> int:
        """The number of predicted words, with each ``</s>``."""
        return len(self) + len(self.targets.values)

    def in_epoch(self, epoch: int) -> "Pairs":  # noqa: ARG002
        """Return the pairs as training reads them in an epoch, counted from 0."""
        return self

    def sides(self, rows: Indices) -> tuple[RaggedArray, RaggedArray]:
        """Return the source ids and the target ids of the selected pairs."""
        return self.sources.take(rows), self.targets.take(rows)

    def lengths(self, rows: Indices) -> tuple[Indices, Indices]:
        """Return the number of source words and of target words in each selected pair."""
        return self.sources.lengths_of(rows), self.targets.lengths_of(rows)

    def batch(self, rows: Indices) -> PairBatch:
        """Return a batch of the pairs at ``rows``, in that order."""
        sources, targets = self.sides(rows)
        source, target = batch_rows(sources), batch_rows(targets)
        if self.affiliations is None:
            return PairBatch(source, target)
        # The target's </s> is affiliated with the source's </s>.
        relative = self.affiliations.take(rows).values.astype(np.int64)
        relative = np.insert(relative, targets.starts[1:], sources.lengths)
        absolute = relative + np.repeat(source.starts.numpy(), targets.lengths + 1)
        return PairBatch(source, target._replace(affiliations=torch.from_numpy(absolute)))


def batch_rows(rows: RaggedArray) -> BatchSide:
    """Return one side of a batch; ``</s>`` is added to each sequence."""
    ids = np.insert(rows.values.astype(np.int64), rows.starts[1:], Vocabulary.END)
    return BatchSide(torch.from_numpy(ids), torch.from_numpy(rows.lengths))


def batch_sequences(sequences: Sequence[Sequence[int]]) -> BatchSide:
    """Return one side of a batch from sequences of ids; see `batch_rows`."""
    return batch_rows(RaggedArray.from_rows(sequences))


def batch_pairs(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    affiliations: Sequence[Sequence[int]] | None = None,
) -> PairBatch:
    """Return a batch of (source ids, target ids) pairs, in their order; see `Pairs`."""
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    rows = [sources, targets, *([] if affiliations is None else [affiliations])]
    return Pairs(*map(RaggedArray.from_rows, rows)).batch(np.arange(len(pairs)))


# Not a named tuple, which torch's autocast fails to rebuild as an argument of an autograd function.
@dataclass(frozen=True, slots=True)
class Steps:
    """The words of a batch, packed step by step; see :mod:`phrasescore.models.layers`."""

    order: Tensor  # (batch,) indices into the batch, in descending order of length
    sizes: list[int]  # number of pairs in each step
    pairs: Tensor  # (rows,) index of the pair in the sorted batch
    times: Tensor  # (rows,) index of the step
    left: Tensor  # (rows,) number of steps in the pair after this one
    positions: Tensor  # (rows,) index of the word in the side's ids

    def to(self, device: torch.device) -> "Steps":
        """Return a copy on ``device``."""
        order, *parts = move(device, self.order, self.pairs, self.times, self.left, self.positions)
        return Steps(order, self.sizes, *parts)

    def backward_positions(self) -> Tensor:
        """Return `positions` for an encoder that reads each sequence backwards."""
        return self.positions - self.times + self.left


def pack_steps(lengths: Tensor, starts: Tensor | None = None) -> Steps:
    """Return the packed steps of sequences, on the CPU.

    :param lengths: the number of steps of each sequence, ``(batch,)``.
    :param starts: the index of each sequence's start; by default, sequences are adjacent.
    """
    if starts is None:
        starts = torch.cumsum(lengths, 0) - lengths
    order = torch.argsort(lengths, descending=True, stable=True)
    falling = lengths[order]
    longest = int(falling[0]) if len(lengths) else 0
    active = falling.unsqueeze(0) > torch.arange(longest).unsqueeze(1)  # (longest, batch)
    times, pairs = active.nonzero(as_tuple=True)  # (rows,) both
    left = falling[pairs] - 1 - times
    return Steps(order, active.sum(1).tolist(), pairs, times, left, starts[order][pairs] + times)
