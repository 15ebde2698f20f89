"""The kinds of networks: the parts of each, and what it can do.

All code that depends on the kind of a network asks here. Installed packages may add kinds; the
entry point names a `NetworkKind`::

    [project.entry-points."phrasescore.networks"]
    bag = "bag_of_words:KIND"
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasescore.errors import PluginError
from phrasescore.plugins import find_plugin, find_plugins
from phrasescore.settings.networks import (
    AttentionConfig,
    CslmConfig,
    EncoderDecoderConfig,
    GrconvConfig,
    JointConfig,
    LstmConfig,
    TransformerConfig,
)

PRESETS = Path(__file__).parent / "presets"


@dataclass(frozen=True, kw_only=True)
class NetworkKind:
    """A kind of network. Classes are named as ``module:class`` and imported when they are used."""

    # As ``train`` and ``config.toml`` name it.
    name: str
    # The frozen dataclass of its sizes, the table [model] of a file. It has a field ``dropout``.
    config: type[Any]
    # A `phrasescore.models.layers.PairNetwork`, made from its sizes and the vocabularies' sizes.
    network: str
    # A `phrasescore.scoring.tree_scorer.TreeDecoder`, made from the network and products; the
    # feed-forward kinds have none.
    decoder: str | None = None
    # The start of the name of its feature in n-best lists; a number from 0 follows, as in Moses.
    feature: str
    # The preset that is used if the user names none; by default NAME-small.
    preset: str = ""
    # The folder of its presets, NAME.toml.
    presets: Path = PRESETS
    # Its other names in papers, in lower case.
    other_names: tuple[str, ...] = ()
    # Whether it reads a source. A language model is trained on one text.
    reads_source: bool = True
    # Whether it reads the source through a word alignment.
    is_aligned: bool = False
    # Whether it predicts a word from a fixed number of others. These kinds learn from repeated
    # sentences as often as they occur, predict from left to right, can be trained to need no log Z,
    # and can be used in the search.
    is_feed_forward: bool = False
    # Whether it scores single phrase pairs and may be trained on a phrase table.
    scores_phrases: bool = False
    # Whether its network has a method for reports: ``source_vectors``, which returns a vector per
    # source; ``alignments`` of words; and ``soft_parse`` of a source.
    has_source_vectors: bool = False
    aligns_words: bool = False
    parses_source: bool = False

    @property
    def default_preset(self) -> str:
        """The preset that is used if the user names none."""
        return self.preset or f"{self.name}-small"


KINDS = {
    kind.name: kind
    for kind in (
        NetworkKind(
            name="attention",
            config=AttentionConfig,
            network="phrasescore.models.attention:AttentionNetwork",
            decoder="phrasescore.scoring.decoders.attention:AttentionDecoder",
            feature="Attention",
            other_names=("rnnsearch",),
            aligns_words=True,
        ),
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
            feature="RNN",
            preset="small",
            other_names=("rnnenc", "rnn"),
            scores_phrases=True,
            has_source_vectors=True,
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
            name="transformer",
            config=TransformerConfig,
            network="phrasescore.models.transformer:TransformerNetwork",
            decoder="phrasescore.scoring.decoders.transformer:TransformerDecoder",
            feature="Transformer",
            aligns_words=True,
        ),
    )
}

# Kinds of other packages that were used.
_loaded: dict[str, NetworkKind] = {}


def find_kind(name: str) -> NetworkKind | None:
    """Return the kind of network with this name, or None.

    :raises PluginError: if another package's kind cannot be used.
    """
    kind = KINDS.get(name) or _loaded.get(name)
    if kind is None and (plugin := find_plugin("network", name, KINDS)) is not None:
        kind = plugin.load()
        if not isinstance(kind, NetworkKind) or kind.name != name:
            raise PluginError(plugin.title, f"expected a NetworkKind named {name}, found {kind!r}")
        _loaded[name] = kind
    return kind


def get_kind(name: str) -> NetworkKind:
    """Return the kind of network with this name, which is known to exist."""
    kind = find_kind(name)
    if kind is None:
        raise LookupError(f"unknown kind of network: {name!r}")
    return kind


def kind_names(**properties: bool) -> list[str]:
    """Return the names of the kinds of this package that have these properties.

    >>> kind_names(reads_source=False)
    ['cslm']
    """
    return [
        name
        for name, kind in KINDS.items()
        if all(getattr(kind, key) == value for key, value in properties.items())
    ]


def known_kinds() -> list[str]:
    """Return the names of all kinds, including other packages' kinds, for messages."""
    return [*KINDS, *(plugin.name for plugin in find_plugins("network", KINDS))]


def meant_kind(name: str) -> str:
    """Return the kind that a paper calls by this name, or the name itself."""
    found: Iterable[str] = (
        kind.name for kind in KINDS.values() if name.lower() in kind.other_names
    )
    return next(iter(found), name)
