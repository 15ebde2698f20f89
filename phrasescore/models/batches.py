"""Batches of phrase pairs as padded arrays of word ids."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class PairBatch(NamedTuple):
    """Phrase pairs as padded word ids; no side holds ``</s>``.

    The padding is 0; only ``*_lengths`` says which positions are real.
    """

    source_ids: Tensor  # (batch, source_time) int64
    source_lengths: Tensor  # (batch,) int64
    target_ids: Tensor  # (batch, target_time) int64
    target_lengths: Tensor  # (batch,) int64

    def to(self, device: torch.device) -> "PairBatch":
        """Return the batch on ``device``."""
        return PairBatch(*(part.to(device, non_blocking=True) for part in self))


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


class Steps(NamedTuple):
    """Word positions of a batch, packed step by step; see :mod:`phrasescore.models.layers`."""

    order: Tensor  # (batch,) positions in the batch by falling length
    sizes: list[int]  # pairs of each step
    pairs: Tensor  # (rows,) which pair of the sorted batch
    times: Tensor  # (rows,) which step


def pack_steps(lengths: Tensor) -> Steps:
    """Return the packed steps of sequences of these ``(batch,)`` lengths."""
    order = torch.argsort(lengths, descending=True, stable=True)
    longest = int(lengths.max()) if len(lengths) else 0
    active = lengths[order].unsqueeze(0) > torch.arange(longest, device=lengths.device).unsqueeze(1)
    times, pairs = active.nonzero(as_tuple=True)
    return Steps(order, active.sum(1).tolist(), pairs, times)
