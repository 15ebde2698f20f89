"""Differentiable pieces that torch lacks, each with a backward pass of its own.

The recurrences run over *packed* steps: the pairs of a batch are sorted by falling length, step t
has the ``sizes[t]`` pairs that are at least t + 1 words long, and the rows of all steps stand below
one another. No padding is computed. The gradient of a recurrent matrix is one matrix product over
the rows of all steps, where autograd would add up one small product per step.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# Sums of exp() outside of this range say that a logit was too large or all were too small. Compiled
# code cuts exp() off at 5e-38: below the range, so many words would add up to something.
SMALLEST_SUM, LARGEST_SUM = 1e-25, 1e37


def _starts(sizes: Sequence[int]) -> list[int]:
    """Return the first row of each step."""
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + size)
    return starts


def _sigmoid_gradient(gradient: Tensor, value: Tensor) -> Tensor:
    return gradient * value * (1 - value)


class ResetBeforeRecurrence(Function):
    """The encoder's gated unit: the candidate is tanh(W e + U (r * h)).

    Cho et al. (2014), appendix A.1. ``torch.nn.GRU`` applies the reset gate after the product.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any, inputs: Tensor, gates_weight: Tensor, candidate_weight: Tensor, sizes: list[int]
    ) -> Tensor:
        """Return each pair's last state, ``(batch, hidden)``.

        :param inputs: ``(rows, 3 * hidden)``: W_z e, W_r e and W e with their biases.
        :param gates_weight: ``(2 * hidden, hidden)``: U_z above U_r.
        :param candidate_weight: ``(hidden, hidden)``: U.
        :param sizes: pairs of each step, never growing; ``sizes[0]`` may be less than the batch,
            whose remaining pairs have no word and keep the state 0.
        """
        size = candidate_weight.shape[0]
        starts = _starts(sizes)
        state = inputs.new_zeros(sizes[0] if sizes else 0, size)
        before, reset_state = inputs.new_empty(2, len(inputs), size)
        gates = inputs.new_empty(len(inputs), 2 * size)
        candidates = inputs.new_empty(len(inputs), size)
        for start, active in zip(starts, sizes, strict=False):
            rows = slice(start, start + active)
            old = state[:active]
            before[rows] = old
            gate = torch.addmm(inputs[rows, : 2 * size], old, gates_weight.t(), out=gates[rows])
            gate.sigmoid_()
            masked = torch.mul(gate[:, size:], old, out=reset_state[rows])
            candidate = torch.addmm(
                inputs[rows, 2 * size :], masked, candidate_weight.t(), out=candidates[rows]
            ).tanh_()
            old.lerp_(candidate, 1 - gate[:, :size])
        ctx.save_for_backward(
            gates_weight, candidate_weight, before, reset_state, gates, candidates
        )
        ctx.sizes = sizes
        return state

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        gates_weight, candidate_weight, before, reset_state, gates, candidates = ctx.saved_tensors
        sizes, starts = ctx.sizes, _starts(ctx.sizes)
        size = candidate_weight.shape[0]
        state_gradient = gradient.clone()
        inputs_gradient = gates.new_empty(len(gates), 3 * size)
        for step in reversed(range(len(sizes))):
            rows = slice(starts[step], starts[step + 1])
            upper = state_gradient[: sizes[step]]
            update, reset = gates[rows, :size], gates[rows, size:]
            candidate, old = candidates[rows], before[rows]
            to_update, to_reset, to_candidate = inputs_gradient[rows].split(size, dim=1)
            to_candidate.copy_(upper * (1 - update) * (1 - candidate * candidate))
            to_update.copy_(_sigmoid_gradient(upper * (old - candidate), update))
            masked = to_candidate @ candidate_weight
            to_reset.copy_(_sigmoid_gradient(masked * old, reset))
            upper.mul_(update).addcmul_(masked, reset)
            upper.addmm_(inputs_gradient[rows, : 2 * size], gates_weight)
        return (
            inputs_gradient,
            inputs_gradient[:, : 2 * size].t() @ before,
            inputs_gradient[:, 2 * size :].t() @ reset_state,
            None,
        )


