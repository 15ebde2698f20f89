"""Sentence networks as a careful practitioner writes them in torch: what ours is measured by.

Each pair is scored on its own, in padded batches of pairs of similar lengths, as marian-scorer,
Nematus and fairseq do: the source is encoded again for each hypothesis, and a beginning that two
hypotheses share is computed twice. What is usual to be fast is done: torch's own LSTM, products
over all time steps at once where the equations allow it, padded positions dropped before the output
layer. Parameters are those of :mod:`phrasescore.models`, taken over from a network.
"""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import rnn

from phrasescore.models.attention import AttentionNetwork
from phrasescore.models.lstm import LstmLayer, LstmNetwork, LstmStack

END = 0
# Positions whose distributions over the target shortlist are in memory at once.
SLICE = 1024
IdPair = tuple[Sequence[int], Sequence[int]]
# Source ids (batch, time) and lengths; the word before each target position, (batch, time + 1),
# and how many of those positions are real: what predicts each word, (batch, time + 1, width).
Forward = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class PlainScorer:
    """Scores pairs one by one in batches sorted by length.

    :param forward: a network up to its output layer.
    :param output: the output layer.
    :param start: the id that stands before the first target word.
    """

    def __init__(self, forward: Forward, output: nn.Linear, start: int) -> None:
        self._forward = forward
        self._output = output
        self._start = start

    @torch.inference_mode()
    def score(self, pairs: Sequence[IdPair], batch_size: int) -> list[float]:
        order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
        values = [0.0] * len(pairs)
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            found = self._batch([pairs[place] for place in chosen])
            for place, value in zip(chosen, found.tolist(), strict=True):
                values[place] = value
        return values

    def _batch(self, pairs: Sequence[IdPair]) -> Tensor:
        sources, source_lengths = _pad([list(source) for source, _ in pairs], END)
        targets, lengths = _pad([[*target, END] for _, target in pairs], END)
        before = torch.cat([targets.new_full((len(pairs), 1), self._start), targets[:, :-1]], dim=1)
        rows = self._forward(sources, source_lengths, before, lengths)
        real = torch.arange(targets.shape[1]) < lengths.unsqueeze(1)
        rows, wanted = rows[real], targets[real]
        log_probs = torch.cat(
            [
                -functional.cross_entropy(self._output(part), words, reduction="none")
                for part, words in zip(rows.split(SLICE), wanted.split(SLICE), strict=True)
            ]
        )
        owners = real.nonzero()[:, 0]
        return log_probs.new_zeros(len(pairs)).index_add(0, owners, log_probs)


def plain_lstm(network: LstmNetwork) -> PlainScorer:
    encoder, decoder = _torch_lstm(network.encoder), _torch_lstm(network.decoder)

    def forward(sources: Tensor, source_lengths: Tensor, before: Tensor, lengths: Tensor) -> Tensor:
        if network.config.reverse_source:
            places = source_lengths.unsqueeze(1) - 1 - torch.arange(sources.shape[1])
            sources = sources.gather(1, places.clamp(min=0))
        packed = rnn.pack_padded_sequence(
            network.source_embedding[sources],
            source_lengths,
            batch_first=True,
            enforce_sorted=False,
        )
        _, state = encoder(packed)
        del lengths  # rows after the end are dropped by the caller
        rows: Tensor = decoder(network.target_embedding[before], state)[0]
        return rows

    return PlainScorer(forward, network.output, END)


def _torch_lstm(stack: LstmStack) -> nn.LSTM:
    layers = cast(list[LstmLayer], list(stack.layers))
    hidden = layers[0].recurrent.weight.shape[1]
    made = nn.LSTM(layers[0].input.weight.shape[1], hidden, len(layers), batch_first=True)
    with torch.no_grad():
        for number, layer in enumerate(layers):
            weights = {
                "weight_ih": layer.input.weight,
                "bias_ih": layer.input.bias,
                "weight_hh": layer.recurrent.weight,
            }
            for name, weight in weights.items():
                i, f, o, g = weight.chunk(4)
                getattr(made, f"{name}_l{number}").copy_(torch.cat([i, f, g, o]))
            getattr(made, f"bias_hh_l{number}").zero_()
    return made.eval()


