"""The settings themselves: frozen dataclasses, each field with its default and its range.

One dataclass per kind of network, and two that all share. :mod:`phrasescore.config.config` reads
and checks them.
"""

import math
from dataclasses import dataclass, field
from typing import Any

# Of a layer: far beyond what fits into any memory, so that a slip of the finger is found at once.
_MAX_SIZE = 1 << 16
# Of a shortlist: ids are stored in 32 bits.
_MAX_WORDS = 1 << 30


def setting(
    default: float | str | bool,
    *,
    minimum: float = -math.inf,
    maximum: float = math.inf,
    above: float = -math.inf,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a setting with its range: ``minimum <= value <= maximum``, ``above < value``."""
    limits = {"minimum": minimum, "maximum": maximum, "above": above, "choices": choices}
    return field(default=default, metadata=limits)


@dataclass(frozen=True, slots=True)
class EncoderDecoderConfig:
    """Sizes of the RNN Encoder-Decoder; the defaults are those of Cho et al. (2014), 4.1.1."""

    # Units of the gated layers, the same in encoder and decoder.
    hidden_size: int = setting(1000, minimum=1, maximum=_MAX_SIZE)
    # Rank of the matrices between words and layers: the size of a word's embedding.
    embedding_size: int = setting(100, minimum=1, maximum=_MAX_SIZE)
    # Maxout units, each the larger of two.
    maxout_size: int = setting(500, minimum=1, maximum=_MAX_SIZE)
    # Rank of the output matrix G = G_l G_r.
    output_rank: int = setting(100, minimum=1, maximum=_MAX_SIZE)
    # Standard deviation of the Gaussian that the weights start from, recurrent ones apart.
    init_std: float = setting(0.01, above=0.0)
    # Not the paper's: share of embeddings and maxout units that an update drops.
    dropout: float = setting(0.0, minimum=0.0, maximum=0.9)


@dataclass(frozen=True, slots=True)
class LstmConfig:
    """Sizes of the deep LSTM; the defaults are those of Sutskever et al. (2014), 3.4."""

    # Layers of the encoder, and of the decoder.
    layers: int = setting(4, minimum=1, maximum=64)
    # Cells of each layer.
    hidden_size: int = setting(1000, minimum=1, maximum=_MAX_SIZE)
    embedding_size: int = setting(1000, minimum=1, maximum=_MAX_SIZE)
    # Whether the encoder reads the source from its last word to its first (section 3.3).
    reverse_source: bool = setting(True)
    # All weights start uniformly between minus this and this.
    init_range: float = setting(0.08, above=0.0)
    # Not the paper's: share of the connections between layers, never of recurrent ones, that an
    # update drops (Zaremba et al., 2014).
    dropout: float = setting(0.0, minimum=0.0, maximum=0.9)


@dataclass(frozen=True, slots=True)
class AttentionConfig:
    """Sizes of RNNsearch; the defaults are those of Bahdanau et al. (2014), A.3."""

    # Units of the decoder, and of each direction of the encoder.
    hidden_size: int = setting(1000, minimum=1, maximum=_MAX_SIZE)
    embedding_size: int = setting(620, minimum=1, maximum=_MAX_SIZE)
    # Maxout units, each the larger of two.
    maxout_size: int = setting(500, minimum=1, maximum=_MAX_SIZE)
    # Units of the alignment model.
    alignment_size: int = setting(1000, minimum=1, maximum=_MAX_SIZE)
    # Standard deviations of the Gaussians that the weights start from: of W_a and U_a, and of the
    # rest. Recurrent matrices start orthogonal, v_a and biases at 0.
    alignment_init_std: float = setting(0.001, above=0.0)
    init_std: float = setting(0.01, above=0.0)
    # Not the paper's: share of embeddings, annotations and maxout units that an update drops.
    dropout: float = setting(0.0, minimum=0.0, maximum=0.9)


@dataclass(frozen=True, slots=True)
class GrconvConfig:
    """Sizes of the gated recursive convolution; the defaults are those of Cho et al. (2014b), 3."""

    # Units of the encoder.
    encoder_size: int = setting(2000, minimum=1, maximum=_MAX_SIZE)
    # Units of the decoder.
    hidden_size: int = setting(1000, minimum=1, maximum=_MAX_SIZE)
    embedding_size: int = setting(620, minimum=1, maximum=_MAX_SIZE)
    # Maxout units, each the larger of two.
    maxout_size: int = setting(500, minimum=1, maximum=_MAX_SIZE)
    # Rank of the output matrix G = G_l G_r: as large as maxout_size, it bounds nothing.
    output_rank: int = setting(500, minimum=1, maximum=_MAX_SIZE)
    # Largest singular value of the encoder's square matrices at the start.
    spectral_radius: float = setting(0.4, above=0.0)
    init_std: float = setting(0.01, above=0.0)
    # Not the paper's: share of embeddings and maxout units that an update drops.
    dropout: float = setting(0.0, minimum=0.0, maximum=0.9)


@dataclass(frozen=True, slots=True)
class CslmConfig:
    """Sizes of the feed-forward language model; the defaults are those of Cho et al. (2014), 4.1.2.

    It learns from one text, whose words are those of the predicted side.
    """

    # Words of an n-gram: one is predicted from those before it.
    order: int = setting(7, minimum=2, maximum=32)
    # Of each word of the context.
    embedding_size: int = setting(512, minimum=1, maximum=_MAX_SIZE)
    # Rectified units of the first layer, which reads all embeddings, and of the second.
    hidden_size: int = setting(1536, minimum=1, maximum=_MAX_SIZE)
    upper_size: int = setting(1024, minimum=1, maximum=_MAX_SIZE)
    # All weights start uniformly between minus this and this.
    init_range: float = setting(0.01, above=0.0)
    # Not the paper's: share of embeddings and units that an update drops.
    dropout: float = setting(0.0, minimum=0.0, maximum=0.9)
    # Not the paper's: alpha, by which training keeps the softmax's log Z near 0, so that it may be
    # left out when scoring (Devlin et al., 2014, who take 0.1); 0: not so.
    self_normalization: float = setting(0.0, minimum=0.0, maximum=1e6)


# The settings of any kind of network.
ModelConfig = EncoderDecoderConfig | LstmConfig | AttentionConfig | GrconvConfig | CslmConfig

# The kinds of networks, by the dataclass of their sizes.
MODEL_CONFIGS: dict[str, type[ModelConfig]] = {
    "attention": AttentionConfig,
    "cslm": CslmConfig,
    "encoder-decoder": EncoderDecoderConfig,
    "grconv": GrconvConfig,
    "lstm": LstmConfig,
}

# Kinds that learn from one text, and read no source.
LANGUAGE_MODELS = frozenset({"cslm"})


@dataclass(frozen=True, slots=True)
class VocabularyConfig:
    """Sizes of the shortlists, in words, ``</s>`` and ``<unk>`` not counted."""

    # Of the side that the network reads; with --reverse that is the target side of the table.
    source_size: int = setting(15000, minimum=1, maximum=_MAX_WORDS)
    # Of the side that the network predicts; a language model has no other.
    target_size: int = setting(15000, minimum=1, maximum=_MAX_WORDS)


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """How a network is trained."""

    # Pairs of an update.
    batch_size: int = setting(64, minimum=1, maximum=1 << 20)
    # Batches that are drawn together and cut by length: less padding, fewer steps. 1: not so.
    window_batches: int = setting(1, minimum=1, maximum=1 << 16)
    # Pairs with more words than this on a side are left out of training, and counted.
    max_length: int = setting(100, minimum=1, maximum=65535)
    # The loss of a batch: -log p summed over its pairs, or that divided by their number.
    loss: str = setting("sum", choices=("sum", "mean"))
    optimizer: str = setting("adadelta", choices=("adadelta", "adam", "sgd"))
    # Factor of every step; Adadelta's is 1 in the paper that introduced it.
    learning_rate: float = setting(1.0, above=0.0)
    # linear: falls to 0 at the nearest of the limits below. halving: constant, and from the epoch
    # halving_start on halved every halving_epochs, at once for the first time.
    schedule: str = setting("constant", choices=("constant", "linear", "halving"))
    halving_start: float = setting(5.0, minimum=0.0)
    halving_epochs: float = setting(0.5, above=0.0)
    # Adadelta: decay of the running averages.
    rho: float = setting(0.95, minimum=0.0, maximum=1.0)
    # Adadelta: 1e-6; Adam: 1e-8 is usual.
    epsilon: float = setting(1e-6, above=0.0)
    # Adam: decays of the running averages.
    beta1: float = setting(0.9, minimum=0.0, maximum=0.9999)
    beta2: float = setting(0.999, minimum=0.0, maximum=0.999999)
    # The gradient of the loss is scaled down to this Euclidean norm; 0: never.
    clip_norm: float = setting(1.0, minimum=0.0)
    # Of matrix products; weights are float32 always. tf32 is for CUDA devices. bfloat16 rounds the
    # factors on a CPU and is autocast on CUDA.
    precision: str = setting("float32", choices=("float32", "tf32", "bfloat16"))
    # Pairs held out for validation, but never more than this share of all; 0: no validation.
    validation_pairs: int = setting(5000, minimum=0)
    validation_share: float = setting(0.02, minimum=0.0, maximum=0.5)
    # Updates between validations; 0: one at the end of each epoch.
    validation_updates: int = setting(1000, minimum=0)
    # Validations without a better perplexity before training stops; 0: never.
    patience: int = setting(0, minimum=0)
    # Limits, whichever comes first; 0: none.
    updates: int = setting(0, minimum=0)
    epochs: float = setting(0.0, minimum=0.0)
    minutes: float = setting(0.0, minimum=0.0)
    # Between checkpoints, whichever comes first; 0: none but the one at the end.
    checkpoint_minutes: float = setting(10.0, minimum=0.0)
    checkpoint_updates: int = setting(0, minimum=0)
    # Of the start weights, the held-out part and the order of the pairs.
    seed: int = setting(1, minimum=0, maximum=2**63 - 1)
