"""The gated recursive convolutional network (grConv) of Cho et al. (2014b), section 2.2.

Its encoder reduces a sentence to one vector by merging neighbours, level by level. Gates weigh a
cell's two children and a new activation; they can be read as a soft parse of the sentence. The
decoder is the same as in the RNN Encoder-Decoder.

Cells of level 0 are words, and a cell of level t merges two adjacent cells of level t - 1, up to a
single cell for the whole sentence. A cell's index j is its last word, as in the paper. Level 0 is
packed as in :mod:`phrasescore.models.layers`. Cells of level t are stored in the order of the words
t, t + 1, ... of level 0. Their right children are therefore the rows of level t - 1 from row
``sizes[t - 1]`` on. There is no padding, and one matrix product per level computes the cells of all
sentences.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding, pad

from phrasescore.devices import move
from phrasescore.models.batches import BatchSide, Steps, batch_sequences
from phrasescore.models.encoder_decoder import GatedDecoderNetwork, stack_weights
from phrasescore.settings.kinds import GrconvConfig

# omega_c, omega_l and omega_r: the shares of the new activation, the left and the right child.
GATES = 3


@dataclass(frozen=True, slots=True)
class CellPyramid:
    """The rows of the cells on each level; see the module's docstring."""

    sizes: list[int]  # number of sentences that have each word; never increases
    starts: list[int]  # the first row of each word at level 0, and the total
    left: Tensor  # row of the left neighbour of each cell of level 0, without the first words

    def to(self, device: torch.device) -> "CellPyramid":
        """Return a copy on ``device``."""
        return replace(self, left=move(device, self.left)[0])

    def left_children(self, level: int) -> Tensor:
        """Return the row of each cell's left child; ``level`` is at least 1."""
        return self.left[self.starts[level] - self.starts[1] :] - self.starts[level - 1]

    def endings(self) -> list[slice]:
        """Return, for each level, the rows of cells that cover a whole sentence.

        Row ranges also index these sentences in the batch sorted by length.
        """
        return [slice(after, size) for size, after in itertools.pairwise([*self.sizes, 0])]


def build_pyramid(steps: Steps) -> CellPyramid:
    """Return the cells over the words of packed sentences, on the CPU."""
    starts = [0, *itertools.accumulate(steps.sizes)]
    first = steps.sizes[0] if steps.sizes else 0
    before = torch.tensor(starts)[steps.times[first:] - 1]
    return CellPyramid(steps.sizes, starts, before + steps.pairs[first:])


