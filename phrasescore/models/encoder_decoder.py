"""The RNN Encoder-Decoder (Cho et al., 2014), exactly as in the paper's appendix A.

The paper uses it for phrase pairs; Cho et al. (2014b) and Bahdanau et al. (2014) use it for
sentences, as RNNenc. Its encoder maps the source to a vector c of fixed size; networks with
other encoders share the gated decoder (`GatedDecoderNetwork`). The paper omits biases "to make the
equations uncluttered"; here each affine map has one. O_y, like every matrix between a word and a
hidden layer (section 4.1.1), is of low rank, as in the authors' code: O_y y = readout_word e(y).
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

from phrasescore.models.batches import BatchSide, PairBatch
from phrasescore.models.layers import (
    PairNetwork,
    ResetAfterRecurrence,
    ResetBeforeRecurrence,
    draw_orthogonal,
    previous_words,
)
from phrasescore.settings.kinds import EncoderDecoderConfig, GrconvConfig

MAXOUT_POOL = 2  # units 2i-1 and 2i are pooled


class GatedUnit(nn.Module):
    """The matrices of a gated unit: update gate z, reset gate r, candidate h~.

    :param context_size: size of the vector c, which a decoder reads at every step; 0 in an encoder.
    """

    def __init__(self, embedding_size: int, hidden_size: int, *, context_size: int = 0) -> None:
        super().__init__()
        self.input_update = nn.Linear(embedding_size, hidden_size)
        self.input_reset = nn.Linear(embedding_size, hidden_size)
        self.input_candidate = nn.Linear(embedding_size, hidden_size)
        self.recurrent_update = nn.Linear(hidden_size, hidden_size, bias=False)
        self.recurrent_reset = nn.Linear(hidden_size, hidden_size, bias=False)
        self.recurrent_candidate = nn.Linear(hidden_size, hidden_size, bias=False)
        if context_size:
            self.context_update = nn.Linear(context_size, hidden_size, bias=False)
            self.context_reset = nn.Linear(context_size, hidden_size, bias=False)
            self.context_candidate = nn.Linear(context_size, hidden_size, bias=False)

    def input_weight(self) -> Tensor:
        """Return W_z, W_r and W, stacked, ``(3 * hidden, embedding)``."""
        return stack_weights(self.input_update, self.input_reset, self.input_candidate)

    def input_bias(self) -> Tensor:
        """Return the biases that belong to :meth:`input_weight`."""
        return torch.cat([self.input_update.bias, self.input_reset.bias, self.input_candidate.bias])

    def read(self, words: Tensor) -> Tensor:
        """Return W_z e, W_r e and W e with their biases, ``(rows, 3 * hidden)``."""
        return torch.addmm(self.input_bias(), words, self.input_weight().t())

    def gates_weight(self) -> Tensor:
        """Return U_z and U_r stacked, ``(2 * hidden, hidden)``."""
        return stack_weights(self.recurrent_update, self.recurrent_reset)

    def recurrent_weight(self) -> Tensor:
        """Return U_z, U_r and U stacked, ``(3 * hidden, hidden)``."""
        return stack_weights(self.recurrent_update, self.recurrent_reset, self.recurrent_candidate)

    def context_weight(self) -> Tensor:
        """Return C_z, C_r and C stacked, ``(3 * hidden, context)``."""
        return stack_weights(self.context_update, self.context_reset, self.context_candidate)


def stack_weights(*maps: nn.Linear) -> Tensor:
    """Return the weights of linear maps, stacked in order by rows."""
    return torch.cat([part.weight for part in maps])


class Readout(nn.Module):
    """The bias of the maxout layer, shared by its three products."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size))


