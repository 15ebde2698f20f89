"""RNNsearch of Bahdanau et al. (2014), to the letter of the paper's appendices A and B.

The paper omits biases "in order to increase readability"; here each affine map has one. (An
energy e_ij has none: the softmax would not see it.) The authors' code reads the source's ``</s>``
as its last word, so does this: an empty source has one annotation, too. Appendix A.2 leaves C_z c_i
and C_r c_i out of the gates; they are in section 3.3 and among A.2's weights, and they are here.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding

from phrasescore.config.settings import AttentionConfig
from phrasescore.models.alignment import Places
from phrasescore.models.attentive_recurrence import AttentiveRecurrence, GatedRecurrence
from phrasescore.models.batches import BatchSide, PairBatch, Steps
from phrasescore.models.gated_decoder import MAXOUT_POOL, GatedUnit, Readout
from phrasescore.models.layers import WordLogProb


class Alignment(nn.Module):
    """The matrices of the alignment model: W_a, U_a and v_a."""

    def __init__(self, hidden_size: int, alignment_size: int) -> None:
        super().__init__()
        self.state = nn.Linear(hidden_size, alignment_size, bias=False)
        self.annotation = nn.Linear(2 * hidden_size, alignment_size)
        self.energy = nn.Parameter(torch.empty(alignment_size))


class AttentionNetwork(nn.Module):
    """p(target | source) of sentence pairs.

    A new network has no weights yet: :meth:`initialize` draws them, or a checkpoint brings them.
    The network itself puts ``</s>`` behind the source.

    :param config: sizes.
    :param source_size: words of the source vocabulary with ``</s>`` and ``<unk>``.
    :param target_size: likewise for the target.
    """

    def __init__(self, config: AttentionConfig, source_size: int, target_size: int) -> None:
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
        """Set the weights as appendix B.1 does.

        Recurrent matrices are random orthogonal ones; W_a and U_a come from a Gaussian of standard
        deviation 0.001 (``alignment_init_std``); v_a and biases are 0; the rest comes from a
        Gaussian of standard deviation 0.01 (``init_std``).
        """
        for name, parameter in self.named_parameters():
            if name.endswith("bias") or name == "alignment.energy":
                parameter.zero_()
            elif ".recurrent_" in name:
                gaussian = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(torch.linalg.svd(gaussian)[0])
            elif name.startswith("alignment."):
                parameter.normal_(0.0, self.config.alignment_init_std, generator=generator)
            else:
                parameter.normal_(0.0, self.config.init_std, generator=generator)

    def forward(self, batch: PairBatch) -> Tensor:
        """Return log p(target ``</s>`` | source) of each pair, ``(batch,)``.

        Natural logarithms, summed over the target's words and its ``</s>``, not divided by length.
        Of an empty source the encoder reads ``</s>`` alone; of an empty target only ``</s>`` is
        scored.
        """
        target = batch.target
        steps = target.words_and_ends().to(target.ids.device)
        previous = self._drop(self._previous_words(target, steps))  # (rows, embedding)
        states, contexts, _ = self._decode(batch.source, steps, previous)
        pooled = self.readout_hidden(states) + contexts  # (rows, 2 * maxout)
        pooled = pooled + self.readout_word(previous) + self.readout.bias
        maxout = torch.maximum(pooled[:, 0::2], pooled[:, 1::2])  # (rows, maxout)
        log_probs: Tensor = WordLogProb.apply(
            self._drop(maxout), self.output.weight, self.output.bias, target.ids[steps.positions]
        )  # (rows,)
        total = log_probs.new_zeros(len(target.lengths))
        return total.index_add(0, steps.order[steps.pairs], log_probs)

    def alignments(self, batch: PairBatch) -> Tensor:
        """Return alpha_ij, ``(batch, target_time + 1, source_time + 1)``.

        Row i is the step that predicts word i, counted from 0, the last one of a target its
        ``</s>``; column j is source word j, the last one of a source its ``</s>``. A row sums to 1,
        or is 0 behind the target's end.
        """
        source, target = batch
        steps = target.words_and_ends().to(target.ids.device)
        previous = self._drop(self._previous_words(target, steps))
        _, _, weights = self._decode(source, steps, previous)  # (rows, longest source)
        batch_size = len(target.lengths)
        alpha = weights.new_zeros(batch_size, len(steps.sizes), weights.shape[1])
        alpha[steps.order[steps.pairs], steps.times] = weights
        return alpha

    def encode(self, source: BatchSide) -> tuple[Tensor, Places]:
        """Return the annotations of all words and ends, and where those of each source are.

        :return: ``(positions, 2 * hidden)``, in the order of the ids: the forward states, and
            beside them the backward ones.
        """
        device = source.ids.device
        steps = source.words_and_ends().to(device)
        words = self._drop(embedding(source.ids, self.source_embedding))  # (positions, embedding)
        states = []
        for unit, positions in (
            (self.forward_encoder, steps.positions),
            (self.backward_encoder, steps.backward_positions()),
        ):
            packed = GatedRecurrence.apply(
                torch.addmm(unit.input_bias(), words[positions], unit.input_weight().t()),
                unit.gates_weight(),
                unit.recurrent_candidate.weight,
                steps.sizes,
            )  # (rows, hidden)
            states.append(packed[torch.argsort(positions)])  # (positions, hidden)
        return torch.cat(states, dim=1), Places.of(source.lengths + 1).to(device)

    def _decode(
        self, source: BatchSide, steps: Steps, previous: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return s_i, C_o c_i and the weights of each row; see :class:`AttentiveRecurrence`."""
        annotations, places = self.encode(source)
        annotations = self._drop(annotations)
        places = places.of_pairs(steps.order)
        unit = self.decoder
        first_backward = annotations[places.starts, self.config.hidden_size :]
        values = torch.cat([unit.context_weight(), self.readout_context.weight])
        decoded: tuple[Tensor, Tensor, Tensor] = AttentiveRecurrence.apply(
            torch.addmm(unit.input_bias(), previous, unit.input_weight().t()),
            torch.tanh(self.initial(first_backward)),
            self.alignment.annotation(annotations),
            annotations @ values.t(),
            self.alignment.energy,
            torch.cat([self.alignment.state.weight, unit.gates_weight()]),
            unit.recurrent_candidate.weight,
            steps,
            places,
        )
        return decoded

    def _previous_words(self, target: BatchSide, steps: Steps) -> Tensor:
        """Return the embedding of the word before each row's; of y_0, the zero vector."""
        words = embedding(target.previous_ids(steps), self.target_embedding)
        return torch.cat([words.new_zeros(len(target.lengths), words.shape[1]), words])

    def _drop(self, units: Tensor) -> Tensor:
        """Return units of which an update loses a share: not the paper's, and 0 by default."""
        return dropout(units, self.config.dropout, self.training)