def plain_attention(network: AttentionNetwork) -> PlainScorer:
    decoder = network.decoder
    size = network.config.hidden_size
    input_weight, input_bias = decoder.input_weight(), decoder.input_bias()
    context_weight, gates_weight = decoder.context_weight(), decoder.gates_weight()
    # The id behind the last word stands for y_0, whose embedding is the zero vector.
    embedding = torch.cat(
        [
            network.target_embedding,
            network.target_embedding.new_zeros(1, network.target_embedding.shape[1]),
        ]
    )

    def forward(sources: Tensor, source_lengths: Tensor, before: Tensor, lengths: Tensor) -> Tensor:
        annotations, real = _annotations(network, sources, source_lengths)
        keys = network.alignment.annotation(annotations)  # (batch, time, alignment)
        masked = torch.zeros_like(real, dtype=keys.dtype).masked_fill(~real, -torch.inf)
        words = embedding[before]
        inputs = functional.linear(words, input_weight, input_bias)
        state = torch.tanh(network.initial(annotations[:, 0, size:]))
        states, contexts = [], []
        for step in range(int(lengths.max())):
            query = network.alignment.state(state).unsqueeze(1)
            energies = torch.tanh(keys + query) @ network.alignment.energy
            weights = torch.softmax(energies + masked, dim=1)
            context = torch.bmm(weights.unsqueeze(1), annotations).squeeze(1)
            total = inputs[:, step] + functional.linear(context, context_weight)
            gates = torch.sigmoid(total[:, : 2 * size] + functional.linear(state, gates_weight))
            update, reset = gates.chunk(2, dim=1)
            product = functional.linear(reset * state, decoder.recurrent_candidate.weight)
            state = torch.lerp(state, torch.tanh(total[:, 2 * size :] + product), update)
            states.append(state)
            contexts.append(context)
        pooled = network.readout_hidden(torch.stack(states, 1)) + network.readout_word(words)
        pooled = pooled + network.readout_context(torch.stack(contexts, 1)) + network.readout.bias
        return torch.maximum(pooled[..., 0::2], pooled[..., 1::2])

    return PlainScorer(forward, network.output, len(network.target_embedding))


def _annotations(
    network: AttentionNetwork, sources: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the annotations of words and ``</s>``, and which positions are real."""
    with_end = functional.pad(sources, (0, 1), value=END)
    real = torch.arange(with_end.shape[1]) <= lengths.unsqueeze(1)
    words = network.source_embedding[with_end]
    directions = []
    for unit, backward in ((network.forward_encoder, False), (network.backward_encoder, True)):
        inputs = functional.linear(words, unit.input_weight(), unit.input_bias())
        gates_weight, size = unit.gates_weight(), network.config.hidden_size
        state = words.new_zeros(len(words), size)
        states = []
        times = range(with_end.shape[1])
        for time in reversed(times) if backward else times:
            total = inputs[:, time]
            gates = torch.sigmoid(total[:, : 2 * size] + functional.linear(state, gates_weight))
            update, reset = gates.chunk(2, dim=1)
            product = functional.linear(reset * state, unit.recurrent_candidate.weight)
            new = torch.lerp(state, torch.tanh(total[:, 2 * size :] + product), update)
            # Behind the end nothing changes: the backward direction starts at the last real word.
            state = torch.where(real[:, time : time + 1], new, state)
            states.append(state)
        directions.append(torch.stack(states[::-1] if backward else states, 1))
    return torch.cat(directions, dim=2), real


def _pad(rows: Sequence[Sequence[int]], padding: int) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(row) for row in rows])
    padded = torch.full((len(rows), int(lengths.max())), padding)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = torch.tensor(row, dtype=torch.int64)
    return padded, lengths