class GatedDecoderNetwork(PairNetwork):
    """A network with the gated decoder; a subclass adds the encoder.

    The subclass creates the encoder's layers and then calls :meth:`build_decoder`, because weights
    are drawn and stored in the order of creation.
    """

    config: EncoderDecoderConfig | GrconvConfig

    def __init__(self, config: EncoderDecoderConfig | GrconvConfig, source_size: int) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Parameter(torch.empty(source_size, config.embedding_size))

    def build_decoder(self, context_size: int, target_size: int) -> None:
        """Create the decoder's layers, which read a vector c of size ``context_size``."""
        config = self.config
        hidden, embedding = config.hidden_size, config.embedding_size
        pooled = MAXOUT_POOL * config.maxout_size
        self.initial = nn.Linear(context_size, hidden)
        self.target_embedding = nn.Parameter(torch.empty(target_size, embedding))
        self.decoder = GatedUnit(embedding, hidden, context_size=context_size)
        self.readout_hidden = nn.Linear(hidden, pooled, bias=False)
        self.readout_word = nn.Linear(embedding, pooled, bias=False)
        self.readout_context = nn.Linear(context_size, pooled, bias=False)
        self.readout = Readout(pooled)
        self.output_factor = nn.Linear(config.maxout_size, config.output_rank, bias=False)
        self.output = nn.Linear(config.output_rank, target_size)

    @torch.no_grad()
    def initialize(self, generator: torch.Generator) -> None:
        """Initialize the weights as in section 4.1.1.

        Recurrent matrices are orthogonal, biases are 0, and other weights are Gaussian.
        """
        for name, parameter in self.named_parameters():
            radius = self.spectral_radius(name)
            if name.endswith("bias"):
                parameter.zero_()
            elif radius is not None:
                draw_orthogonal(parameter, generator, radius)
            else:
                parameter.normal_(0.0, self.config.init_std, generator=generator)

    def spectral_radius(self, name: str) -> float | None:
        """Return the initial spectral radius of an orthogonal matrix; None for any other."""
        return 1.0 if ".recurrent_" in name else None

    def encode(self, source: BatchSide) -> Tensor:
        """Return the vector c of each source, ``(batch, context)``."""
        raise NotImplementedError

    def source_vectors(self, source: BatchSide) -> Tensor:
        """Return the vector c of each source, ``(batch, context)``, for reports."""
        return self.encode(source)

    def forward(self, batch: PairBatch) -> Tensor:
        target = batch.target
        context = self.encode(batch.source)
        steps = target.words_and_ends().to(target.ids.device)
        context = context[steps.order]
        previous = self.drop(previous_words(self.target_embedding, target, steps))
        unit = self.decoder
        states = ResetAfterRecurrence.apply(
            unit.read(previous),
            context @ unit.context_weight().t(),
            torch.tanh(self.initial(context)),
            unit.recurrent_weight(),
            steps.sizes,
        )  # (rows, hidden)
        pooled = self.readout_hidden(states) + self.readout_word(previous)
        pooled = pooled + (self.readout_context(context) + self.readout.bias).index_select(
            0, steps.pairs
        )  # (rows, 2 * maxout)
        maxout = torch.maximum(pooled[:, 0::2], pooled[:, 1::2])  # (rows, maxout)
        return self.sum_log_probs(self.output_factor(self.drop(maxout)), target, steps)


class EncoderDecoder(GatedDecoderNetwork):
    """p(target | source) with a gated unit that reads the source word by word."""

    config: EncoderDecoderConfig

    def __init__(self, config: EncoderDecoderConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size)
        self.encoder = GatedUnit(config.embedding_size, config.hidden_size)
        self.summary = nn.Linear(config.hidden_size, config.hidden_size)
        self.build_decoder(config.hidden_size, target_size)

    def encode(self, source: BatchSide) -> Tensor:
        """Return the summaries c = tanh(V h_N) of the sources, ``(batch, hidden)``."""
        steps = source.words().to(source.ids.device)
        words = embedding(source.ids[steps.positions], self.source_embedding)  # (rows, embedding)
        unit = self.encoder
        _, state = ResetBeforeRecurrence.apply(
            unit.read(self.drop(words)),
            unit.gates_weight(),
            unit.recurrent_candidate.weight,
            steps.sizes,
            True,
        )  # (sources with words, hidden)
        state = pad(state, (0, 0, 0, len(source.lengths) - len(state)))  # (batch, hidden)
        return torch.tanh(self.summary(state))[torch.argsort(steps.order)]
