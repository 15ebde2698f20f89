"""Networks as a careful practitioner writes them in torch: what ours are measured by.

Each pair is scored on its own, in padded batches of pairs of similar lengths, as marian-scorer,
Nematus and fairseq do: the source is encoded again for each hypothesis, and a beginning that two
pairs share is computed twice. What is usual to be fast is done: torch's own LSTM, products over all
time steps at once where the equations allow it, the gates' products merged into one, C c once per
pair, padded positions dropped before the readout, and the output layer in slices, of which the
memory is used again. The networks have the parameters of :mod:`phrasescore.models`, and autograd
computes the gradients.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import rnn

from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.models.lstm import LstmLayer, LstmNetwork, LstmStack
from phrasescore.models.rnnsearch import RnnsearchNetwork

END = 0
# Positions whose distributions over the target shortlist are in memory at once.
SLICE = 256
IdPair = tuple[Sequence[int], Sequence[int]]
# Source ids (batch, time) and lengths; the target (batch, time), which ends in </s> = 0 and is
# padded with it, and which of its positions are real: what predicts each real word, (real, width).
Forward = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class PlainScorer:
    """Scores pairs one by one in batches sorted by length.

    :param forward: a network up to its output layer.
    """

    def __init__(self, forward: Forward, output: nn.Linear) -> None:
        self._forward = forward
        self._output = output

    @torch.inference_mode()
    def score(self, pairs: Sequence[IdPair], batch_size: int) -> list[float]:
        """Return log p(target ``</s>`` | source) of each pair, in order."""
        order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
        values = [0.0] * len(pairs)
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            found = self.log_probs([pairs[place] for place in chosen])
            for place, value in zip(chosen, found.tolist(), strict=True):
                values[place] = value
        return values

    def log_probs(self, pairs: Sequence[IdPair]) -> Tensor:
        device = self._output.weight.device
        sources, source_lengths = _pad([list(source) for source, _ in pairs], device)
        targets, lengths = _pad([[*target, END] for _, target in pairs], device)
        real = torch.arange(targets.shape[1], device=device) < lengths.unsqueeze(1)
        rows = self._forward(sources, source_lengths, targets, real)
        log_probs = torch.cat(
            [
                -functional.cross_entropy(self._output(part), words, reduction="none")
                for part, words in zip(rows.split(SLICE), targets[real].split(SLICE), strict=True)
            ]
        )
        owners = real.nonzero()[:, 0]
        return log_probs.new_zeros(len(pairs)).index_add(0, owners, log_probs)


def _pad(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max())
    padded = torch.tensor([[*row, *[END] * (width - len(row))] for row in rows]).long()
    return padded.to(device), lengths.to(device)


def train_steps(
    network: EncoderDecoder,
    pairs: Sequence[IdPair],
    batches: Iterable[Sequence[int]],
    optimizer: torch.optim.Optimizer,
) -> None:
    """Take one step a batch on the mean over pairs of -log p; the gradient is clipped to norm 1.

    :param batches: indices of pairs.
    """
    for indices in batches:
        optimizer.zero_grad()
        scorer = plain_encoder_decoder(network)
        (-scorer.log_probs([pairs[index] for index in indices]).mean()).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()


def plain_encoder_decoder(network: EncoderDecoder) -> PlainScorer:
    """Cho et al. (2014), appendix A; matrices are merged once for all batches of the scorer."""
    encoder, decoder = network.encoder, network.decoder
    read, candidate = encoder.input_weight(), encoder.recurrent_candidate.weight
    read_bias, gates = encoder.input_bias(), encoder.gates_weight()
    weight, bias = decoder.input_weight(), decoder.input_bias()
    recurrent, from_context = decoder.recurrent_weight(), decoder.context_weight()
    size = network.config.hidden_size

    def encode(sources: Tensor, lengths: Tensor) -> Tensor:
        words = functional.embedding(sources, network.source_embedding)
        inputs = functional.linear(words, read, read_bias)
        state = inputs.new_zeros(len(words), size)
        states = [state]
        for step in inputs.unbind(dim=1):
            update, new = _gated_step(step, state, gates, candidate)
            state = torch.lerp(new, state, update)  # z h + (1 - z) h~
            states.append(state)
        # Padding comes after the last word, so the state at the row's own length is untouched.
        last = torch.stack(states)[lengths, torch.arange(len(words), device=words.device)]
        return torch.tanh(network.summary(last))

    def forward(sources: Tensor, source_lengths: Tensor, targets: Tensor, real: Tensor) -> Tensor:
        context = encode(sources, source_lengths)
        words = _before(targets, network.target_embedding)
        inputs = functional.linear(words, weight, bias)
        state = torch.tanh(network.initial(context))
        context_gates, context_candidate = functional.linear(context, from_context).split(
            [2 * size, size], dim=1
        )
        states = []
        for step in inputs.unbind(dim=1):
            products = functional.linear(state, recurrent)
            total = step[:, : 2 * size] + products[:, : 2 * size] + context_gates
            update, reset = torch.sigmoid(total).chunk(2, dim=1)
            inner = reset * (products[:, 2 * size :] + context_candidate)
            state = torch.lerp(torch.tanh(step[:, 2 * size :] + inner), state, update)
            states.append(state)
        pooled = network.readout_hidden(torch.stack(states, dim=1)[real])
        pooled = pooled + network.readout_word(words[real])
        of_pair = network.readout_context(context) + network.readout.bias
        pooled = pooled + of_pair[real.nonzero()[:, 0]]
        return cast(Tensor, network.output_factor(_maxout(pooled)))

    return PlainScorer(forward, network.output)


def plain_lstm(network: LstmNetwork) -> PlainScorer:
    encoder, decoder = _torch_lstm(network.encoder), _torch_lstm(network.decoder)

    def forward(sources: Tensor, source_lengths: Tensor, targets: Tensor, real: Tensor) -> Tensor:
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
        before = functional.pad(targets[:, :-1], (1, 0), value=END)
        rows: Tensor = decoder(network.target_embedding[before], state)[0]
        return rows[real]

    return PlainScorer(forward, network.output)


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


def plain_rnnsearch(network: RnnsearchNetwork) -> PlainScorer:
    decoder = network.decoder
    size = network.config.hidden_size
    input_weight, input_bias = decoder.input_weight(), decoder.input_bias()
    context_weight, gates = decoder.context_weight(), decoder.gates_weight()
    candidate = decoder.recurrent_candidate.weight

    def forward(sources: Tensor, source_lengths: Tensor, targets: Tensor, real: Tensor) -> Tensor:
        annotations, is_word = _annotations(network, sources, source_lengths)
        keys = network.alignment.annotation(annotations)  # (batch, time, alignment)
        masked = torch.zeros_like(is_word, dtype=keys.dtype).masked_fill(~is_word, -torch.inf)
        words = _before(targets, network.target_embedding)
        inputs = functional.linear(words, input_weight, input_bias)
        state = torch.tanh(network.initial(annotations[:, 0, size:]))
        states, contexts = [], []
        for step in inputs.unbind(dim=1):
            query = network.alignment.state(state).unsqueeze(1)
            energies = torch.tanh(keys + query) @ network.alignment.energy
            weights = torch.softmax(energies + masked, dim=1)
            context = torch.bmm(weights.unsqueeze(1), annotations).squeeze(1)
            total = step + functional.linear(context, context_weight)
            update, new = _gated_step(total, state, gates, candidate)
            state = torch.lerp(state, new, update)
            states.append(state)
            contexts.append(context)
        pooled = network.readout_hidden(torch.stack(states, 1)[real])
        pooled = pooled + network.readout_word(words[real])
        pooled = pooled + network.readout_context(torch.stack(contexts, 1)[real])
        return _maxout(pooled + network.readout.bias)

    return PlainScorer(forward, network.output)


def _annotations(
    network: RnnsearchNetwork, sources: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the annotations of words and ``</s>``, and which positions are real."""
    with_end = functional.pad(sources, (0, 1), value=END)
    real = torch.arange(with_end.shape[1]) <= lengths.unsqueeze(1)
    words = network.source_embedding[with_end]
    directions = []
    for unit, backward in ((network.forward_encoder, False), (network.backward_encoder, True)):
        inputs = functional.linear(words, unit.input_weight(), unit.input_bias())
        gates, candidate = unit.gates_weight(), unit.recurrent_candidate.weight
        state = words.new_zeros(len(words), network.config.hidden_size)
        states = []
        times = range(with_end.shape[1])
        for time in reversed(times) if backward else times:
            update, new = _gated_step(inputs[:, time], state, gates, candidate)
            # Behind the end nothing changes: the backward direction starts at the last real word.
            state = torch.where(real[:, time : time + 1], torch.lerp(state, new, update), state)
            states.append(state)
        directions.append(torch.stack(states[::-1] if backward else states, 1))
    return torch.cat(directions, dim=2), real


def _gated_step(
    total: Tensor, state: Tensor, gates: Tensor, candidate: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the update gate, and the candidate whose reset comes before the product."""
    size = state.shape[1]
    both = torch.sigmoid(total[:, : 2 * size] + functional.linear(state, gates))
    update, reset = both.chunk(2, dim=1)
    return update, torch.tanh(total[:, 2 * size :] + functional.linear(reset * state, candidate))


def _before(targets: Tensor, embedding: Tensor) -> Tensor:
    """Return the embedding of the word before each position; the first one is the zero vector."""
    return functional.pad(functional.embedding(targets[:, :-1], embedding), (0, 0, 1, 0))


def _maxout(pooled: Tensor) -> Tensor:
    return torch.maximum(pooled[..., 0::2], pooled[..., 1::2])