class RecursiveConvolution(Function):
    """h_j = omega_c h~_j + omega_l h_(j-1) + omega_r h_j, from level to level.

    The cells h_(j-1) and h_j are of the level below, h~_j = max(0, W_l h_(j-1) + W_r h_j + b), and
    the omegas are softmax(G_l h_(j-1) + G_r h_j + b'). (The paper's equations have level t on both
    sides; its figure and text have t - 1 on the right.)
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any,
        words: Tensor,
        weight: Tensor,
        bias: Tensor,
        gate_weight: Tensor,
        gate_bias: Tensor,
        pyramid: CellPyramid,
    ) -> tuple[Tensor, Tensor]:
        """Return the last cell of each sentence, ``(sentences, size)``, and all omegas.

        The omegas, ``(cells above level 0, 3)``, have no gradient; they are for inspection.

        :param words: cells of level 0, ``(rows, size)``.
        :param weight: ``(2 * size, size)``: W_l above W_r. The halves of ``bias`` are added to b.
        :param gate_weight: ``(6, size)``: G_l above G_r; ``gate_bias`` likewise.
        """
        size, sizes = words.shape[1], pyramid.sizes
        levels = [words]  # the cells of each level
        candidates, omegas = [], []
        tops = words.new_empty(sizes[0] if sizes else 0, size)
        for level, ending in enumerate(pyramid.endings()):
            tops[ending] = levels[level][ending]
            if level + 1 == len(sizes):
                break
            old = levels[level]
            children = pyramid.left_children(level + 1)
            right = old[sizes[level] :]
            products = torch.addmm(bias, old, weight.t())
            candidate = products[:, :size].index_select(0, children)
            candidate.add_(products[sizes[level] :, size:]).relu_()
            logits = torch.addmm(gate_bias, old, gate_weight.t())
            logits = logits[:, :GATES].index_select(0, children) + logits[sizes[level] :, GATES:]
            omega = torch.softmax(logits, dim=1)
            new = old.index_select(0, children).mul_(omega[:, 1:2])
            levels.append(new.addcmul_(right, omega[:, 2:]).addcmul_(candidate, omega[:, :1]))
            candidates.append(candidate)
            omegas.append(omega)
        ctx.save_for_backward(weight, gate_weight, *levels, *candidates, *omegas)
        ctx.pyramid = pyramid
        gates = torch.cat(omegas) if omegas else words.new_empty(0, GATES)
        ctx.mark_non_differentiable(gates)
        return tops, gates

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        weight, gate_weight, *saved = ctx.saved_tensors
        sizes, endings = ctx.pyramid.sizes, ctx.pyramid.endings()
        depth = max(len(sizes), 1)
        levels, candidates = saved[:depth], saved[depth : 2 * depth - 1]
        omegas = saved[2 * depth - 1 :]
        to_weight, to_gates = torch.zeros_like(weight), torch.zeros_like(gate_weight)
        to_bias, to_gate_bias = weight.new_zeros(len(weight)), weight.new_zeros(len(gate_weight))
        to_cells = torch.zeros_like(levels[-1])
        for level in reversed(range(len(sizes))):
            to_cells[endings[level]] += gradient[endings[level]]
            if level == 0:
                break
            old, omega, candidate = levels[level - 1], omegas[level - 1], candidates[level - 1]
            children, first = ctx.pyramid.left_children(level), sizes[level - 1]
            parts = (candidate, old.index_select(0, children), old[first:])
            to_omega = torch.stack([(to_cells * part).sum(1) for part in parts], dim=1)
            to_logits = omega * (to_omega - (omega * to_omega).sum(1, keepdim=True))
            to_candidate = to_cells * omega[:, :1]
            to_candidate.masked_fill_(candidate == 0, 0)
            to_products = _to_both(to_candidate, children, first, len(old))
            to_logits = _to_both(to_logits, children, first, len(old))
            below = torch.mm(to_products, weight).addmm_(to_logits, gate_weight)
            below.index_add_(0, children, to_cells * omega[:, 1:2])
            below[first:].addcmul_(to_cells, omega[:, 2:])
            to_weight.addmm_(to_products.t(), old)
            to_gates.addmm_(to_logits.t(), old)
            to_bias += to_products.sum(0)
            to_gate_bias += to_logits.sum(0)
            to_cells = below
        return to_cells, to_weight, to_bias, to_gates, to_gate_bias, None


def _to_both(gradient: Tensor, children: Tensor, first: int, rows: int) -> Tensor:
    """Sum the gradients of left and right children into the halves of ``(rows, 2 * n)``."""
    size = gradient.shape[1]
    both = gradient.new_zeros(rows, 2 * size)
    both[:, :size].index_copy_(0, children, gradient)
    both[first:, size:] = gradient
    return both


class GrconvNetwork(GatedDecoderNetwork):
    """A network for p(target | source) with a gated recursive convolutional encoder."""

    config: GrconvConfig

    def __init__(self, config: GrconvConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size)
        size = config.encoder_size
        self.projection = nn.Linear(config.embedding_size, size)
        self.left = nn.Linear(size, size)
        self.right = nn.Linear(size, size, bias=False)
        self.gate_left = nn.Linear(size, GATES)
        self.gate_right = nn.Linear(size, GATES, bias=False)
        self.build_decoder(size, target_size)

    def spectral_radius(self, name: str) -> float | None:
        # Section 3.2 uses 0.4 for the transition matrices.
        if name in ("left.weight", "right.weight"):
            return self.config.spectral_radius
        return super().spectral_radius(name)

    def encode(self, source: BatchSide) -> Tensor:
        """Return c of each source, ``(batch, encoder)``: its last cell, or 0 if it is empty."""
        tops, _, order = self._join(source)
        tops = pad(tops, (0, 0, 0, len(source.lengths) - len(tops)))  # (batch, encoder)
        return tops[torch.argsort(order)]

    @torch.no_grad()
    def soft_parse(self, ids: Sequence[int]) -> tuple[Tensor, ...]:
        """Return the gates for a source with N words, given as ids without ``</s>``.

        Entry t - 1 is ``(N - t, 3)``, for t from 1 to N - 1. Row i belongs to the cell over the
        words i to i + t, counted from 0: the shares of the new activation, of the left child (words
        i to i + t - 1) and of the right child, which sum to 1.
        """
        source = batch_sequences([ids])
        _, gates, _ = self._join(source._replace(ids=source.ids.to(self.source_embedding.device)))
        levels: tuple[Tensor, ...] = gates.cpu().split([len(ids) - t for t in range(1, len(ids))])
        return levels

    def join_weight(self) -> Tensor:
        """Return W_l above W_r, ``(2 * encoder, encoder)``."""
        return stack_weights(self.left, self.right)

    def gate_weight(self) -> Tensor:
        """Return G_l above G_r, ``(6, encoder)``."""
        return stack_weights(self.gate_left, self.gate_right)

    def _join(self, source: BatchSide) -> tuple[Tensor, Tensor, Tensor]:
        """Return the last cells, all gates, and the batch order by descending length."""
        # The cells, ``(sentences, encoder)``, are in this order; empty sentences have none.
        steps, device = source.words(), source.ids.device
        pyramid, steps = build_pyramid(steps).to(device), steps.to(device)
        words = embedding(source.ids[steps.positions], self.source_embedding)  # (rows, embedding)
        # RecursiveConvolution adds a bias for each child; only the left child's is used.
        bias, gate_bias = self.left.bias, self.gate_left.bias
        tops, gates = RecursiveConvolution.apply(
            self.projection(self.drop(words)),
            self.join_weight(),
            torch.cat([bias, torch.zeros_like(bias)]),
            self.gate_weight(),
            torch.cat([gate_bias, torch.zeros_like(gate_bias)]),
            pyramid,
        )
        return tops, gates, steps.order
