"""The gated decoder of Cho et al. (2014), which networks with different encoders share.

A network is p(target | source) = p(target | c), with c a vector of fixed size that its encoder
makes of the source. The equations are those of the paper's appendix A.1.1. The paper leaves out
biases "to make the equations uncluttered"; here each affine map has one. O_y, like every matrix
between a word and a hidden layer (section 4.1.1), is of low rank through the word's embedding, as
in the authors' released code: O_y y = readout_word e(y).
"""

import torch
from torch import Tensor, nn

from phrasescore.config.settings import EncoderDecoderConfig, GrconvConfig
from phrasescore.models.batches import BatchSide, PairBatch
from phrasescore.models.layers import ResetAfterRecurrence, WordLogProb

MAXOUT_POOL = 2  # units 2i-1 and 2i are pooled


class GatedUnit(nn.Module):
    """The matrices of a gated unit: update gate z, reset gate r, candidate h~.

    :param context_size: of the vector c that a decoder reads at every step; 0: there is none.
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
        """Return W_z, W_r and W above one another, ``(3 * hidden, embedding)``."""
        return _stack(self.input_update, self.input_reset, self.input_candidate)

    def input_bias(self) -> Tensor:
        """Return the biases that go with :meth:`input_weight`, ``(3 * hidden,)``."""
        return torch.cat([self.input_update.bias, self.input_reset.bias, self.input_candidate.bias])

    def gates_weight(self) -> Tensor:
        """Return U_z and U_r above one another, ``(2 * hidden, hidden)``."""
        return _stack(self.recurrent_update, self.recurrent_reset)

    def recurrent_weight(self) -> Tensor:
        """Return U_z, U_r and U above one another, ``(3 * hidden, hidden)``."""
        return _stack(self.recurrent_update, self.recurrent_reset, self.recurrent_candidate)

    def context_weight(self) -> Tensor:
        """Return C_z, C_r and C above one another, ``(3 * hidden, context)``."""
        return _stack(self.context_update, self.context_reset, self.context_candidate)


class Readout(nn.Module):
    """The bias of the maxout layer, whose three products have none."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size))


class GatedDecoderNetwork(nn.Module):
    """p(target | source) of phrase or sentence pairs; a subclass has the encoder.

    A new network has no weights yet: :meth:`initialize` draws them, or a checkpoint brings them.
    A subclass makes its encoder's parts and then calls :meth:`build_decoder`: weights are drawn and
    stored in the order in which they were made.

    :param config: sizes.
    :param source_size: words of the source vocabulary with ``</s>`` and ``<unk>``.
    """

    def __init__(self, config: EncoderDecoderConfig | GrconvConfig, source_size: int) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Parameter(torch.empty(source_size, config.embedding_size))

    def build_decoder(self, context_size: int, target_size: int) -> None:
        """Make the decoder's parts.

        :param context_size: of c.
        :param target_size: words of the target vocabulary with ``</s>`` and ``<unk>``.
        """
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
        """Set the weights as section 4.1.1 does.

        Recurrent matrices are the left singular vectors of a Gaussian matrix (Saxe et al., 2014),
        biases are 0, the rest comes from a Gaussian of standard deviation 0.01 (``init_std``).
        """
        for name, parameter in self.named_parameters():
            radius = self.spectral_radius(name)
            if name.endswith("bias"):
                parameter.zero_()
            elif radius is not None:
                gaussian = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(radius * torch.linalg.svd(gaussian)[0])
            else:
                parameter.normal_(0.0, self.config.init_std, generator=generator)

    def spectral_radius(self, name: str) -> float | None:
        """Return the radius that a matrix starts with if it starts orthogonal, otherwise None."""
        return 1.0 if ".recurrent_" in name else None

    def forward(self, batch: PairBatch) -> Tensor:
        """Return log p(target ``</s>`` | source) of each pair, ``(batch,)``.

        Natural logarithms, summed over the target's words and its ``</s>``, not divided by length.
        An empty source leaves the encoder at its initial state 0; of an empty target only
        ``</s>`` is scored.
        """
        return self.decode(self.encode(batch.source), batch.target)

    def encode(self, source: BatchSide) -> Tensor:
        """Return c of the sources, ``(batch, context)``."""
        raise NotImplementedError

    def decode(self, context: Tensor, target: BatchSide) -> Tensor:
        """Return log p(target ``</s>`` | c) of each pair, ``(batch,)``.

        :param context: summaries c of the sources, ``(batch, context)``.
        """
        steps = target.words_and_ends().to(target.ids.device)
        context = context[steps.order]
        # Step t reads y_{t-1} and predicts y_t. The embedding of y_0 is the zero vector.
        batch = len(context)
        previous = nn.functional.embedding(target.previous_ids(steps), self.target_embedding)
        previous = torch.cat(
            [previous.new_zeros(batch, previous.shape[1]), previous]
        )  # (rows, embedding)
        previous = self.drop(previous)
        unit = self.decoder
        states = ResetAfterRecurrence.apply(
            torch.addmm(unit.input_bias(), previous, unit.input_weight().t()),
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
        log_probs: Tensor = WordLogProb.apply(
            self.output_factor(self.drop(maxout)),
            self.output.weight,
            self.output.bias,
            target.ids[steps.positions],
        )  # (rows,)
        return log_probs.new_zeros(batch).index_add(0, steps.order[steps.pairs], log_probs)

    def drop(self, units: Tensor) -> Tensor:
        """Return units of which an update loses a share: not the paper's, and 0 by default."""
        if not self.training or self.config.dropout == 0:
            return units
        return nn.functional.dropout(units, self.config.dropout)


def _stack(*maps: nn.Linear) -> Tensor:
    return torch.cat([part.weight for part in maps])
