"""The settings themselves: frozen dataclasses, each field with its default and its range.

One dataclass per kind of network, and two that all share. :mod:`phrasescore.config.config` reads
and checks them.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

# Of a layer: far beyond what fits into any memory, so that a slip of the finger is found at once.
Size = Annotated[int, Meta(ge=1, le=1 << 16)]
# Of a shortlist, in words: ids are stored in 32 bits.
ShortlistSize = Annotated[int, Meta(ge=1, le=1 << 30)]
Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0.0)]
Positive = Annotated[float, Meta(gt=0.0)]
Dropout = Annotated[float, Meta(ge=0.0, le=0.9)]
OptimizerName = Literal["adadelta", "adam", "sgd"]


@dataclass(frozen=True, slots=True)
class EncoderDecoderConfig:
    """Sizes of the RNN Encoder-Decoder; the defaults are those of Cho et al. (2014), 4.1.1."""

    # Units of the gated layers, the same in encoder and decoder.
    hidden_size: Size = 1000
    # Rank of the matrices between words and layers: the size of a word's embedding.
    embedding_size: Size = 100
    # Maxout units, each the larger of two.
    maxout_size: Size = 500
    # Rank of the output matrix G = G_l G_r.
    output_rank: Size = 100
    # Standard deviation of the Gaussian that the weights start from, recurrent ones apart.
    init_std: Positive = 0.01
    # Not the paper's: share of embeddings and maxout units that an update drops.
    dropout: Dropout = 0.0


@dataclass(frozen=True, slots=True)
class LstmConfig:
    """Sizes of the deep LSTM; the defaults are those of Sutskever et al. (2014), 3.4."""

    # Layers of the encoder, and of the decoder.
    layers: Annotated[int, Meta(ge=1, le=64)] = 4
    # Cells of each layer.
    hidden_size: Size = 1000
    embedding_size: Size = 1000
    # Whether the encoder reads the source from its last word to its first (section 3.3).
    reverse_source: bool = True
    # All weights start uniformly between minus this and this.
    init_range: Positive = 0.08
    # Not the paper's: share of the connections between layers, never of recurrent ones, that an
    # update drops (Zaremba et al., 2014).
    dropout: Dropout = 0.0


@dataclass(frozen=True, slots=True)
class AttentionConfig:
    """Sizes of RNNsearch; the defaults are those of Bahdanau et al. (2014), A.3."""

    # Units of the decoder, and of each direction of the encoder.
    hidden_size: Size = 1000
    embedding_size: Size = 620
    # Maxout units, each the larger of two.
    maxout_size: Size = 500
    # Units of the alignment model.
    alignment_size: Size = 1000
    # Standard deviations of the Gaussians that the weights start from: of W_a and U_a, and of the
    # rest. Recurrent matrices start orthogonal, v_a and biases at 0.
    alignment_init_std: Positive = 0.001
    init_std: Positive = 0.01
    # Not the paper's: share of embeddings, annotations and maxout units that an update drops.
    dropout: Dropout = 0.0


@dataclass(frozen=True, slots=True)
class GrconvConfig:
    """Sizes of the gated recursive convolution; the defaults are those of Cho et al. (2014b), 3."""

    # Units of the encoder.
    encoder_size: Size = 2000
    # Units of the decoder.
    hidden_size: Size = 1000
    embedding_size: Size = 620
    # Maxout units, each the larger of two.
    maxout_size: Size = 500
    # Rank of the output matrix G = G_l G_r: as large as maxout_size, it bounds nothing.
    output_rank: Size = 500
    # Largest singular value of the encoder's square matrices at the start.
    spectral_radius: Positive = 0.4
    init_std: Positive = 0.01
    # Not the paper's: share of embeddings and maxout units that an update drops.
    dropout: Dropout = 0.0


@dataclass(frozen=True, slots=True)
class CslmConfig:
    """Sizes of the feed-forward language model; the defaults are those of Cho et al. (2014), 4.1.2.

    It learns from one text, whose words are those of the predicted side.
    """

    # Words of an n-gram: one is predicted from those before it.
    order: Annotated[int, Meta(ge=2, le=32)] = 7
    # Of each word of the context.
    embedding_size: Size = 512
    # Rectified units of the first layer, which reads all embeddings, and of the second.
    hidden_size: Size = 1536
    upper_size: Size = 1024
    # All weights start uniformly between minus this and this.
    init_range: Positive = 0.01
    # Not the paper's: share of embeddings and units that an update drops.
    dropout: Dropout = 0.0
    # Not the paper's: alpha, by which training keeps the softmax's log Z near 0, so that it may be
    # left out when scoring (Devlin et al., 2014, who take 0.1); 0: not so.
    self_normalization: Annotated[float, Meta(ge=0.0, le=1e6)] = 0.0


@dataclass(frozen=True, slots=True)
class JointConfig:
    """Sizes of the joint model; the defaults are those of Devlin et al. (2014), 2.1 and 2.2."""

    # Words of the target n-gram: one is predicted from those before it.
    order: Annotated[int, Meta(ge=2, le=32)] = 4
    # Source words that are read on each side of the affiliated one: 5 make the paper's m = 11.
    source_window: Annotated[int, Meta(ge=0, le=32)] = 5
    # Of each word of the context, source or target.
    embedding_size: Size = 192
    # tanh units of the first layer, which reads all embeddings, and of the second; 0: no second.
    hidden_size: Size = 512
    upper_size: Annotated[int, Meta(ge=0, le=1 << 16)] = 512
    # All weights start uniformly between minus this and this.
    init_range: Positive = 0.05
    # Not the paper's: share of embeddings and units that an update drops.
    dropout: Dropout = 0.0
    # alpha, by which training keeps the softmax's log Z near 0; 0: not so.
    self_normalization: Annotated[float, Meta(ge=0.0, le=1e6)] = 0.1


# The settings of any kind of network.
ModelConfig = (
    EncoderDecoderConfig | LstmConfig | AttentionConfig | GrconvConfig | CslmConfig | JointConfig
)

# The kinds of networks, by the dataclass of their sizes.
MODEL_CONFIGS: dict[str, type[ModelConfig]] = {
    "attention": AttentionConfig,
    "cslm": CslmConfig,
    "encoder-decoder": EncoderDecoderConfig,
    "grconv": GrconvConfig,
    "joint": JointConfig,
    "lstm": LstmConfig,
}

# The kinds that papers call by other names, in small letters.
NAMES_IN_PAPERS = {
    "rnnsearch": "attention",
    "rnnenc": "encoder-decoder",
    "rnn": "encoder-decoder",
    "seq2seq": "lstm",
}

# Kinds that learn from one text, and read no source.
LANGUAGE_MODELS = frozenset({"cslm"})
# Kinds that read of the source what a word alignment says.
ALIGNED = frozenset({"joint"})
# Kinds that predict a word from a fixed number of others: they learn how often a sentence comes,
# and may be trained to need no log Z.
FEED_FORWARD = LANGUAGE_MODELS | ALIGNED


@dataclass(frozen=True, slots=True)
class VocabularyConfig:
    """Sizes of the shortlists, in words, ``</s>`` and ``<unk>`` not counted; or subwords."""

    # Of the side that the network reads; with --reverse that is the target side of the table.
    source_size: ShortlistSize = 15000
    # Of the side that the network predicts; a language model has no other.
    target_size: ShortlistSize = 15000
    # Pieces of words on each side, in place of shortlists (:mod:`phrasescore.subwords`); 0: words.
    subwords: Annotated[int, Meta(ge=0, le=1 << 20)] = 0


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """How a network is trained."""

    # Pairs of an update.
    batch_size: Annotated[int, Meta(ge=1, le=1 << 20)] = 64
    # Batches that are drawn together and cut by length: less padding, fewer steps. 1: not so.
    window_batches: Annotated[int, Meta(ge=1, le=1 << 16)] = 1
    # Pairs with more words, or pieces, than this on a side are left out of training, and counted.
    max_length: Annotated[int, Meta(ge=1, le=65535)] = 100
    # The loss of a batch: -log p summed over its pairs, or that divided by their number.
    loss: Literal["sum", "mean"] = "sum"
    optimizer: OptimizerName = "adadelta"
    # Factor of every step; Adadelta's is 1 in the paper that introduced it.
    learning_rate: Positive = 1.0
    # linear: falls to 0 at the nearest of the limits below. halving: constant, and from the epoch
    # halving_start on halved every halving_epochs, at once for the first time.
    schedule: Literal["constant", "linear", "halving"] = "constant"
    halving_start: Amount = 5.0
    halving_epochs: Positive = 0.5
    # Adadelta: decay of the running averages.
    rho: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.95
    # Adadelta: 1e-6; Adam: 1e-8 is usual.
    epsilon: Positive = 1e-6
    # Adam: decays of the running averages.
    beta1: Annotated[float, Meta(ge=0.0, le=0.9999)] = 0.9
    beta2: Annotated[float, Meta(ge=0.0, le=0.999999)] = 0.999
    # The gradient of the loss is scaled down to this Euclidean norm; 0: never.
    clip_norm: Amount = 1.0
    # Of matrix products; weights are float32 always. tf32 is for CUDA devices. bfloat16 rounds the
    # factors on a CPU and is autocast on CUDA.
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"
    # Pairs held out for validation, but never more than this share of all; 0: no validation.
    validation_pairs: Count = 5000
    validation_share: Annotated[float, Meta(ge=0.0, le=0.5)] = 0.02
    # Updates between validations; 0: one at the end of each epoch.
    validation_updates: Count = 1000
    # Validations without a better perplexity before training stops; 0: never.
    patience: Count = 0
    # Limits, whichever comes first; 0: none.
    updates: Count = 0
    epochs: Amount = 0.0
    minutes: Amount = 0.0
    # Between checkpoints, whichever comes first; 0: none but the one at the end.
    checkpoint_minutes: Amount = 10.0
    checkpoint_updates: Count = 0
    # Of the start weights, the held-out part and the order of the pairs.
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 1


# How a trained network learns from n-best lists, where no setting says something else: its pairs
# are lists, and a validation without a better score halves the learning rate.
FINE_TUNING = TrainingConfig(
    batch_size=16,
    loss="mean",
    optimizer="adam",
    learning_rate=5e-4,
    epsilon=1e-8,
    validation_pairs=1000,
    validation_share=0.1,
    validation_updates=50,
    patience=3,
)
