"""RNNsearch (Bahdanau et al., 2014), exactly as in the paper's appendices A and B.

The paper omits biases "in order to increase readability"; here each affine map has one. (An
energy e_ij has none because the softmax cancels it.) As in the authors' code, the source's ``</s>``
is its last word, so an empty source has one annotation. Appendix A.2 omits C_z c_i and C_r c_i
from the gates; they are included here, as in section 3.3 and in A.2's list of weights.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding

from phrasescore.models.alignment import Annotations, Places, attend, attend_backward, spread
from phrasescore.models.batches import BatchSide, PairBatch, Steps
from phrasescore.models.encoder_decoder import MAXOUT_POOL, GatedUnit, Readout
from phrasescore.models.layers import (
    PairNetwork,
    ResetBeforeRecurrence,
    blend_backward,
    draw_orthogonal,
    previous_words,
    reset_backward,
    step_rows,
)
from phrasescore.settings.kinds import RnnsearchConfig


class AttentiveRecurrence(Function):
    """Alignment, gates and state of every step, appendix A.2.

    C h_j and C_o h_j are computed once per source position (the *values*) and averaged in place of
    the annotations: C c_i = sum over j of alpha_ij C h_j. This needs one product per source word
    instead of one per target word.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any,
        inputs: Tensor,
        initial: Tensor,
        keys: Tensor,
        values: Tensor,
        energy: Tensor,
        state_weight: Tensor,
        candidate_weight: Tensor,
        steps: Steps,
        places: Places,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return s_i, C_o c_i and the weights alpha_ij of each row; alpha has no gradient.

        :param inputs: ``(rows, 3 * hidden)``: W_z e, W_r e and W e with their biases.
        :param initial: ``(batch, hidden)``: s_0.
        :param keys: ``(positions, units)``: U_a h with its bias.
        :param values: ``(positions, 3 * hidden + readout)``: C_z h, C_r h, C h and C_o h.
        :param energy: ``(units,)``: v_a.
        :param state_weight: ``(units + 2 * hidden, hidden)``: W_a, U_z and U_r stacked.
        :param candidate_weight: ``(hidden, hidden)``: U.
        :param steps: the steps of the targets; ``initial`` and ``places`` use its order of pairs.
        :return: ``(rows, hidden)``, ``(rows, readout)`` and ``(rows, longest source)``.
        """
        size, units = initial.shape[1], len(energy)
        count = len(inputs)
        states = inputs.new_empty(count, size)
        before, masked, candidates = inputs.new_empty(3, count, size)
        gates, queries = inputs.new_empty(count, 2 * size), inputs.new_empty(count, units)
        sums = inputs.new_empty(count, values.shape[1])
        weights = inputs.new_empty(count, places.longest)
        old, read = initial, Annotations(keys, energy, values, places)
        for rows in step_rows(steps.sizes):
            old = old[: rows.stop - rows.start]
            before[rows] = old
            products = old @ state_weight.t()
            queries[rows] = products[:, :units]
            attend(queries[rows], read, weights[rows], sums[rows])
            gate = torch.add(products[:, units:], sums[rows, : 2 * size], out=gates[rows])
            gate.add_(inputs[rows, : 2 * size]).sigmoid_()
            torch.mul(gate[:, size:], old, out=masked[rows])
            candidate = torch.add(
                inputs[rows, 2 * size :], sums[rows, 2 * size : 3 * size], out=candidates[rows]
            )
            candidate.addmm_(masked[rows], candidate_weight.t()).tanh_()
            torch.lerp(old, candidate, gate[:, :size], out=states[rows])
            old = states[rows]
        ctx.save_for_backward(keys, values, energy, state_weight, candidate_weight)
        ctx.kept = (before, masked, gates, candidates, queries, weights)
        ctx.steps, ctx.places = steps, places
        ctx.mark_non_differentiable(weights)
        return states, sums[:, 3 * size :], weights

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(
        ctx: Any, states_gradient: Tensor, readout_gradient: Tensor, _weights_gradient: Tensor
    ) -> tuple[Tensor | None, ...]:
        keys, values, energy, state_weight, candidate_weight = ctx.saved_tensors
        before, masked, gates, candidates, queries, weights = ctx.kept
        size, units = candidate_weight.shape[0], len(energy)
        to_old = gates.new_zeros(ctx.steps.sizes[0], size)
        to_sums = gates.new_empty(len(gates), values.shape[1])
        to_sums[:, 3 * size :] = readout_gradient
        to_products = gates.new_empty(len(gates), len(state_weight))
        to_queries, read = torch.empty_like(queries), Annotations(keys, energy, values, ctx.places)
        to_keys, to_energy = torch.zeros_like(keys), torch.zeros_like(energy)
        for rows in reversed(step_rows(ctx.steps.sizes)):
            upper = to_old[: rows.stop - rows.start].add_(states_gradient[rows])
            update, reset = gates[rows].split(size, dim=1)
            to_gates = to_sums[rows, : 3 * size]
            blend_backward(upper, before[rows], update, candidates[rows], to_gates, z_keeps=False)
            to_masked = to_gates[:, 2 * size :] @ candidate_weight
            reset_backward(to_masked, before[rows], reset, to_gates)
            inputs = to_sums[rows], queries[rows], read, weights[rows]
            attend_backward(*inputs, to_queries[rows], to_keys, to_energy)
            to_products[rows, :units] = to_queries[rows]
            to_products[rows, units:] = to_gates[:, : 2 * size]
            upper.mul_(1 - update).addcmul_(to_masked, reset)
            upper.addmm_(to_products[rows], state_weight)
        to_inputs = to_sums[:, : 3 * size]
        return (
            to_inputs,
            to_old,
            to_keys,
            spread(to_sums, weights, ctx.steps, ctx.places),
            to_energy,
            to_products.t() @ before,
            to_inputs[:, 2 * size :].t() @ masked,
            None,
            None,
        )


class Alignment(nn.Module):
    """The alignment model's weights W_a, U_a and v_a."""

    def __init__(self, hidden_size: int, alignment_size: int) -> None:
        super().__init__()
        self.state = nn.Linear(hidden_size, alignment_size, bias=False)
        self.annotation = nn.Linear(2 * hidden_size, alignment_size)
        self.energy = nn.Parameter(torch.empty(alignment_size))


