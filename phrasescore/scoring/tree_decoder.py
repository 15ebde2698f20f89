"""The contract of a network's decoder that runs over a tree of target prefixes."""

import importlib
from typing import Any, Protocol

from torch import Tensor, nn

from phrasescore.errors import ModelError
from phrasescore.scoring.prefix_tree import Sequences, TreeStep
from phrasescore.scoring.products import Products


class TreeDecoder(Protocol):
    """A network that predicts a target word by word, with its weights laid out for scoring.

    Whatever it computes, it computes row by row: with :class:`.products.FixedProducts` what it
    returns for a node depends on nothing but its source and its prefix, to the last bit. Results
    are in buffers, valid until the next call of the same method by this thread.
    """

    # Weight (words, width) and bias (words,) of the softmax over the shortlist.
    output: tuple[Tensor, Tensor]

    def encode(self, sources: Sequences) -> Any:
        """Return what the decoder needs of some sources, given as word ids without ``</s>``."""

    def start(self, encoded: Any, sources: Tensor) -> tuple[Any, Tensor]:
        """Return the state of the empty prefix of some sources, and the rows behind it.

        :param encoded: from :meth:`encode`.
        :param sources: the number there of each root's source, ``(roots,)``.
        :return: the state as :meth:`advance` takes it, and the rows that the softmax reads to
            predict the first word, ``(roots, width)``.
        """

    def advance(self, state: Any, step: TreeStep) -> tuple[Any, Tensor]:
        """Return the state of a level's nodes, and the rows that predict the word after each.

        :param state: of the level above, which is not needed any more.
        :return: the state, and ``(nodes, width)``.
        """


# By the kind that config.toml names: dotted, so that only the one needed is imported.
DECODERS = {
    "attention": "phrasescore.scoring.decoders.attention:AttentionDecoder",
    "encoder-decoder": "phrasescore.scoring.decoders.gated:GatedDecoder",
    "grconv": "phrasescore.scoring.decoders.gated:GatedDecoder",
    "lstm": "phrasescore.scoring.decoders.lstm:LstmDecoder",
}


def build_decoder(kind: str, network: nn.Module, products: Products) -> TreeDecoder:
    """Return the decoder of a network of this kind, on the device of ``products``.

    :param products: fixed ones; an encoder-decoder takes those of levels, too.
    :raises ModelError: if a weight is not finite: the fast element-wise code does not carry NaN.
    """
    for name, parameter in network.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise ModelError(f"weights {name!r} are not all finite")
    module, _, attribute = DECODERS[kind].partition(":")
    decoder: TreeDecoder = getattr(importlib.import_module(module), attribute)(network, products)
    return decoder
