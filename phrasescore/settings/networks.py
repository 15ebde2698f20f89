"""The settings of networks and training: frozen dataclasses with defaults and ranges.

There is one dataclass per kind of network, and two that all kinds share.
:mod:`phrasescore.settings.config` reads and checks them.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

# Size of a layer. The limit exceeds any memory, and catches typing errors early.
Size = Annotated[int, Meta(ge=1, le=1 << 16)]
# Words of a shortlist; ids are stored in 32 bits.
ShortlistSize = Annotated[int, Meta(ge=1, le=1 << 30)]
Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0.0)]
Positive = Annotated[float, Meta(gt=0.0)]
Dropout = Annotated[float, Meta(ge=0.0, le=0.9)]
OptimizerName = Literal["adadelta", "adam", "sgd"]


@dataclass(frozen=True, slots=True)
class EncoderDecoderConfig:
    """Sizes of the RNN Encoder-Decoder, by default as in Cho et al. (2014), 4.1.1."""

    # Units of the gated layers, of both encoder and decoder.
    hidden_size: Size = 1000
    # Rank of the matrices between words and layers, which is the size of a word's embedding.
    embedding_size: Size = 100
    # Number of maxout units, each the maximum of two.
    maxout_size: Size = 500
    # Rank of the output matrix G = G_l G_r.
    output_rank: Size = 100
    # Standard deviation of the Gaussian initialization of the weights except recurrent ones.
    init_std: Positive = 0.01
    # Not in the paper: share of embeddings and maxout units that dropout zeroes.
    dropout: Dropout = 0.0


@dataclass(frozen=True, slots=True)
class LstmConfig:
    """Sizes of the deep LSTM, by default as in Sutskever et al. (2014), 3.4."""

    # Number of layers of the encoder, and of the decoder.
    layers: Annotated[int, Meta(ge=1, le=64)] = 4
    # Number of cells of each layer.
    hidden_size: Size = 1000
    embedding_size: Size = 1000
    # Whether the encoder reads the source backwards (section 3.3).
    reverse_source: bool = True
    # Weights are initialized uniformly between minus and plus this.
    init_range: Positive = 0.08
    # Not in the paper: share of the non-recurrent connections between layers that dropout zeroes
    # (Zaremba et al., 2014).
    dropout: Dropout = 0.0


@dataclass(frozen=True, slots=True)
class AttentionConfig:
    """Sizes of RNNsearch, by default as in Bahdanau et al. (2014), A.3."""

    # Units of the decoder, and of each direction of the encoder.
    hidden_size: Size = 1000
    embedding_size: Size = 620
    # Number of maxout units, each the maximum of two.
    maxout_size: Size = 500
    # Units of the alignment model.
    alignment_size: Size = 1000
    # Standard deviations of the Gaussian initializations of W_a and U_a, and of the other weights.
    # Recurrent matrices start orthogonal, v_a and biases at 0.
    alignment_init_std: Positive = 0.001
    init_std: Positive = 0.01
    # Not in the paper: share of embeddings, annotations and maxout units that dropout zeroes.
    dropout: Dropout = 0.0


@dataclass(frozen=True, slots=True)
class GrconvConfig:
    """Sizes of the gated recursive convolution, by default as in Cho et al. (2014b), 3."""

    # Units of the encoder.
    encoder_size: Size = 2000
    # Units of the decoder.
    hidden_size: Size = 1000
    embedding_size: Size = 620
    # Number of maxout units, each the maximum of two.
    maxout_size: Size = 500
    # Rank of the output matrix G = G_l G_r; at maxout_size it is no restriction.
    output_rank: Size = 500
    # Largest initial singular value of the encoder's square matrices.
    spectral_radius: Positive = 0.4
    init_std: Positive = 0.01
    # Not in the paper: share of embeddings and maxout units that dropout zeroes.
    dropout: Dropout = 0.0


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """Sizes of the Transformer, by default the base model of Vaswani et al. (2017), table 3."""

    # Number of layers of the encoder, and of the decoder.
    layers: Annotated[int, Meta(ge=1, le=64)] = 6
    # Units of a layer, which is also the size of a word's embedding.
    hidden_size: Annotated[int, Meta(ge=2, le=1 << 16)] = 512
    # Heads of an attention; each has hidden_size / heads units.
    heads: Size = 8
    feed_forward_size: Size = 2048
    # Whether a layer normalises its result, as in the paper, or what it reads, which learns more
    # steadily (Xiong et al., 2020).
    norm: Literal["post", "pre"] = "post"
    # Whether the softmax has the weights of the target embeddings.
    tied_embeddings: bool = True
    # Share of the embeddings and of each layer's results that dropout zeroes (section 5.4).
    dropout: Dropout = 0.1

    def __post_init__(self) -> None:
        if self.hidden_size % 2:
            raise ValueError(f"hidden_size must be even, got {self.hidden_size}")
        if self.hidden_size % self.heads:
            raise ValueError(
                f"hidden_size must be a multiple of heads, got {self.hidden_size} units and "
                f"{self.heads} heads"
            )


@dataclass(frozen=True, slots=True)
class CslmConfig:
    """Sizes of the feed-forward language model, by default as in Cho et al. (2014), 4.1.2.

    It is trained on one text, in the language of the predicted side.
    """

    # Words of an n-gram: the last one is predicted from the others.
    order: Annotated[int, Meta(ge=2, le=32)] = 7
    # Size of the embedding of each word of the context.
    embedding_size: Size = 512
    # Rectified units of the first layer, which reads all embeddings, and of the second layer.
    hidden_size: Size = 1536
    upper_size: Size = 1024
    # Weights are initialized uniformly between minus and plus this.
    init_range: Positive = 0.01
    # Not in the paper: share of embeddings and units that dropout zeroes.
    dropout: Dropout = 0.0
    # Not in the paper: the factor alpha of a penalty that keeps log Z near 0, so that scoring may
    # omit it (Devlin et al., 2014, who use 0.1); 0: no penalty.
    self_normalization: Annotated[float, Meta(ge=0.0, le=1e6)] = 0.0


@dataclass(frozen=True, slots=True)
class JointConfig:
    """Sizes of the joint model, by default as in Devlin et al. (2014), 2.1 and 2.2."""

    # Words of the target n-gram: the last one is predicted from the others.
    order: Annotated[int, Meta(ge=2, le=32)] = 4
    # Source words on each side of the affiliated one; 5 is the paper's m = 11.
    source_window: Annotated[int, Meta(ge=0, le=32)] = 5
    # Size of the embedding of each word of the context, source or target.
    embedding_size: Size = 192
    # tanh units of the first layer, which reads all embeddings, and of the second; 0: no second.
    hidden_size: Size = 512
    upper_size: Annotated[int, Meta(ge=0, le=1 << 16)] = 512
    # Weights are initialized uniformly between minus and plus this.
    init_range: Positive = 0.05
    # Not in the paper: share of embeddings and units that dropout zeroes.
    dropout: Dropout = 0.0
    # The factor alpha of a penalty that keeps log Z near 0; 0: no penalty.
    self_normalization: Annotated[float, Meta(ge=0.0, le=1e6)] = 0.1


@dataclass(frozen=True, slots=True)
class VocabularyConfig:
    """Sizes of the shortlists, in words, without ``</s>`` and ``<unk>``; or subwords."""

    # Size for the side that the network reads; with --reverse that is the table's target side.
    source_size: ShortlistSize = 15000
    # Size for the side that the network predicts, the only side of a language model.
    target_size: ShortlistSize = 15000
    # Number of subwords per side, instead of shortlists (:mod:`phrasescore.subwords`); 0: words.
    subwords: Annotated[int, Meta(ge=0, le=1 << 20)] = 0


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """Settings of a network's training."""

    # Pairs per update.
    batch_size: Annotated[int, Meta(ge=1, le=1 << 20)] = 64
    # Predicted words per update, on average, instead of pairs; sorted batches then differ in pairs
    # and not in words. 0: batch_size pairs.
    batch_words: Count = 0
    # Batches that are drawn together and sorted by length, which saves steps. 1: no sorting.
    window_batches: Annotated[int, Meta(ge=1, le=1 << 16)] = 1
    # Pairs with a side of more words, or pieces, are excluded from training, and counted.
    max_length: Annotated[int, Meta(ge=1, le=65535)] = 100
    # The loss of a batch: the sum or the mean of -log p over its pairs.
    loss: Literal["sum", "mean"] = "sum"
    # Whether the softmax of an update is over the shortlist, or over each word and a sample of the
    # shortlist (Jean et al., 2015), which takes a fraction of the time. Validation is over all.
    softmax: Literal["full", "sampled"] = "full"
    sampled_words: Size = 1000
    # Share of the target distribution that is uniform over the shortlist (Szegedy et al., 2016).
    label_smoothing: Annotated[float, Meta(ge=0.0, le=0.9)] = 0.0
    optimizer: OptimizerName = "adadelta"
    # Factor of every step; 1 in Adadelta's paper.
    learning_rate: Positive = 1.0
    # linear: falls to 0 at the first of the limits below. inverse-sqrt: falls as the root of the
    # number of updates after the warm-up (Vaswani et al., 2017, section 5.3). halving: constant,
    # then halved at epoch halving_start and after every further halving_epochs.
    schedule: Literal["constant", "linear", "inverse-sqrt", "halving"] = "constant"
    # Updates in which the rate first rises from 0, in every schedule.
    warmup_updates: Count = 0
    halving_start: Amount = 5.0
    halving_epochs: Positive = 0.5
    # Adadelta: decay of the running averages.
    rho: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.95
    # 1e-6 is usual for Adadelta, 1e-8 for Adam.
    epsilon: Positive = 1e-6
    # Adam: decays of the running averages.
    beta1: Annotated[float, Meta(ge=0.0, le=0.9999)] = 0.9
    beta2: Annotated[float, Meta(ge=0.0, le=0.999999)] = 0.999
    # Maximum Euclidean norm of the loss's gradient, which is scaled down if necessary; 0: none.
    clip_norm: Amount = 1.0
    # Precision of matrix products; weights are always float32. tf32 is for CUDA. bfloat16 rounds
    # the factors on a CPU and is autocast on CUDA.
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"
    # Number of held-out pairs, limited to a share of all pairs; 0: no validation.
    validation_pairs: Count = 5000
    validation_share: Annotated[float, Meta(ge=0.0, le=0.5)] = 0.02
    # Updates between validations; 0: one at the end of each epoch.
    validation_updates: Count = 1000
    # The mean of the weights at this number of latest validations is validated and kept.
    average_checkpoints: Annotated[int, Meta(ge=1, le=100)] = 1
    # Training stops after this number of validations without a better perplexity; 0: never.
    patience: Count = 0
    # Training ends at the first of these limits; 0: none.
    updates: Count = 0
    epochs: Amount = 0.0
    minutes: Amount = 0.0
    # A checkpoint is saved after the first of these; 0: only at the end.
    checkpoint_minutes: Amount = 10.0
    checkpoint_updates: Count = 0
    # For the initial weights, the held-out part and the order of the pairs.
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 1


# Default settings for learning from n-best lists: a pair is a list, and a validation without a
# better score halves the learning rate.
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
