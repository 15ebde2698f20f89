"""Networks that predict a word from a context of a fixed number of words.

The embeddings of the context are concatenated and go through one or two layers of units to a
softmax over the shortlist (Schwenk, 2007; Devlin et al., 2014). A subclass defines the context.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from phrasescore.devices import move
from phrasescore.models.batches import BatchSide, PairBatch
from phrasescore.models.layers import PairNetwork, WordLogProb
from phrasescore.settings.networks import CslmConfig, JointConfig
from phrasescore.vocabulary import Vocabulary

# Fills a context before the first word of a sentence. It is the id of </s>, which otherwise never
# occurs in a context.
BOUNDARY = Vocabulary.END


class NgramBatch(NamedTuple):
    """All n-grams of the sentences of a batch; the last one of a sentence predicts ``</s>``."""

    contexts: Tensor  # (ngrams, order - 1) the words before, oldest first
    words: Tensor  # (ngrams,) the words to predict
    sentences: Tensor  # (ngrams,) index of the sentence in the batch


def all_ngrams(side: BatchSide, order: int) -> NgramBatch:
    """Return the n-grams of the sentences of one side."""
    ids = side.ids
    sentences = torch.repeat_interleave(side.lengths + 1)  # (ngrams,)
    times = torch.arange(len(sentences)) - side.starts[sentences]  # (ngrams,)
    sentences, times = move(ids.device, sentences, times)
    before = torch.cat([ids.new_full((order - 1,), BOUNDARY), ids[:-1]])
    contexts = before.unfold(0, order - 1, 1)  # (ngrams, order - 1)
    # Only the last t words of the context of word t belong to the sentence.
    from_the_end = torch.arange(order - 1, 0, -1, device=ids.device)
    outside = from_the_end > times.unsqueeze(1)  # (ngrams, order - 1)
    return NgramBatch(contexts.masked_fill(outside, BOUNDARY), ids, sentences)


class FeedForwardNetwork(PairNetwork):
    """p(word | a context of ``width`` words).

    :ivar activate: the units' activation function; it may change its argument in place.
    :ivar upper: the second layer, or None if the softmax reads the first one.

    :param input_size: number of ids that can occur in a context.
    :param upper_size: size of the second layer; 0 for none.
    """

    config: CslmConfig | JointConfig
    activate: Callable[[Tensor], Tensor]

    def __init__(
        self, config: CslmConfig | JointConfig, width: int, input_size: int, target_size: int
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.empty(input_size, config.embedding_size))
        self.lower = nn.Linear(width * config.embedding_size, config.hidden_size)
        self.upper = None
        if config.upper_size:
            self.upper = nn.Linear(config.hidden_size, config.upper_size)
        self.output = nn.Linear(config.upper_size or config.hidden_size, target_size)

    def input_ranges(self) -> list[range]:
        """Return the valid ids of each position of a context."""
        raise NotImplementedError

    def contexts(self, batch: PairBatch, ngrams: NgramBatch) -> Tensor:
        """Return the context of each word to predict, ``(ngrams, width)`` ids."""
        raise NotImplementedError

    def forward(self, batch: PairBatch) -> Tensor:
        """Return log p(target ``</s>``) of each pair, ``(batch,)``; see :class:`PairNetwork`.

        In training, the penalty of ``self_normalization`` is subtracted: the objective is
        log p - alpha (log Z)^2 (Devlin et al., 2014, equation 2).
        """
        ngrams = all_ngrams(batch.target, self.config.order)
        contexts, words, indices = self.contexts(batch, ngrams), ngrams.words, None
        if not self.training:
            contexts, words, indices = _distinct(contexts, words)
        rows = self.hidden(contexts)  # (ngrams, upper_size)
        weight, bias = self.output.weight, self.output.bias
        values: Tensor = WordLogProb.apply(rows, weight, bias, words)  # (ngrams,)
        alpha = self.config.self_normalization
        if self.training and alpha > 0:
            logits = (rows * embedding(words, weight)).sum(1)
            logits = logits + bias.index_select(0, words)
            values = values - alpha * (logits - values).square()
        if indices is not None:
            values = values.index_select(0, indices)
        return values.new_zeros(len(batch.target.lengths)).index_add(0, ngrams.sentences, values)

    def hidden(self, contexts: Tensor) -> Tensor:
        """Return the input of the softmax after each context, ``(rows, upper_size)``."""
        # (rows, width * embedding)
        rows = self.drop(embedding(contexts, self.embedding).flatten(1))
        rows = self.drop(self.activate(self.lower(rows)))  # (rows, hidden)
        return rows if self.upper is None else self.drop(self.activate(self.upper(rows)))


def _distinct(contexts: Tensor, words: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the distinct n-grams, and the index of each n-gram among them.

    The hypotheses of a list share most of their n-grams. If more than half are distinct, as in a
    text, all n-grams are returned, and None for the indices.
    """
    ngrams = torch.cat([contexts, words.unsqueeze(1)], dim=1)
    distinct, indices = torch.unique(ngrams, dim=0, return_inverse=True)
    if 2 * len(distinct) > len(ngrams):
        return contexts, words, None
    return distinct[:, :-1], distinct[:, -1], indices
