"""What a network's decoder has to do to be run over a tree of target prefixes."""

import importlib
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from phrasescore.errors import ModelError
from phrasescore.scoring.fixed_products import FixedProducts
from phrasescore.scoring.prefix_tree import Sequences


class TreeStep(NamedTuple):
    """The nodes of a level, on the device."""

    parents: Tensor  # (nodes,) int64: rows of the level above
    words: Tensor  # (nodes,) int64: the last word of each prefix
    roots: Tensor  # (nodes,) int64: number of the source that each prefix belongs to


class TreeDecoder(Protocol):
    """A network that predicts a target word by word, with its weights laid out for scoring.

    The methods compute row by row: what they return for a node depends on nothing but its source
    and its prefix, to the last bit. Matrix products therefore go through :class:`FixedProducts`.
    """

    # Weight (words, width) and bias (words,) of the softmax over the shortlist.
    output: tuple[Tensor, Tensor]

    def encode(self, sources: Sequences) -> Any:
        """Return what the decoder needs of some sources, given as word ids without ``</s>``."""

    def start(self, encoded: Any) -> tuple[Any, Tensor]:
        """Return the state at each source's root, and the rows that predict the first word.

        :return: the state as :meth:`advance` wants it, and ``(sources, width)``.
        """

    def advance(self, encoded: Any, state: Any, step: TreeStep) -> tuple[Any, Tensor]:
        """Return the states of a level's nodes, and the rows that predict the word after each.

        :param state: of the level above, which is not needed any more.
        :return: the states, and ``(nodes, width)``, valid until the next call by this thread.
        """


# By the kind that config.toml names: dotted, so that only the one needed is imported.
DECODERS = {
    "attention": "phrasescore.scoring.decoders.attention:AttentionDecoder",
    "encoder-decoder": "phrasescore.scoring.decoders.gated:GatedDecoder",
    "grconv": "phrasescore.scoring.decoders.gated:GatedDecoder",
    "lstm": "phrasescore.scoring.decoders.lstm:LstmDecoder",
}


def build_decoder(kind: str, network: nn.Module, products: FixedProducts) -> TreeDecoder:
    """Return the decoder of a network of this kind, on the device of ``products``.

    :raises ModelError: if a weight is not finite: the fast element-wise code does not carry NaN.
    """
    for name, parameter in network.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise ModelError(f"weights {name!r} are not all finite")
    module, _, attribute = DECODERS[kind].partition(":")
    decoder: TreeDecoder = getattr(importlib.import_module(module), attribute)(network, products)
    return decoder
