"""Batches of phrase pairs as padded arrays of word ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class PairBatch(NamedTuple):
    """Phrase pairs as padded word ids; no side holds ``</s>``.

    The padding is 0; only ``*_lengths`` says which positions are real. Lengths stay on the CPU, as
    torch's own packed sequences want them: what is made of them there waits for no device.
    """

    source_ids: Tensor  # (batch, source_time) int64
    source_lengths: Tensor  # (batch,) int64, on the CPU
    target_ids: Tensor  # (batch, target_time) int64
    target_lengths: Tensor  # (batch,) int64, on the CPU

    def pin_memory(self) -> "PairBatch":
        """Return the batch with its words where a CUDA device can fetch them by itself."""
        return self._replace(
            source_ids=self.source_ids.pin_memory(), target_ids=self.target_ids.pin_memory()
        )

    def to(self, device: torch.device) -> "PairBatch":
        """Return the batch with its words on ``device``."""
        return self._replace(
            source_ids=self.source_ids.to(device, non_blocking=True),
            target_ids=self.target_ids.to(device, non_blocking=True),
        )


def pad(sequences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return (ids, lengths) of shapes (batch, longest) and (batch,), padded with 0."""
    lengths = torch.tensor([len(ids) for ids in sequences], dtype=torch.int64)
    padded = torch.zeros(len(sequences), int(lengths.max()) if sequences else 0, dtype=torch.int64)
    for row, ids in enumerate(sequences):
        padded[row, : len(ids)] = torch.tensor(ids, dtype=torch.int64)
    return padded, lengths


def batch_pairs(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> PairBatch:
    """Return a batch of (source ids, target ids) pairs, in their order."""
    return PairBatch(*pad([source for source, _ in pairs]), *pad([target for _, target in pairs]))


def move(device: torch.device, *parts: Tensor) -> Sequence[Tensor]:
    """Return flat tensors of one type on ``device``: one copy, for which nobody waits."""
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
    """Word positions of a batch, packed step by step; see :mod:`phrasescore.models.layers`."""

    order: Tensor  # (batch,) positions in the batch by falling length
    sizes: list[int]  # pairs of each step
    pairs: Tensor  # (rows,) which pair of the sorted batch
    times: Tensor  # (rows,) which step
    left: Tensor  # (rows,) how many steps that pair has after this one

    def to(self, device: torch.device) -> "Steps":
        """Return the steps on ``device``."""
        order, pairs, times, left = move(device, self.order, self.pairs, self.times, self.left)
        return Steps(order, self.sizes, pairs, times, left)


def pack_steps(lengths: Tensor) -> Steps:
    """Return the packed steps of sequences of these ``(batch,)`` lengths, all on the CPU."""
    order = torch.argsort(lengths, descending=True, stable=True)
    falling = lengths[order]
    longest = int(falling[0]) if len(lengths) else 0
    active = falling.unsqueeze(0) > torch.arange(longest).unsqueeze(1)
    times, pairs = active.nonzero(as_tuple=True)
    return Steps(order, active.sum(1).tolist(), pairs, times, falling[pairs] - 1 - times)
