"""The RNN Encoder-Decoder of Cho et al. (2014), to the letter of the paper's appendix A.

For phrase pairs in that paper; for sentences in Cho et al. (2014b) and Bahdanau et al. (2014), as
RNNenc. The decoder, and a word on biases, is in :mod:`phrasescore.models.gated_decoder`.
"""

import torch
from torch import Tensor, nn

from phrasescore.config.settings import EncoderDecoderConfig
from phrasescore.models.batches import BatchSide
from phrasescore.models.gated_decoder import GatedDecoderNetwork, GatedUnit
from phrasescore.models.layers import ResetBeforeRecurrence


class EncoderDecoder(GatedDecoderNetwork):
    """p(target | source) of pairs whose source is read by a gated unit, word by word.

    :param config: sizes.
    :param source_size: words of the source vocabulary with ``</s>`` and ``<unk>``.
    :param target_size: likewise for the target.
    """

    def __init__(self, config: EncoderDecoderConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size)
        self.encoder = GatedUnit(config.embedding_size, config.hidden_size)
        self.summary = nn.Linear(config.hidden_size, config.hidden_size)
        self.build_decoder(config.hidden_size, target_size)

    def encode(self, source: BatchSide) -> Tensor:
        """Return the summaries c = tanh(V h_N) of the sources, ``(batch, hidden)``."""
        steps = source.words().to(source.ids.device)
        unit = self.encoder
        words = nn.functional.embedding(
            source.ids[steps.positions], self.source_embedding
        )  # (rows, embedding)
        state = ResetBeforeRecurrence.apply(
            torch.addmm(unit.input_bias(), self.drop(words), unit.input_weight().t()),
            unit.gates_weight(),
            unit.recurrent_candidate.weight,
            steps.sizes,
        )  # (sources with words, hidden)
        empty = len(source.lengths) - len(state)
        if empty:
            state = torch.cat([state, state.new_zeros(empty, state.shape[1])])  # (batch, hidden)
        return torch.tanh(self.summary(state))[torch.argsort(steps.order)]
