"""Batches of phrase or sentence pairs as word ids, without padding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from phrasescore.vocabulary import Vocabulary


class BatchSide(NamedTuple):
    """The word ids of one side: sequence after sequence, each with ``</s>`` at its end.

    Lengths stay on the CPU, as torch's own packed sequences want them: arithmetic on
    them waits for no device.
    """

    ids: Tensor  # (words + batch,) int64
    lengths: Tensor  # (batch,) int64: words of each sequence, ``</s>`` not counted; on the CPU

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
        return PairBatch(*(side._replace(ids=side.ids.pin_memory()) for side in self))

    def to(self, device: torch.device) -> "PairBatch":
        """Return the batch with its words on ``device``."""
        return PairBatch(
            *(side._replace(ids=side.ids.to(device, non_blocking=True)) for side in self)
        )


def batch_sequences(sequences: Sequence[Sequence[int]]) -> BatchSide:
    """Return one side of a batch, of sequences without ``</s>``, in their order."""
    ids = [number for words in sequences for number in (*words, Vocabulary.END)]
    lengths = [len(words) for words in sequences]
    return BatchSide(torch.tensor(ids, dtype=torch.int64), torch.tensor(lengths, dtype=torch.int64))


def batch_pairs(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> PairBatch:
    """Return a batch of (source ids, target ids) pairs, in their order."""
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    return PairBatch(batch_sequences(sources), batch_sequences(targets))


def move(device: torch.device, *parts: Tensor) -> Sequence[Tensor]:
    """Return flat tensors of one type on ``device``: in one copy that does not block."""
    if device.type == "cpu":
        return parts
    together = torch.cat(parts) if len(parts) > 1 else parts[0]
    if device.type == "cuda":
        together = together.pin_memory()
    moved: Sequence[Tensor] = together.to(device, non_blocking=True).split(list(map(len, parts)))
    return moved


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
