"""The recurrences of Bahdanau et al. (2014), each with a backward pass of its own.

Steps are packed as in :mod:`phrasescore.models.layers`: no padding is computed, and the gradient of
a recurrent matrix is one product over the rows of all steps.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from phrasescore.models.alignment import Places, attend, attend_backward, spread
from phrasescore.models.batches import Steps


def _step_rows(sizes: Sequence[int]) -> list[slice]:
    """Return the rows of each step."""
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _blend_backward(
    upper: Tensor, old: Tensor, update: Tensor, candidate: Tensor, to_gates: Tensor
) -> None:
    """Write the gradients of the inputs of z and the candidate into columns 1 and 3 of three."""
    to_update, _, to_candidate = to_gates.split(old.shape[1], dim=1)
    torch.mul(upper, update, out=to_candidate)
    torch.mul(to_candidate, 1 - update, out=to_update)
    to_update.mul_(candidate - old)
    to_candidate.mul_(1 - candidate * candidate)


def _reset_backward(to_masked: Tensor, old: Tensor, reset: Tensor, to_gates: Tensor) -> None:
    """Write the gradient of the input of r into column 2 of three."""
    to_reset = to_gates.split(old.shape[1], dim=1)[1]
    torch.mul(to_masked, old, out=to_reset)
    to_reset.mul_(reset).mul_(1 - reset)


class GatedRecurrence(Function):
    """A direction of the encoder, appendix A.1: all its states.

    z and r from W e + U h, the candidate is tanh(W e + U (r * h)), and z admits the candidate.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any, inputs: Tensor, gates_weight: Tensor, candidate_weight: Tensor, sizes: list[int]
    ) -> Tensor:
        """Return the state after each step, ``(rows, hidden)``; the first one reads 0.

        :param inputs: ``(rows, 3 * hidden)``: W_z e, W_r e and W e with their biases.
        :param gates_weight: ``(2 * hidden, hidden)``: U_z above U_r.
        :param candidate_weight: ``(hidden, hidden)``: U.
        :param sizes: pairs of each step, never growing.
        """
        size = candidate_weight.shape[0]
        states = inputs.new_empty(len(inputs), size)
        before, masked, candidates = inputs.new_empty(3, len(inputs), size)
        gates = inputs.new_empty(len(inputs), 2 * size)
        old = inputs.new_zeros(sizes[0] if sizes else 0, size)
        for rows in _step_rows(sizes):
            old = old[: rows.stop - rows.start]
            before[rows] = old
            gate = torch.addmm(inputs[rows, : 2 * size], old, gates_weight.t(), out=gates[rows])
            gate.sigmoid_()
            torch.mul(gate[:, size:], old, out=masked[rows])
            candidate = torch.addmm(
                inputs[rows, 2 * size :], masked[rows], candidate_weight.t(), out=candidates[rows]
            ).tanh_()
            torch.lerp(old, candidate, gate[:, :size], out=states[rows])
            old = states[rows]
        ctx.save_for_backward(gates_weight, candidate_weight, before, masked, gates, candidates)
        ctx.sizes = sizes
        return states

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        gates_weight, candidate_weight, before, masked, gates, candidates = ctx.saved_tensors
        size = candidate_weight.shape[0]
        upper_of_all = gradient.new_zeros(ctx.sizes[0] if ctx.sizes else 0, size)
        to_inputs = gates.new_empty(len(gates), 3 * size)
        for rows in reversed(_step_rows(ctx.sizes)):
            upper = upper_of_all[: rows.stop - rows.start].add_(gradient[rows])
            update, reset = gates[rows].split(size, dim=1)
            _blend_backward(upper, before[rows], update, candidates[rows], to_inputs[rows])
            to_masked = to_inputs[rows, 2 * size :] @ candidate_weight
            _reset_backward(to_masked, before[rows], reset, to_inputs[rows])
            upper.mul_(1 - update).addcmul_(to_masked, reset)
            upper.addmm_(to_inputs[rows, : 2 * size], gates_weight)
        return (
            to_inputs,
            to_inputs[:, : 2 * size].t() @ before,
            to_inputs[:, 2 * size :].t() @ masked,
            None,
        )


class AttentiveRecurrence(Function):
    """The decoder, appendix A.2: alignment, gates and state of every step.

    C h_j and C_o h_j are made once for each position of a source (*values*), and weighed in place
    of the annotations: C c_i = sum over j of alpha_ij C h_j. That is the same function, and turns a
    product per target word into one per source word.
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
        """Return s_i and C_o c_i of each row, and the weights alpha_ij, which have no gradient.

        :param inputs: ``(rows, 3 * hidden)``: W_z e, W_r e and W e with their biases.
        :param initial: ``(batch, hidden)``: s_0.
        :param keys: ``(positions, units)``: U_a h with its bias.
        :param values: ``(positions, 3 * hidden + readout)``: C_z h, C_r h, C h and C_o h.
        :param energy: ``(units,)``: v_a.
        :param state_weight: ``(units + 2 * hidden, hidden)``: W_a, U_z and U_r above one another.
        :param candidate_weight: ``(hidden, hidden)``: U.
        :param steps: of the targets; initial and places are in the order of its pairs.
        :return: ``(rows, hidden)``, ``(rows, readout)`` and ``(rows, longest source)``.
        """
        size, units = initial.shape[1], len(energy)
        count = len(inputs)
        states = inputs.new_empty(count, size)
        before, masked, candidates = inputs.new_empty(3, count, size)
        gates, queries = inputs.new_empty(count, 2 * size), inputs.new_empty(count, units)
        sums = inputs.new_empty(count, values.shape[1])
        weights = inputs.new_empty(count, places.longest)
        old = initial
        for rows in _step_rows(steps.sizes):
            old = old[: rows.stop - rows.start]
            before[rows] = old
            products = old @ state_weight.t()
            queries[rows] = products[:, :units]
            attend(queries[rows], keys, energy, values, places, weights[rows], sums[rows])
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
        to_queries = torch.empty_like(queries)
        to_keys, to_energy = torch.zeros_like(keys), torch.zeros_like(energy)
        for rows in reversed(_step_rows(ctx.steps.sizes)):
            upper = to_old[: rows.stop - rows.start].add_(states_gradient[rows])
            update, reset = gates[rows].split(size, dim=1)
            to_gates = to_sums[rows, : 3 * size]
            _blend_backward(upper, before[rows], update, candidates[rows], to_gates)
            to_masked = to_gates[:, 2 * size :] @ candidate_weight
            _reset_backward(to_masked, before[rows], reset, to_gates)
            attend_backward(
                to_sums[rows],
                queries[rows],
                keys,
                energy,
                values,
                ctx.places,
                weights[rows],
                to_queries[rows],
                to_keys,
                to_energy,
            )
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
