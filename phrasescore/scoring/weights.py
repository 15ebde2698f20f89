"""A network's weights in the layout that scoring wants."""

import torch
from torch import Tensor

from phrasescore.errors import ModelError
from phrasescore.kernels.precision import Factor, Precision
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.models.gated_decoder import MAXOUT_POOL
from phrasescore.scoring.normalizer import Normalizer


class ScoringWeights:
    """The weights of an RNN Encoder-Decoder, merged, transposed and tabulated.

    Every product between a word and a matrix is a row of a table. Matrices are stored as
    ``(in, out)`` and multiplied from the right.

    :raises ModelError: if a weight is not finite: the fast element-wise code does not carry NaN.
    """

    def __init__(self, model: EncoderDecoder, device: torch.device, precision: Precision) -> None:
        for name, parameter in model.named_parameters():
            if not bool(torch.isfinite(parameter).all()):
                raise ModelError(f"weights {name!r} are not all finite")

        def place(weight: Tensor) -> Tensor:
            return weight.detach().to(device, torch.float32).contiguous()

        def matrix(weight: Tensor) -> Factor:
            return precision.prepare(place(weight.t()))

        encoder, decoder = model.encoder, model.decoder
        self.device = device
        self.hidden_size = model.config.hidden_size
        self.num_units = model.config.maxout_size
        self.source_words = place(
            model.source_embedding @ encoder.input_weight().t() + encoder.input_bias()
        )
        self.encoder_gates = matrix(encoder.gates_weight())
        self.encoder_candidate = matrix(encoder.recurrent_candidate.weight)
        self.summary, self.summary_bias = matrix(model.summary.weight), place(model.summary.bias)
        self.initial, self.initial_bias = matrix(model.initial.weight), place(model.initial.bias)
        self.context = matrix(decoder.context_weight())
        # One more row than words: e(y_0) is the zero vector, which leaves nothing but the biases.
        self.start_word = len(model.target_embedding)
        nothing = model.target_embedding.new_zeros(1, model.config.embedding_size)
        embedding = torch.cat([model.target_embedding, nothing])
        # The largest table, and read in no order: as narrow as what it is added to is exact.
        self.target_words = place(embedding @ decoder.input_weight().t() + decoder.input_bias()).to(
            precision.table_type
        )
        self.decoder_recurrent = matrix(decoder.recurrent_weight())
        # The two units of a maxout pair go to columns half the width apart.
        units = torch.arange(MAXOUT_POOL * self.num_units, device=embedding.device)
        apart = units.view(-1, MAXOUT_POOL).t().reshape(-1)
        self.readout_hidden = matrix(model.readout_hidden.weight[apart])
        self.readout_words = place(embedding @ model.readout_word.weight[apart].t())
        self.readout_context = matrix(model.readout_context.weight[apart])
        self.readout_bias = place(model.readout.bias[apart])
        self.output_factor = matrix(model.output_factor.weight)
        self.normalizer = Normalizer(
            place(model.output.weight), place(model.output.bias), precision
        )