class RnnsearchNetwork(PairNetwork):
    """An encoder-decoder with attention for p(target | source) of sentence pairs."""

    config: RnnsearchConfig

    def __init__(self, config: RnnsearchConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        self.config = config
        hidden, embedding = config.hidden_size, config.embedding_size
        pooled = MAXOUT_POOL * config.maxout_size
        self.source_embedding = nn.Parameter(torch.empty(source_size, embedding))
        self.forward_encoder = GatedUnit(embedding, hidden)
        self.backward_encoder = GatedUnit(embedding, hidden)
        self.initial = nn.Linear(hidden, hidden)
        self.target_embedding = nn.Parameter(torch.empty(target_size, embedding))
        self.alignment = Alignment(hidden, config.alignment_size)
        self.decoder = GatedUnit(embedding, hidden, context_size=2 * hidden)
        self.readout_hidden = nn.Linear(hidden, pooled, bias=False)
        self.readout_word = nn.Linear(embedding, pooled, bias=False)
        self.readout_context = nn.Linear(2 * hidden, pooled, bias=False)
        self.readout = Readout(pooled)
        self.output = nn.Linear(config.maxout_size, target_size)

    @torch.no_grad()
    def initialize(self, generator: torch.Generator) -> None:
        """Initialize the weights as in appendix B.1.

        Recurrent matrices are orthogonal; v_a and biases are 0; other weights are Gaussian.
        """
        for name, parameter in self.named_parameters():
            if name.endswith("bias") or name == "alignment.energy":
                parameter.zero_()
            elif ".recurrent_" in name:
                draw_orthogonal(parameter, generator)
            elif name.startswith("alignment."):
                parameter.normal_(0.0, self.config.alignment_init_std, generator=generator)
            else:
                parameter.normal_(0.0, self.config.init_std, generator=generator)

    def forward(self, batch: PairBatch) -> Tensor:
        """See :class:`PairNetwork`; the encoder always reads the source's ``</s>``."""
        target = batch.target
        steps = target.words_and_ends().to(target.ids.device)
        previous = self.drop(previous_words(self.target_embedding, target, steps))
        states, contexts, _ = self._decode(batch.source, steps, previous)
        pooled = self.readout_hidden(states) + contexts  # (rows, 2 * maxout)
        pooled = pooled + self.readout_word(previous) + self.readout.bias
        maxout = torch.maximum(pooled[:, 0::2], pooled[:, 1::2])  # (rows, maxout)
        return self.sum_log_probs(self.drop(maxout), target, steps)

    def alignments(self, batch: PairBatch) -> Tensor:
        """Return alpha_ij, ``(batch, target_time + 1, source_time + 1)``.

        Row i predicts target word i, the last row ``</s>``; column j is source word j, the last
        column ``</s>``. A row sums to 1, or is 0 after the end of the target.
        """
        source, target = batch
        steps = target.words_and_ends().to(target.ids.device)
        previous = self.drop(previous_words(self.target_embedding, target, steps))
        _, _, weights = self._decode(source, steps, previous)  # (rows, longest source)
        batch_size = len(target.lengths)
        alpha = weights.new_zeros(batch_size, len(steps.sizes), weights.shape[1])
        alpha[steps.order[steps.pairs], steps.times] = weights
        return alpha

    def encode(self, source: BatchSide) -> tuple[Tensor, Places]:
        """Return the annotations of all words and end symbols, and the positions of each source.

        Annotations are ``(positions, 2 * hidden)``: forward states, then backward states.
        """
        device = source.ids.device
        steps = source.words_and_ends().to(device)
        words = self.drop(embedding(source.ids, self.source_embedding))  # (positions, embedding)
        states = []
        for unit, positions in (
            (self.forward_encoder, steps.positions),
            (self.backward_encoder, steps.backward_positions()),
        ):
            packed, _ = ResetBeforeRecurrence.apply(
                unit.read(words[positions]),
                unit.gates_weight(),
                unit.recurrent_candidate.weight,
                steps.sizes,
                False,
            )  # (rows, hidden)
            states.append(packed[torch.argsort(positions)])  # (positions, hidden)
        return torch.cat(states, dim=1), Places.of(source.lengths + 1).to(device)

    def _decode(
        self, source: BatchSide, steps: Steps, previous: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        annotations, places = self.encode(source)
        annotations = self.drop(annotations)
        places = places.of_pairs(steps.order)
        unit = self.decoder
        first_backward = annotations[places.starts, self.config.hidden_size :]
        decoded: tuple[Tensor, Tensor, Tensor] = AttentiveRecurrence.apply(
            unit.read(previous),
            torch.tanh(self.initial(first_backward)),
            self.alignment.annotation(annotations),
            annotations @ torch.cat([unit.context_weight(), self.readout_context.weight]).t(),
            self.alignment.energy,
            torch.cat([self.alignment.state.weight, unit.gates_weight()]),
            unit.recurrent_candidate.weight,
            steps,
            places,
        )
        return decoded
