"""The RNN Encoder-Decoder as a careful practitioner writes it in torch: what ours is measured by.

It scores each phrase pair on its own, in padded batches of pairs of similar lengths, and trains
with autograd. It does what is usual to be fast: products over all time steps at once where the
equations allow it, the gates' products merged into one, C c once per pair, padded positions
dropped before the output layer, and that layer in slices, of which the memory is used again. It
shares nothing between pairs. Equations: Cho et al. (2014), appendix A; parameter names and shapes
are those of ``tests.reference_encoder_decoder``, so that one state_dict loads here and in
``phrasescore.models.encoder_decoder``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

END = 0
# Positions whose distributions over the target shortlist are in memory at once.
SLICE = 256
IdPair = tuple[Sequence[int], Sequence[int]]


class Batch(NamedTuple):
    """Padded pairs: a row each, rows as long as the longest."""

    # (batch, source_time), padded with 0
    source_ids: Tensor
    # (batch,)
    source_lengths: Tensor
    # (batch, target_time + 1), every row ending in </s> = 0, and padded with it
    target_ids: Tensor
    # (batch, target_time + 1), true up to and at the row's </s>
    target_mask: Tensor

    def to(self, device: torch.device) -> Batch:
        return Batch(*(part.to(device) for part in self))


class MergedWeights(NamedTuple):
    """Matrices that multiply the same vector, one below the other: z, r and the candidate."""

    encoder_input: Tensor  # (3 hidden, embedding)
    encoder_bias: Tensor  # (3 hidden,)
    encoder_gates: Tensor  # (2 hidden, hidden): z and r, as U multiplies r . h and not h
    encoder_candidate: Tensor  # (hidden, hidden)
    decoder_input: Tensor  # (3 hidden, embedding)
    decoder_bias: Tensor  # (3 hidden,)
    decoder_recurrent: Tensor  # (3 hidden, hidden)
    decoder_context: Tensor  # (3 hidden, hidden)


class GatedUnit(nn.Module):
    """The weights of one gated unit, under the contract's names."""

    def __init__(self, embedding_size: int, hidden_size: int, *, has_context: bool) -> None:
        super().__init__()
        self.input_update = nn.Linear(embedding_size, hidden_size)
        self.input_reset = nn.Linear(embedding_size, hidden_size)
        self.input_candidate = nn.Linear(embedding_size, hidden_size)
        self.recurrent_update = nn.Linear(hidden_size, hidden_size, bias=False)
        self.recurrent_reset = nn.Linear(hidden_size, hidden_size, bias=False)
        self.recurrent_candidate = nn.Linear(hidden_size, hidden_size, bias=False)
        if has_context:
            self.context_update = nn.Linear(hidden_size, hidden_size, bias=False)
            self.context_reset = nn.Linear(hidden_size, hidden_size, bias=False)
            self.context_candidate = nn.Linear(hidden_size, hidden_size, bias=False)

    def weights(self, kind: str) -> list[Tensor]:
        """Return the matrices of z, r and the candidate; ``kind`` is input, recurrent, context."""
        gates = ("update", "reset", "candidate")
        return [self.get_parameter(f"{kind}_{gate}.weight") for gate in gates]

    def biases(self) -> Tensor:
        """Return the biases of z, r and the candidate, (3 hidden,)."""
        return torch.cat([self.input_update.bias, self.input_reset.bias, self.input_candidate.bias])


class Bias(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size))


