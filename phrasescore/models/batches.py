"""Batches of phrase or sentence pairs as word ids, without padding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.devices import move
from phrasescore.vocabulary import Vocabulary


class BatchSide(NamedTuple):
    """The word ids of one side: sequence after sequence, each with ``</s>`` at its end.

    Lengths stay on the CPU, as torch's own packed sequences want them: arithmetic on
    them waits for no device.
    """

    ids: Tensor  # (words + batch,) int64
    lengths: Tensor  # (batch,) int64: words of each sequence, ``</s>`` not counted; on the CPU
    # Of the target of aligned text: (words + batch,) int64, for each id the place of the one that
    # it is affiliated with among the ids of the source.
    affiliations: Tensor | None = None

    def placed(self, place: Callable[[Tensor], Tensor]) -> "BatchSide":
        """Return the side with its ids elsewhere."""
        affiliations = None if self.affiliations is None else place(self.affiliations)
        return self._replace(ids=place(self.ids), affiliations=affiliations)

    @property
    def starts(self) -> Tensor:
        """Where each sequence begins, ``(batch,)``, on the CPU."""
        return torch.cumsum(self.lengths + 1, 0) - (self.lengths + 1)

    def words(self) -> "Steps":
        """Return the packed steps of an encoder that reads the words, on the CPU."""
        return pack_steps(self.lengths, self.starts)

    def words_and_ends(self) -> "Steps":
        """Return the packed steps of a network that reads or predicts ``</s>``, too, on the CPU."""
        return pack_steps(self.lengths + 1, self.starts)

    def previous_ids(self, steps: "Steps") -> Tensor:
        """Return the id before each row's, those of the first step left out, ``(rows - batch,)``.

        :param steps: `words_and_ends`: the first step has the whole batch, in the first rows.
        """
        return self.ids[steps.positions[len(self.lengths) :] - 1]


class PairBatch(NamedTuple):
    """Phrase or sentence pairs; a language model looks at the target alone."""

    source: BatchSide
    target: BatchSide

    def pin_memory(self) -> "PairBatch":
        """Return the batch with its words where a CUDA device can fetch them by itself."""
        return PairBatch(*(side.placed(Tensor.pin_memory) for side in self))

    def to(self, device: torch.device) -> "PairBatch":
        """Return the batch with its words on ``device``."""
        return PairBatch(
            *(side.placed(lambda ids: ids.to(device, non_blocking=True)) for side in self)
        )


def batch_sequences(sequences: Sequence[Sequence[int]]) -> BatchSide:
    """Return one side of a batch, of sequences without ``</s>``, in their order."""
    ids = [number for words in sequences for number in (*words, Vocabulary.END)]
    lengths = [len(words) for words in sequences]
    return BatchSide(torch.tensor(ids, dtype=torch.int64), torch.tensor(lengths, dtype=torch.int64))


def batch_pairs(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    affiliations: Sequence[Sequence[int]] | None = None,
) -> PairBatch:
    """Return a batch of (source ids, target ids) pairs, in their order.

    :param affiliations: for each pair the place in its source of each target word's affiliation.
        That of ``</s>`` is the source's ``</s>``.
    """
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    source, target = batch_sequences(sources), batch_sequences(targets)
    if affiliations is None:
        return PairBatch(source, target)
    places = torch.tensor([place for each in affiliations for place in each], dtype=torch.int64)
    absolute = absolute_affiliations(places.numpy(), source.lengths.numpy(), target.lengths.numpy())
    return PairBatch(source, target._replace(affiliations=torch.from_numpy(absolute)))


def absolute_affiliations(
    places: NDArray[np.int64], source_lengths: NDArray[np.int64], target_lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the `affiliations` of a batch's targets, ``(words + batch,)``.

    :param places: ``(words,)``: in the source of each pair, one pair after another.
    """
    ends = np.cumsum(target_lengths)
    starts = np.cumsum(source_lengths + 1) - (source_lengths + 1)
    found: NDArray[np.int64] = np.insert(places, ends, source_lengths)
    return found + np.repeat(starts, target_lengths + 1)


# No named tuple: where it is given to an autograd function, torch's autocast would take it apart
# and fail to put it together again.
@dataclass(frozen=True, slots=True)
class Steps:
    """The words of a batch, packed step by step; see :mod:`phrasescore.models.layers`."""

    order: Tensor  # (batch,) places in the batch by falling length
    sizes: list[int]  # pairs of each step
    pairs: Tensor  # (rows,) which pair of the sorted batch
    times: Tensor  # (rows,) which step
    left: Tensor  # (rows,) how many steps that pair has after this one
    positions: Tensor  # (rows,) where the word stands among the ids of the side

    def to(self, device: torch.device) -> "Steps":
        """Return the steps on ``device``."""
        parts = (self.order, self.pairs, self.times, self.left, self.positions)
        order, pairs, times, left, positions = move(device, *parts)
        return Steps(order, self.sizes, pairs, times, left, positions)

    def backward_positions(self) -> Tensor:
        """Return the `positions` of an encoder that reads from the last word to the first."""
        return self.positions - self.times + self.left


def pack_steps(lengths: Tensor, starts: Tensor | None = None) -> Steps:
    """Return the packed steps of sequences, all on the CPU.

    :param lengths: steps of each sequence, ``(batch,)``.
    :param starts: where each sequence begins, ``(batch,)``; by default there is nothing between
        the sequences.
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
