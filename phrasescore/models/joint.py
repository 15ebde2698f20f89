"""The neural network joint model of Devlin et al. (2014).

A target word is predicted from the target words before it and from the source words around the one
that it is *affiliated* with (:mod:`moses_integration.alignments`). Their embeddings are
concatenated and go through one or two layers of tanh units to a softmax over the target shortlist.
As in Moses' BilingualNPLM, a context has the source window from left to right, then the target
words, oldest first. The ids of its words are

    0 .. T - 1          the target words; id 0, ``</s>``, stands for ``<s>``
    T .. T + S - 1      the source words; T + 0, ``</s>``, fills the window after the sentence
    T + S               ``<s>`` of the source; it fills the window before the sentence

where T and S are the sizes of the two vocabularies.
"""

import math

import torch
from torch import Tensor, nn

from phrasescore.devices import move
from phrasescore.models.batches import BatchSide, PairBatch
from phrasescore.models.feed_forward import FeedForwardNetwork, NgramBatch
from phrasescore.models.layers import draw_uniformly
from phrasescore.settings.networks import JointConfig
from phrasescore.vocabulary import Vocabulary


class JointNetwork(FeedForwardNetwork):
    """p(word | the words before it, the source words around its affiliation)."""

    config: JointConfig
    activate = staticmethod(torch.tanh_)

    def __init__(self, config: JointConfig, source_size: int, target_size: int) -> None:
        width = 2 * config.source_window + config.order
        super().__init__(config, width, target_size + source_size + 1, target_size)

    def initialize(self, generator: torch.Generator) -> None:
        """Draw the weights uniformly (``init_range``), section 2.2.

        The bias of the softmax starts at log(1 / words) instead, so that log Z is near 0 from the
        start (section 2.4).
        """
        draw_uniformly(self, self.config.init_range, generator)
        nn.init.constant_(self.output.bias, -math.log(len(self.output.bias)))

    def input_ranges(self) -> list[range]:
        """Return the valid ids of each position of a context."""
        targets, all_ids = len(self.output.bias), len(self.embedding)
        sources = 2 * self.config.source_window + 1
        previous = [range(targets)] * (self.config.order - 1)
        return [range(targets, all_ids)] * sources + previous

    def contexts(self, batch: PairBatch, ngrams: NgramBatch) -> Tensor:
        """Return the context of each target word, ``(ngrams, width)``."""
        affiliations = batch.target.affiliations
        if affiliations is None:
            raise ValueError("a joint model needs the affiliations of the target words")
        return torch.cat([self.source_windows(batch.source)[affiliations], ngrams.contexts], dim=1)

    def source_windows(self, side: BatchSide) -> Tensor:
        """Return the window around each word and each ``</s>`` of sentences.

        :return: ``(words + batch, 2 * source_window + 1)``, in the order of ``side.ids``.
        """
        width = self.config.source_window
        first, count = len(self.output.bias), len(side.ids)
        # Computed on the CPU: indices into `table`, which has two more entries for the outside.
        starts = torch.repeat_interleave(side.starts, side.lengths + 1).unsqueeze(1)
        ends = starts + torch.repeat_interleave(side.lengths, side.lengths + 1).unsqueeze(1)
        indices = torch.arange(count).unsqueeze(1) + torch.arange(-width, width + 1)
        indices = torch.where(
            indices < starts, count, torch.where(indices > ends, count + 1, indices)
        )
        ids = side.ids
        before, behind = ids.new_full((1,), len(self.embedding) - 1), ids.new_full((1,), first)
        table = torch.cat([ids + first, before, behind + Vocabulary.END])
        return table[move(ids.device, indices.flatten())[0]].reshape(indices.shape)

    @property
    def target_embedding(self) -> Tensor:
        """The embedding of each target word in a context."""
        return self.embedding[: len(self.output.bias)]

    @property
    def source_embedding(self) -> Tensor:
        """The embedding of each source word, without ``<s>``."""
        return self.embedding[len(self.output.bias) : -1]
