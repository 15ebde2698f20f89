"""Differentiable functions that torch lacks, and the base class of all networks.

The recurrences run over *packed* steps: the pairs in a batch are sorted by descending length, step
t contains the ``sizes[t]`` pairs with at least t + 1 words, and the rows of all steps are
concatenated without padding. Each function has a custom backward pass, in which the gradient of a
recurrent matrix is one product over the rows of all steps instead of a sum of small products.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding

from phrasescore.kernels.dropout import dropout
from phrasescore.models.batches import BatchSide, PairBatch, Steps
from phrasescore.models.softmax import SampledLogProb, WordSample

# If a sum of exp() is outside this range, a logit was too large or all were too small. (Compiled
# code limits exp() to 5e-38, so a large shortlist would give a wrong sum below the range.)
SMALLEST_SUM, LARGEST_SUM = 1e-25, 1e37


def step_rows(sizes: Sequence[int]) -> list[slice]:
    """Return the rows of each step."""
    return [slice(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)]


def blend_backward(
    upper: Tensor,
    old: Tensor,
    update: Tensor,
    candidate: Tensor,
    to_gates: Tensor,
    *,
    z_keeps: bool,
) -> None:
    """Write the gradients of the inputs of the update gate z and of the candidate.

    They are the first and the third column block of ``to_gates``.

    :param z_keeps: True if z weights the old state, False if it weights the candidate.
    """
    to_update, _, to_candidate = to_gates.split(old.shape[1], dim=1)
    if z_keeps:
        torch.mul(upper, old - candidate, out=to_update)
        to_update.mul_(update).mul_(1 - update)
        torch.mul(upper, 1 - update, out=to_candidate)
    else:
        torch.mul(upper, update, out=to_candidate)
        torch.mul(to_candidate, 1 - update, out=to_update)
        to_update.mul_(candidate - old)
    to_candidate.mul_(1 - candidate * candidate)


def reset_backward(to_product: Tensor, factor: Tensor, reset: Tensor, to_gates: Tensor) -> None:
    """Write the input gradient for r, the gate on ``factor``, into column block 2."""
    to_reset = to_gates.split(factor.shape[1], dim=1)[1]
    torch.mul(to_product, factor, out=to_reset)
    to_reset.mul_(reset).mul_(1 - reset)


class ResetBeforeRecurrence(Function):
    """The encoders' gated unit: the candidate is tanh(W e + U (r * h)).

    z keeps h in Cho et al. (2014), appendix A.1; z admits the candidate in Bahdanau et al. (2014),
    appendix A.1. ``torch.nn.GRU`` applies the reset gate after the product.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any,
        inputs: Tensor,
        gates_weight: Tensor,
        candidate_weight: Tensor,
        sizes: list[int],
        z_keeps: bool,
    ) -> tuple[Tensor, Tensor]:
        """Return the state after each step, ``(rows, hidden)``, and the last state of each pair.

        The first state is 0. Only one of the results may get a gradient; both omit pairs without a
        step.

        :param inputs: ``(rows, 3 * hidden)``: W_z e, W_r e and W e with their biases.
        :param gates_weight: ``(2 * hidden, hidden)``: U_z above U_r.
        :param candidate_weight: ``(hidden, hidden)``: U.
        """
        size = candidate_weight.shape[0]
        last = inputs.new_zeros(sizes[0] if sizes else 0, size)
        states = inputs.new_empty(len(inputs), size)
        before, masked, candidates = inputs.new_empty(3, len(inputs), size)
        gates = inputs.new_empty(len(inputs), 2 * size)
        for rows, active in zip(step_rows(sizes), sizes, strict=True):
            old = last[:active]
            before[rows] = old
            gate = torch.addmm(inputs[rows, : 2 * size], old, gates_weight.t(), out=gates[rows])
            gate.sigmoid_()
            torch.mul(gate[:, size:], old, out=masked[rows])
            candidate = torch.addmm(
                inputs[rows, 2 * size :], masked[rows], candidate_weight.t(), out=candidates[rows]
            ).tanh_()
            update = gate[:, :size]
            old.lerp_(candidate, 1 - update if z_keeps else update)
            states[rows] = old
        ctx.save_for_backward(gates_weight, candidate_weight, before, masked, gates, candidates)
        ctx.sizes, ctx.z_keeps = sizes, z_keeps
        ctx.set_materialize_grads(False)
        return states, last

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(
        ctx: Any, states_gradient: Tensor | None, last_gradient: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        gates_weight, candidate_weight, before, masked, gates, candidates = ctx.saved_tensors
        size = candidate_weight.shape[0]
        if last_gradient is not None:
            to_state = last_gradient.clone()
        else:
            to_state = before.new_zeros(ctx.sizes[0] if ctx.sizes else 0, size)
        to_inputs = gates.new_empty(len(gates), 3 * size)
        for rows in reversed(step_rows(ctx.sizes)):
            upper = to_state[: rows.stop - rows.start]
            if states_gradient is not None:
                upper += states_gradient[rows]
            update, reset = gates[rows].split(size, dim=1)
            to_gates, old = to_inputs[rows], before[rows]
            blend_backward(upper, old, update, candidates[rows], to_gates, z_keeps=ctx.z_keeps)
            to_masked = to_gates[:, 2 * size :] @ candidate_weight
            reset_backward(to_masked, old, reset, to_gates)
            upper.mul_(update if ctx.z_keeps else 1 - update).addcmul_(to_masked, reset)
            upper.addmm_(to_gates[:, : 2 * size], gates_weight)
        to_gates_weight = to_inputs[:, : 2 * size].t() @ before
        return to_inputs, to_gates_weight, to_inputs[:, 2 * size :].t() @ masked, None, None


class ResetAfterRecurrence(Function):
    """The gated unit of Cho et al.'s decoder: the candidate is tanh(W' e + r' * (U' h' + C c))."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any, inputs: Tensor, context: Tensor, initial: Tensor, weight: Tensor, sizes: list[int]
    ) -> Tensor:
        """Return the state after each step, ``(rows, hidden)``.

        :param inputs: ``(rows, 3 * hidden)``: W'_z e, W'_r e and W' e with their biases.
        :param context: ``(batch, 3 * hidden)``: C_z c, C_r c and C c.
        :param initial: ``(batch, hidden)``: h'_0.
        :param weight: ``(3 * hidden, hidden)``: U'_z, U'_r and U' stacked.
        """
        size = initial.shape[1]
        states = inputs.new_empty(len(inputs), size)
        before, recurrent, candidates = inputs.new_empty(3, len(inputs), size)
        gates = inputs.new_empty(len(inputs), 2 * size)
        old = initial
        for rows, active in zip(step_rows(sizes), sizes, strict=True):
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
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, before, gates, recurrent, candidates = ctx.saved_tensors
        size, batch = weight.shape[1], ctx.sizes[0] if ctx.sizes else 0
        to_state, to_context = gradient.new_zeros(batch, size), gradient.new_zeros(batch, 3 * size)
        to_inputs, to_products = gradient.new_empty(2, len(gates), 3 * size)
        for rows, active in zip(reversed(step_rows(ctx.sizes)), reversed(ctx.sizes), strict=True):
            upper = to_state[:active].add_(gradient[rows])
            update, reset = gates[rows].split(size, dim=1)
            to_gates, products = to_inputs[rows], to_products[rows]
            blend_backward(upper, before[rows], update, candidates[rows], to_gates, z_keeps=True)
            to_candidate = to_gates[:, 2 * size :]
            reset_backward(to_candidate, recurrent[rows], reset, to_gates)
            products[:, : 2 * size] = to_gates[:, : 2 * size]
            torch.mul(to_candidate, reset, out=products[:, 2 * size :])
            to_context[:active] += products
            upper.mul_(update).addmm_(products, weight)
        return to_inputs, to_context, to_state, to_products.t() @ before, None


class WordLogProb(Function):
    """log softmax(G s + b) of one word per row, in blocks that fit into a cache.

    The backward pass recomputes the logits, which costs less than storing them if the rank is low.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, factors: Tensor, weight: Tensor, bias: Tensor, words: Tensor) -> Tensor:
        """Return natural logarithms, ``(rows,)``.

        :param factors: ``(rows, rank)``: G_r s.
        :param weight: ``(words, rank)``: G_l.
        :param words: ``(rows,)`` ids.
        """
        parts = factors.split(_block_sizes(factors.device)[0])
        log_normalizers = torch.cat([_log_sum_exp(rows, weight, bias) for rows in parts])
        ctx.save_for_backward(factors, weight, bias, words, log_normalizers)
        return (factors * weight[words]).sum(1) + bias[words] - log_normalizers

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        factors, weight, bias, words, log_normalizers = ctx.saved_tensors
        # d log p(w) / d logits = onehot(w) - p. First the part with p, block by block; the bias,
        # log Z and the gradient of the bias are columns of the matrix products.
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
    """Return the number of rows and words in a block: 2 MB on a CPU, more on a GPU."""
    return (1024, 512) if device.type == "cpu" else (4096, 16384)