class ResetAfterRecurrence(Function):
    """The decoder's gated unit: the candidate is tanh(W' e + r' * (U' h' + C c)).

    Cho et al. (2014), appendix A.1.1.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any,
        inputs: Tensor,
        context: Tensor,
        initial: Tensor,
        weight: Tensor,
        sizes: list[int],
    ) -> Tensor:
        """Return the state after each step, ``(rows, hidden)``.

        :param inputs: ``(rows, 3 * hidden)``: W'_z e, W'_r e and W' e with their biases.
        :param context: ``(batch, 3 * hidden)``: C_z c, C_r c and C c.
        :param initial: ``(batch, hidden)``: h'_0.
        :param weight: ``(3 * hidden, hidden)``: U'_z, U'_r and U' above one another.
        :param sizes: pairs of each step, never growing.
        """
        size = initial.shape[1]
        starts = _starts(sizes)
        states = inputs.new_empty(len(inputs), size)
        before = torch.empty_like(states)
        gates = inputs.new_empty(len(inputs), 2 * size)
        recurrent = torch.empty_like(states)
        candidates = torch.empty_like(states)
        old = initial
        for start, active in zip(starts, sizes, strict=False):
            rows = slice(start, start + active)
            before[rows] = old[:active]
            products = torch.addmm(context[:active], old[:active], weight.t())
            gate = torch.add(products[:, : 2 * size], inputs[rows, : 2 * size], out=gates[rows])
            gate.sigmoid_()
            recurrent[rows] = products[:, 2 * size :]
            candidate = torch.addcmul(
                inputs[rows, 2 * size :], gate[:, size:], recurrent[rows], out=candidates[rows]
            ).tanh_()
            old = torch.lerp(old[:active], candidate, 1 - gate[:, :size], out=states[rows])
        ctx.save_for_backward(weight, before, gates, recurrent, candidates)
        ctx.sizes = sizes
        return states

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        weight, before, gates, recurrent, candidates = ctx.saved_tensors
        sizes, starts = ctx.sizes, _starts(ctx.sizes)
        size = weight.shape[1]
        batch = sizes[0] if sizes else 0
        state_gradient = gradient.new_zeros(batch, size)
        context_gradient = gradient.new_zeros(batch, 3 * size)
        inputs_gradient = gradient.new_empty(len(gates), 3 * size)
        products_gradient = torch.empty_like(inputs_gradient)
        for step in reversed(range(len(sizes))):
            rows, active = slice(starts[step], starts[step + 1]), sizes[step]
            upper = state_gradient[:active].add_(gradient[rows])
            update, reset = gates[rows, :size], gates[rows, size:]
            candidate = candidates[rows]
            to_update, to_reset, to_candidate = inputs_gradient[rows].split(size, dim=1)
            to_candidate.copy_(upper * (1 - update) * (1 - candidate * candidate))
            to_update.copy_(_sigmoid_gradient(upper * (before[rows] - candidate), update))
            to_reset.copy_(_sigmoid_gradient(to_candidate * recurrent[rows], reset))
            products = products_gradient[rows]
            products[:, : 2 * size] = inputs_gradient[rows, : 2 * size]
            torch.mul(to_candidate, reset, out=products[:, 2 * size :])
            context_gradient[:active] += products
            upper.mul_(update).addmm_(products, weight)
        return (
            inputs_gradient,
            context_gradient,
            state_gradient,
            products_gradient.t() @ before,
            None,
        )


class WordLogProb(Function):
    """log softmax(G s + b) of one word per row, in blocks that fit into a cache.

    The logits of all words are never held: the backward pass computes them again, which at a low
    rank costs less than writing and reading them.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, factors: Tensor, weight: Tensor, bias: Tensor, words: Tensor) -> Tensor:
        """Return ``(rows,)`` natural logarithms.

        :param factors: ``(rows, rank)``: G_r s.
        :param weight: ``(words, rank)``: G_l.
        :param bias: ``(words,)``.
        :param words: ``(rows,)`` ids of the words wanted.
        """
        log_normalizers = torch.cat(
            [
                _log_sum_exp(rows, weight, bias)
                for rows in factors.split(_block_sizes(factors.device)[0])
            ]
        )
        ctx.save_for_backward(factors, weight, bias, words, log_normalizers)
        return (factors * weight[words]).sum(1) + bias[words] - log_normalizers

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        factors, weight, bias, words, log_normalizers = ctx.saved_tensors
        # d log p(w) / d logits = onehot(w) - p. First the part of p, block by block; the products
        # with one and with log Z are columns of the matrix product, and so is the bias' gradient.
        ones = torch.ones_like(log_normalizers).unsqueeze(1)
        left = torch.cat([factors, ones, -log_normalizers.unsqueeze(1)], dim=1)
        right = torch.cat([weight, bias.unsqueeze(1), torch.ones_like(bias).unsqueeze(1)], dim=1)
        left_gradient, right_gradient = torch.zeros_like(left), torch.zeros_like(right)
        row_step, word_step = _block_sizes(factors.device)
        for row in range(0, len(left), row_step):
            rows = slice(row, row + row_step)
            weights = -gradient[rows].unsqueeze(1)
            for word in range(0, len(right), word_step):
                block = slice(word, word + word_step)
                logits_gradient = torch.mm(left[rows], right[block].t()).exp_().mul_(weights)
                left_gradient[rows].addmm_(logits_gradient, right[block])
                right_gradient[block].addmm_(logits_gradient.t(), left[rows])
        rank = factors.shape[1]
        column = gradient.unsqueeze(1)
        factors_gradient = left_gradient[:, :rank].addcmul_(weight[words], column)
        right_gradient[:, : rank + 1].index_add_(0, words, left[:, : rank + 1] * column)
        return factors_gradient, right_gradient[:, :rank], right_gradient[:, rank], None


def _block_sizes(device: torch.device) -> tuple[int, int]:
    """Return rows and words of a block: 2 MB on a CPU; on a GPU each call costs more."""
    return (1024, 512) if device.type == "cpu" else (4096, 16384)


def _log_sum_exp(factors: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return the logarithms of the softmaxes' denominators, ``(rows,)``."""
    if factors.device.type != "cpu":
        # To look at sums would have the CPU wait for the device, which has the time to be careful.
        result = factors.new_full((len(factors),), -torch.inf)
        step = _block_sizes(factors.device)[1]
        for words, biases in zip(weight.split(step), bias.split(step), strict=True):
            logits = torch.addmm(biases, factors, words.t())
            result = torch.logaddexp(result, torch.logsumexp(logits, 1))
        return result
    total = factors.new_zeros(len(factors))
    word_step = _block_sizes(factors.device)[1]
    for word in range(0, len(weight), word_step):
        block = slice(word, word + word_step)
        total += torch.addmm(bias[block], factors, weight[block].t()).exp_().sum(1)
    # No maximum is subtracted: as long as the sum is far from overflow and underflow, its largest
    # terms have their full precision.
    unsafe = ~((total > SMALLEST_SUM) & (total < LARGEST_SUM))
    result = total.log()
    if bool(unsafe.any()):
        result[unsafe] = torch.logsumexp(torch.addmm(bias, factors[unsafe], weight.t()), 1)
    return result
