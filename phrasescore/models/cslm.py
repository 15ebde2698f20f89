"""The feed-forward language model of Schwenk (2007) with the layers of Cho et al. (2014), 4.1.2.

A word is predicted from the order - 1 words before it: their embeddings are concatenated and go
through two layers of rectified units to a softmax over the shortlist. The network ignores the
source of a pair, and a text is stored as pairs with empty sources.
"""

import torch
from torch import Tensor

from phrasescore.models.batches import PairBatch
from phrasescore.models.feed_forward import FeedForwardNetwork, NgramBatch
from phrasescore.models.layers import draw_uniformly
from phrasescore.settings.networks import CslmConfig


class CslmNetwork(FeedForwardNetwork):
    """p(word | the words before it), of the target language."""

    config: CslmConfig
    activate = staticmethod(torch.relu_)

    def __init__(self, config: CslmConfig, _source_size: int, target_size: int) -> None:
        super().__init__(config, config.order - 1, target_size, target_size)

    def initialize(self, generator: torch.Generator) -> None:
        """Draw all weights uniformly between -0.01 and 0.01 (``init_range``), section 4.1.2."""
        draw_uniformly(self, self.config.init_range, generator)

    def input_ranges(self) -> list[range]:
        """Return the valid ids of each position of a context: all words."""
        return [range(len(self.embedding))] * (self.config.order - 1)

    def contexts(self, _batch: PairBatch, ngrams: NgramBatch) -> Tensor:
        """Return the words before each word, ``(ngrams, order - 1)``, oldest first."""
        return ngrams.contexts