def _log_sum_exp(factors: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    step = _block_sizes(factors.device)[1]
    logits = (
        torch.addmm(biases, factors, words.t())
        for words, biases in zip(weight.split(step), bias.split(step), strict=True)
    )
    if factors.device.type != "cpu":
        # Checking the sums would stall the CPU, and the safe computation costs the GPU little.
        result = factors.new_full((len(factors),), -torch.inf)
        for block in logits:
            result = torch.logaddexp(result, torch.logsumexp(block, 1))
        return result
    total = factors.new_zeros(len(factors))
    for block in logits:
        total += block.exp_().sum(1)
    # Subtracting the maximum is needless: if the sum is far from overflow and underflow, its
    # largest terms have full precision.
    unsafe = ~((total > SMALLEST_SUM) & (total < LARGEST_SUM))
    result = total.log()
    if bool(unsafe.any()):
        result[unsafe] = torch.logsumexp(torch.addmm(bias, factors[unsafe], weight.t()), 1)
    return result


class PairNetwork(nn.Module):
    """p(target | source) for phrase or sentence pairs, or p(target) for a language model.

    A network is built from its sizes (``config``) and from the sizes of the source and the target
    vocabulary, including ``</s>`` and ``<unk>``. Its weights are undefined until `initialize` draws
    them or a checkpoint provides them. Reports show ``source_embedding`` and ``target_embedding``.
    """

    # The sizes of this kind of network.
    config: Any
    # The weights of the softmax: an `nn.Linear`, or a `Softmax`.
    output: Any
    # How the softmax is trained; the training loop sets it. The share of the target distribution
    # that is uniform over the shortlist (Szegedy et al., 2016), and the words that the normaliser
    # is estimated from; None for all words.
    label_smoothing = 0.0
    sample: WordSample | None = None

    def initialize(self, generator: torch.Generator) -> None:
        """Draw the initial weights, in the order in which they were created."""
        raise NotImplementedError

    def forward(self, batch: PairBatch) -> Tensor:
        """Return log p(target ``</s>`` | source) for each pair, ``(batch,)``.

        Values are natural logarithms, not divided by length. Either side may be empty: an empty
        target has only ``</s>``, and an encoder that reads no ``</s>`` stays at its initial 0.
        """
        raise NotImplementedError

    def drop(self, units: Tensor) -> Tensor:
        """Apply dropout in training. Among the papers, only Zaremba et al. (2014) use it."""
        return dropout(units, self.config.dropout) if self.training else units

    def word_log_probs(self, rows: Tensor, words: Tensor) -> Tensor:
        """Return log p of one word per row, ``(rows,)``.

        With a sampled softmax, training uses an estimate.

        :param rows: inputs of the softmax, ``(rows, width)``.
        """
        weight, bias = self.output.weight, self.output.bias
        sample = self.sample if self.training else None
        if sample is None:
            log_probs: Tensor = WordLogProb.apply(rows, weight, bias, words)
        else:
            log_probs = SampledLogProb.apply(rows, weight, bias, words, sample)
        return log_probs

    def smooth(self, log_probs: Tensor, rows: Tensor, words: Tensor) -> Tensor:
        """Return what training maximises: the mean of log p under smoothed labels, ``(rows,)``.

        The target distribution is (1 - smoothing) for the word, and smoothing spread evenly over
        the shortlist. Both terms have the same log Z, and the mean of all logits is the logit of
        the mean weights.
        """
        smoothing = self.label_smoothing
        if not (self.training and smoothing):
            return log_probs
        weight, bias = self.output.weight, self.output.bias
        differences = weight.mean(0) - embedding(words, weight)
        mean = (rows * differences).sum(1) + bias.mean() - bias.index_select(0, words)
        smoothed: Tensor = log_probs + smoothing * mean
        return smoothed

    def sum_log_probs(self, rows: Tensor, target: BatchSide, steps: Steps) -> Tensor:
        """Return the log-probability of each target and its ``</s>``, ``(batch,)``.

        :param rows: ``(rows, width)``, the input of the softmax at each step.
        :param steps: the target's `words_and_ends`.
        """
        words = target.ids[steps.positions]
        log_probs = self.smooth(self.word_log_probs(rows, words), rows, words)  # (rows,)
        total = log_probs.new_zeros(len(target.lengths))
        return total.index_add(0, steps.order[steps.pairs], log_probs)


def previous_words(table: Tensor, target: BatchSide, steps: Steps) -> Tensor:
    """Return the embedding of the word before each row; for y_0, it is the zero vector."""
    words = embedding(target.previous_ids(steps), table)
    return torch.cat([words.new_zeros(len(target.lengths), words.shape[1]), words])


def draw_uniformly(network: nn.Module, bound: float, generator: torch.Generator) -> None:
    """Draw all weights uniformly from [-``bound``, ``bound``]."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.uniform_(-bound, bound, generator=generator)


def draw_orthogonal(matrix: Tensor, generator: torch.Generator, radius: float = 1.0) -> None:
    """Set a matrix to a Gaussian one's left singular vectors (Saxe et al., 2014), scaled."""
    gaussian = torch.randn(matrix.shape, generator=generator, dtype=torch.float64)
    matrix.copy_(radius * torch.linalg.svd(gaussian)[0])