class PlainEncoderDecoder(nn.Module):
    """Score padded batches of phrase pairs; natural logarithms, ``</s>`` counted.

    :param source_size: words of the source shortlist with ``</s>`` and ``<unk>``.
    :param target_size: the same of the target.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        embedding_size: int,
        maxout_units: int,
        output_rank: int,
        source_size: int,
        target_size: int,
    ) -> None:
        super().__init__()
        self.source_embedding = nn.Parameter(0.01 * torch.randn(source_size, embedding_size))
        self.encoder = GatedUnit(embedding_size, hidden_size, has_context=False)
        self.summary = nn.Linear(hidden_size, hidden_size)
        self.initial = nn.Linear(hidden_size, hidden_size)
        self.target_embedding = nn.Parameter(0.01 * torch.randn(target_size, embedding_size))
        self.decoder = GatedUnit(embedding_size, hidden_size, has_context=True)
        self.readout_hidden = nn.Linear(hidden_size, 2 * maxout_units, bias=False)
        self.readout_word = nn.Linear(embedding_size, 2 * maxout_units, bias=False)
        self.readout_context = nn.Linear(hidden_size, 2 * maxout_units, bias=False)
        self.readout = Bias(2 * maxout_units)
        self.output_factor = nn.Linear(maxout_units, output_rank, bias=False)
        self.output = nn.Linear(output_rank, target_size)

    def merge(self) -> MergedWeights:
        """Return the merged matrices: once for all batches of a scoring, once a training step."""
        merged = MergedWeights(
            encoder_input=torch.cat(self.encoder.weights("input")),
            encoder_bias=self.encoder.biases(),
            encoder_gates=torch.cat(self.encoder.weights("recurrent")[:2]),
            encoder_candidate=self.encoder.recurrent_candidate.weight,
            decoder_input=torch.cat(self.decoder.weights("input")),
            decoder_bias=self.decoder.biases(),
            decoder_recurrent=torch.cat(self.decoder.weights("recurrent")),
            decoder_context=torch.cat(self.decoder.weights("context")),
        )
        if torch.is_autocast_enabled("cpu"):
            # Autocast would cast them anew in every product, which takes longer than the product.
            merged = MergedWeights(*(each.to(torch.get_autocast_dtype("cpu")) for each in merged))
        return merged

    def forward(self, batch: Batch, merged: MergedWeights | None = None) -> Tensor:
        merged = self.merge() if merged is None else merged
        context = torch.tanh(self.summary(self._encode(batch, merged)))  # (batch, hidden)
        # What the decoder reads: y_0, of which e is zero, and the target but for </s>.
        words = functional.embedding(batch.target_ids[:, :-1], self.target_embedding)
        words = functional.pad(words, (0, 0, 1, 0))  # (batch, time, embedding)
        states = self._decode(words, context, merged)  # (batch, time, hidden)
        mask = batch.target_mask
        rows = mask.nonzero()[:, 0]  # the row of each real position
        readout = (
            self.readout_hidden(states[mask])
            + self.readout_word(words[mask])
            + (self.readout_context(context) + self.readout.bias)[rows]
        )
        units = readout.unflatten(-1, (-1, 2)).amax(-1)  # (real positions, maxout units)
        losses = self._losses(self.output_factor(units), batch.target_ids[mask])
        return -losses.new_zeros(len(context)).index_add(0, rows, losses)

    def _losses(self, factors: Tensor, words: Tensor) -> Tensor:
        """Return -log p of each word, (positions,), from the low-rank factors, (positions, rank).

        In slices, as fresh memory for positions x words at once costs a tenth of all the time.
        """
        losses = []
        for factor, word in zip(factors.split(SLICE), words.split(SLICE), strict=True):
            logits = self.output(factor).to(self.output.weight.dtype)
            losses.append(functional.cross_entropy(logits, word, reduction="none"))
        return torch.cat(losses)

    def _encode(self, batch: Batch, merged: MergedWeights) -> Tensor:
        """Return the state after the last word of each source, (batch, hidden)."""
        words = functional.embedding(batch.source_ids, self.source_embedding)
        inputs = functional.linear(words, merged.encoder_input, merged.encoder_bias)
        hidden_size = merged.encoder_candidate.shape[0]
        state = inputs.new_zeros(len(words), hidden_size)
        states = [state]
        for step in inputs.unbind(dim=1):
            input_gates, input_candidate = step.split([2 * hidden_size, hidden_size], dim=1)
            gates = torch.sigmoid(input_gates + functional.linear(state, merged.encoder_gates))
            update, reset = gates.chunk(2, dim=1)
            candidate = torch.tanh(
                input_candidate + functional.linear(reset * state, merged.encoder_candidate)
            )
            state = torch.lerp(candidate, state, update)  # z h + (1 - z) h~
            states.append(state)
        # Padding comes after the last word, so the state at the row's own length is untouched.
        rows = torch.arange(len(words), device=words.device)
        return torch.stack(states)[batch.source_lengths, rows]

    def _decode(self, words: Tensor, context: Tensor, merged: MergedWeights) -> Tensor:
        """Return the state at each step, (batch, time, hidden)."""
        state = torch.tanh(self.initial(context))
        hidden_size = state.shape[1]
        inputs = functional.linear(words, merged.decoder_input, merged.decoder_bias)
        from_context = functional.linear(context, merged.decoder_context)
        context_gates, context_candidate = from_context.split([2 * hidden_size, hidden_size], dim=1)
        states = []
        for step in inputs.unbind(dim=1):
            recurrent = functional.linear(state, merged.decoder_recurrent)
            gates = torch.sigmoid(
                step[:, : 2 * hidden_size] + recurrent[:, : 2 * hidden_size] + context_gates
            )
            update, reset = gates.chunk(2, dim=1)
            candidate = torch.tanh(
                step[:, 2 * hidden_size :]
                + reset * (recurrent[:, 2 * hidden_size :] + context_candidate)
            )
            state = torch.lerp(candidate, state, update)
            states.append(state)
        return torch.stack(states, dim=1)


def pad(pairs: Sequence[IdPair]) -> Batch:
    source_lengths = torch.tensor([len(source) for source, _ in pairs])
    target_lengths = torch.tensor([len(target) + 1 for _, target in pairs])
    source_time, target_time = int(source_lengths.max()), int(target_lengths.max())
    return Batch(
        torch.tensor(
            [[*source, *[END] * (source_time - len(source))] for source, _ in pairs]
        ).long(),
        source_lengths,
        torch.tensor([[*target, *[END] * (target_time - len(target))] for _, target in pairs]),
        torch.arange(target_time) < target_lengths.unsqueeze(1),
    )


@torch.inference_mode()
def score(
    model: PlainEncoderDecoder, pairs: Sequence[IdPair], batch_size: int = 256
) -> list[float]:
    """Return log p(target ``</s>`` | source) of each pair, in the order given.

    :param batch_size: pairs per forward pass, taken from all the pairs sorted by source length
        and then target length.
    """
    order = sorted(
        range(len(pairs)), key=lambda index: (len(pairs[index][0]), len(pairs[index][1]))
    )
    scores = [0.0] * len(pairs)
    merged = model.merge()
    for start in range(0, len(order), batch_size):
        indices = order[start : start + batch_size]
        values = model(pad([pairs[index] for index in indices]), merged)
        for index, value in zip(indices, values.tolist(), strict=True):
            scores[index] = value
    return scores


def train_steps(
    model: PlainEncoderDecoder,
    pairs: Sequence[IdPair],
    batches: Iterable[Sequence[int]],
    optimizer: torch.optim.Optimizer | None = None,
) -> float:
    """Take one step a batch on the mean over pairs of -log p, and return words per second.

    Words are those of both sides and one ``</s>`` a pair. The gradient is clipped to norm 1.

    :param batches: indices into ``pairs``, usually 64 at a time.
    :param optimizer: Adadelta with the paper's rho and epsilon if not given.
    """
    if optimizer is None:
        optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0, rho=0.95, eps=1e-6)
    words = 0
    start = time.perf_counter()
    for indices in batches:
        batch = pad([pairs[index] for index in indices])
        optimizer.zero_grad()
        loss = -model(batch.to(model.output.weight.device)).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        words += int(batch.source_lengths.sum()) + int(batch.target_mask.sum())
    return words / (time.perf_counter() - start)
