"""The kinds of networks, with the sizes, components and abilities of each.

All code that depends on the kind of a network looks it up here.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from phrasescore.arguments import Positive
from phrasescore.errors import ArgumentError
from phrasescore.settings import old_names
from phrasescore.settings.toml_file import unknown

# Size of a layer. The limit exceeds any memory, and catches typing errors early.
Size = Annotated[int, Meta(ge=1, le=1 << 16)]
# Number of words in a shortlist; ids are stored in 32 bits.
ShortlistSize = Annotated[int, Meta(ge=1, le=1 << 30)]
# From and below these numbers of sentence pairs some kinds have another preset. With fewer ones,
# networks learn nothing; the small presets are made for more.
FEWEST_PAIRS, FEW_PAIRS = 1_000, 15_000
Dropout = Annotated[float, Meta(ge=0.0, le=0.9)]


@dataclass(frozen=True, slots=True)
class EncoderDecoderConfig:
    """Sizes of the RNN Encoder-Decoder, by default as in Cho et al. (2014), 4.1.1."""

    hidden_size: Size = 1000  # units in the gated layers of both encoder and decoder
    # Rank of the matrices between words and layers, which is the size of a word's embedding.
    embedding_size: Size = 100
    maxout_size: Size = 500  # number of maxout units, each the maximum of two
    output_rank: Size = 100  # rank of the output matrix G = G_l G_r
    # Standard deviation of the Gaussian initialization of the weights except recurrent ones.
    init_std: Positive = 0.01
    dropout: Dropout = 0.0  # not in the paper: share of embeddings and maxout units that are zeroed


@dataclass(frozen=True, slots=True)
class LstmConfig:
    """Sizes of the deep LSTM, by default as in Sutskever et al. (2014), 3.4."""

    # Number of layers in the encoder, and in the decoder.
    layers: Annotated[int, Meta(ge=1, le=64)] = 4
    hidden_size: Size = 1000  # number of cells in each layer
    embedding_size: Size = 1000
    reverse_source: bool = True  # whether the encoder reads the source backwards (section 3.3)
    init_range: Positive = 0.08  # weights are initialized uniformly between minus and plus this
    # Not in the paper: share of the non-recurrent connections between layers that dropout zeroes
    # (Zaremba et al., 2014).
    dropout: Dropout = 0.0


@dataclass(frozen=True, slots=True)
class RnnsearchConfig:
    """Sizes of RNNsearch, by default as in Bahdanau et al. (2014), A.3."""

    hidden_size: Size = 1000  # units of the decoder, and of each direction of the encoder
    embedding_size: Size = 620
    maxout_size: Size = 500  # number of maxout units, each the maximum of two
    alignment_size: Size = 1000  # units of the alignment model
    # Standard deviations of the Gaussian initializations of W_a and U_a, and of the other weights.
    # Recurrent matrices start orthogonal, v_a and biases at 0.
    alignment_init_std: Positive = 0.001
    init_std: Positive = 0.01
    # Not in the paper: share of embeddings, annotations and maxout units that dropout zeroes.
    dropout: Dropout = 0.0


@dataclass(frozen=True, slots=True)
class GrconvConfig:
    """Sizes of the gated recursive convolution, by default as in Cho et al. (2014b), 3."""

    encoder_size: Size = 2000  # units of the encoder
    hidden_size: Size = 1000  # units of the decoder
    embedding_size: Size = 620
    maxout_size: Size = 500  # number of maxout units, each the maximum of two
    output_rank: Size = 500  # of the output matrix G = G_l G_r; maxout_size: no restriction
    # Largest initial singular value of the encoder's square matrices.
    spectral_radius: Positive = 0.4
    init_std: Positive = 0.01
    dropout: Dropout = 0.0  # not in the paper: share of embeddings and maxout units that are zeroed


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """Sizes of the Transformer, by default the base model of Vaswani et al. (2017), table 3."""

    # Number of layers of the encoder, and of the decoder.
    layers: Annotated[int, Meta(ge=1, le=64)] = 6
    # Units of a layer, which is also the size of a word's embedding.
    hidden_size: Annotated[int, Meta(ge=2, le=1 << 16)] = 512
    heads: Size = 8  # heads of an attention; each has hidden_size / heads units
    feed_forward_size: Size = 2048
    # post normalises each sublayer's output, as in the paper. pre normalises its input, which
    # trains more stably (Xiong et al., 2020).
    norm: Literal["post", "pre"] = "post"
    tied_embeddings: bool = True  # whether the softmax has the weights of the target embeddings
    dropout: Dropout = 0.1  # share of embeddings and layers' results to zero (section 5.4)

    def __post_init__(self) -> None:
        if self.hidden_size % 2:
            raise ValueError(f"hidden_size must be even, got {self.hidden_size}")
        if self.hidden_size % self.heads:
            problem = "hidden_size must be a multiple of heads,"
            raise ValueError(f"{problem} got {self.hidden_size} units and {self.heads} heads")


@dataclass(frozen=True, slots=True)
class CslmConfig:
    """Sizes of the feed-forward language model, by default as in Cho et al. (2014), 4.1.2."""

    # Words in an n-gram: the last one is predicted from the others.
    order: Annotated[int, Meta(ge=2, le=32)] = 7
    embedding_size: Size = 512  # size of the embedding of each context word
    # Rectified units of the first layer, which reads all embeddings, and of the second layer.
    hidden_size: Size = 1536
    upper_size: Size = 1024
    init_range: Positive = 0.01  # weights are initialized uniformly between minus and plus this
    dropout: Dropout = 0.0  # not in the paper: share of embeddings and units that dropout zeroes
    # Not in the paper: the factor alpha of a penalty that keeps log Z near 0, so that scoring may
    # omit it (Devlin et al., 2014, who use 0.1); 0: no penalty.
    self_normalization: Annotated[float, Meta(ge=0.0, le=1e6)] = 0.0


@dataclass(frozen=True, slots=True)
class JointConfig:
    """Sizes of the joint model, by default as in Devlin et al. (2014), 2.1 and 2.2."""

    # Words in the target n-gram: the last one is predicted from the others.
    order: Annotated[int, Meta(ge=2, le=32)] = 4
    # Source words on each side of the affiliated one; 5 is the paper's m = 11.
    source_window: Annotated[int, Meta(ge=0, le=32)] = 5
    embedding_size: Size = 192  # size of the embedding of each context word, source or target
    # tanh units of the first layer, which reads all embeddings, and of the second; 0: no second.
    hidden_size: Size = 512
    upper_size: Annotated[int, Meta(ge=0, le=1 << 16)] = 512
    init_range: Positive = 0.05  # weights are initialized uniformly between minus and plus this
    dropout: Dropout = 0.0  # not in the paper: share of embeddings and units that dropout zeroes
    # The factor alpha of a penalty that keeps log Z near 0; 0: no penalty.
    self_normalization: Annotated[float, Meta(ge=0.0, le=1e6)] = 0.1


@dataclass(frozen=True, kw_only=True)
class NetworkKind:
    """A kind of network. Classes are named as ``module:class`` and imported when they are used."""

    name: str  # the name in ``train`` and ``config.toml``
    # The frozen dataclass for its sizes, the table [model] in a file. It has a field ``dropout``.
    config: type[Any]
    # A `phrasescore.models.layers.PairNetwork`; its arguments are ``config`` and the sizes of the
    # vocabularies.
    network: str
    # A `phrasescore.scoring.tree_scorer.TreeDecoder`; its arguments are the network and products.
    # Feed-forward kinds have none.
    decoder: str | None = None
    feature: str  # in n-best lists, a number from 0 follows it, as in Moses
    other_names: tuple[str, ...] = ()  # other names of this kind in papers, in lower case
    reads_source: bool = True  # whether it reads a source. A language model is trained on texts.
    is_aligned: bool = False  # whether it reads the source through a word alignment
    # Whether it predicts a word from a fixed number of other words. These kinds learn from a
    # repeated sentence as often as it occurs, predict from left to right, can be trained to need no
    # log Z, and can be used in the search.
    is_feed_forward: bool = False
    scores_phrases: bool = False  # single phrase pairs; may be trained on a table
    # Whether its network has these methods for reports: ``source_vectors``, which returns a vector
    # per source; ``alignments`` of words; ``soft_parse`` of a source.
    has_source_vectors: bool = False
    aligns_words: bool = False
    parses_source: bool = False
    # Whether its small preset trains faster in bfloat16 than in float32 on a CPU with AMX.
    gains_by_bfloat16: bool = False

    has_few_preset: bool = False  # whether it has a preset for some thousand sentence pairs

    @property
    def default_preset(self) -> str:
        """The name of the preset that is used by default."""
        return f"{self.name}-small"

    def preset_for(self, pairs: int) -> str:
        """Return the name of the usual preset for a number of sentence pairs."""
        is_few = self.has_few_preset and FEWEST_PAIRS <= pairs < FEW_PAIRS
        return f"{self.name}-few" if is_few else self.default_preset


KINDS = {
    kind.name: kind
    for kind in (
        NetworkKind(
            name="cslm",
            config=CslmConfig,
            network="phrasescore.models.feed_forward:CslmNetwork",
            feature="CSLM",
            reads_source=False,
            is_feed_forward=True,
        ),
        NetworkKind(
            name="encoder-decoder",
            config=EncoderDecoderConfig,
            network="phrasescore.models.encoder_decoder:EncoderDecoder",
            decoder="phrasescore.scoring.decoders.gated:GatedDecoder",
            feature="EncoderDecoder",
            other_names=("rnnenc", "rnn"),
            scores_phrases=True,
            has_source_vectors=True,
            has_few_preset=True,
        ),
        NetworkKind(
            name="grconv",
            config=GrconvConfig,
            network="phrasescore.models.grconv:GrconvNetwork",
            decoder="phrasescore.scoring.decoders.gated:GatedDecoder",
            feature="GrConv",
            has_source_vectors=True,
            parses_source=True,
        ),
        NetworkKind(
            name="joint",
            config=JointConfig,
            network="phrasescore.models.feed_forward:JointNetwork",
            feature="Joint",
            is_aligned=True,
            is_feed_forward=True,
        ),
        NetworkKind(
            name="lstm",
            config=LstmConfig,
            network="phrasescore.models.lstm:LstmNetwork",
            decoder="phrasescore.scoring.decoders.lstm:LstmDecoder",
            feature="LSTM",
            other_names=("seq2seq",),
            has_source_vectors=True,
        ),
        NetworkKind(
            name="rnnsearch",
            config=RnnsearchConfig,
            network="phrasescore.models.rnnsearch:RnnsearchNetwork",
            decoder="phrasescore.scoring.decoders.rnnsearch:RnnsearchDecoder",
            feature="RNNsearch",
            aligns_words=True,
            gains_by_bfloat16=True,
            has_few_preset=True,
        ),
        NetworkKind(
            name="transformer",
            config=TransformerConfig,
            network="phrasescore.models.transformer:TransformerNetwork",
            decoder="phrasescore.scoring.decoders.transformer:TransformerDecoder",
            feature="Transformer",
            aligns_words=True,
        ),
    )
}


def kind_names(**properties: bool) -> list[str]:
    """Return the names of the kinds that have the given properties.

    >>> kind_names(reads_source=False)
    ['cslm']
    """
    return [
        name
        for name, kind in KINDS.items()
        if all(getattr(kind, key) == value for key, value in properties.items())
    ]


def find_kind(name: str) -> NetworkKind:
    """Return a kind of network; for another name of a kind, the error has the right one."""
    if name not in KINDS:
        meant = (kind.name for kind in KINDS.values() if name.lower() in kind.other_names)
        problem = unknown("kind of network", next(meant, name), KINDS, old_names.KINDS)
        raise ArgumentError(f"KIND: {problem}")
    return KINDS[name]
