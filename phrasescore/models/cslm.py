"""The feed-forward language model of Schwenk (2007) with the layers of Cho et al. (2014), 4.1.2.

A word is predicted from the words before it, as many as an n-gram has: their embeddings, one after
the other, go through two layers of rectified units to a softmax over the shortlist. The source of a
pair is not looked at: a text is stored as pairs whose sources are empty.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, relu

from phrasescore.config.settings import CslmConfig
from phrasescore.models.batches import BatchSide, PairBatch, move
from phrasescore.models.layers import PairNetwork, WordLogProb, draw_uniformly
from phrasescore.vocabulary import Vocabulary

# Stands in a context at each place before the first word of a sentence: the id of </s>, which no
# context holds otherwise.
BOUNDARY = Vocabulary.END


class NgramBatch(NamedTuple):
    """Every n-gram of the sentences of a batch, ``</s>`` predicted at the end of each."""

    contexts: Tensor  # (ngrams, order - 1) the words before, the oldest first
    words: Tensor  # (ngrams,) the words to predict
    sentences: Tensor  # (ngrams,) which sentence of the batch


def all_ngrams(side: BatchSide, order: int) -> NgramBatch:
    """Return the n-grams of the sentences of one side."""
    ids = side.ids
    sentences = torch.repeat_interleave(side.lengths + 1)  # (ngrams,)
    times = torch.arange(len(sentences)) - side.starts[sentences]  # (ngrams,)
    sentences, times = move(ids.device, sentences, times)
    before = torch.cat([ids.new_full((order - 1,), BOUNDARY), ids[:-1]])
    contexts = before.unfold(0, order - 1, 1)  # (ngrams, order - 1)
    # Of the n-gram at place t of a sentence, the last t words of the context are the sentence's.
    from_the_end = torch.arange(order - 1, 0, -1, device=ids.device)
    outside = from_the_end > times.unsqueeze(1)  # (ngrams, order - 1)
    return NgramBatch(contexts.masked_fill(outside, BOUNDARY), ids, sentences)


class CslmNetwork(PairNetwork):
    """p(word | the words before it), of one language: that of the target."""

    config: CslmConfig

    def __init__(self, config: CslmConfig, _source_size: int, target_size: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.empty(target_size, config.embedding_size))
        self.lower = nn.Linear((config.order - 1) * config.embedding_size, config.hidden_size)
        self.upper = nn.Linear(config.hidden_size, config.upper_size)
        self.output = nn.Linear(config.upper_size, target_size)

    def initialize(self, generator: torch.Generator) -> None:
        """Draw all weights uniformly between -0.01 and 0.01 (``init_range``), section 4.1.2."""
        draw_uniformly(self, self.config.init_range, generator)

    def forward(self, batch: PairBatch) -> Tensor:
        """Return log p(target ``</s>``) of each pair, ``(batch,)``, whatever its source.

        See :class:`PairNetwork`. In training the penalty of ``self_normalization`` is taken from
        it: training maximises log p - alpha (log Z)^2 (Devlin et al., 2014, equation 2).
        """
        found = all_ngrams(batch.target, self.config.order)
        rows = self.hidden(found.contexts)  # (ngrams, upper_size)
        weight, bias = self.output.weight, self.output.bias
        values: Tensor = WordLogProb.apply(rows, weight, bias, found.words)  # (ngrams,)
        alpha = self.config.self_normalization
        if self.training and alpha > 0:
            logits = (rows * embedding(found.words, weight)).sum(1)
            logits = logits + bias.index_select(0, found.words)
            values = values - alpha * (logits - values).square()
        return values.new_zeros(len(batch.target.lengths)).index_add(0, found.sentences, values)

    def hidden(self, contexts: Tensor) -> Tensor:
        """Return the rows that the softmax reads after contexts, ``(rows, upper_size)``.

        :param contexts: ``(rows, order - 1)`` ids, the oldest first.
        """
        # (rows, (order - 1) * embedding)
        rows = self.drop(embedding(contexts, self.embedding).flatten(1))
        rows = self.drop(relu(self.lower(rows)))  # (rows, hidden)
        return self.drop(relu(self.upper(rows)))
