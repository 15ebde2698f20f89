"""Language models and joint models: networks that predict a word from a context of fixed size.

The embeddings of the context are concatenated and go through one or two layers of units to a
softmax over the shortlist.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from phrasescore.devices import move
from phrasescore.models.batches import BatchSide, PairBatch
from phrasescore.models.layers import PairNetwork, draw_uniformly
from phrasescore.settings.kinds import CslmConfig, JointConfig
from phrasescore.vocabulary import Vocabulary

# Pads a context before the first word of a sentence: the id of </s>, which otherwise never occurs
# in a context.
BOUNDARY = Vocabulary.END


class NgramBatch(NamedTuple):
    """The n-grams in a batch of sentences; the last n-gram of a sentence predicts ``</s>``."""

    contexts: Tensor  # (ngrams, order - 1) the words before, oldest first
    words: Tensor  # (ngrams,) the words to predict
    sentences: Tensor  # (ngrams,) index of the sentence in the batch


def all_ngrams(side: BatchSide, order: int) -> NgramBatch:
    """Return the n-grams in the sentences on one side."""
    ids = side.ids
    sentences, times = move(ids.device, *side.owners())  # (ngrams,)
    before = torch.cat([ids.new_full((order - 1,), BOUNDARY), ids[:-1]])
    contexts = before.unfold(0, order - 1, 1)  # (ngrams, order - 1)
    # Only the last t words of the context of word t belong to the sentence.
    from_the_end = torch.arange(order - 1, 0, -1, device=ids.device)
    outside = from_the_end > times.unsqueeze(1)  # (ngrams, order - 1)
    return NgramBatch(contexts.masked_fill(outside, BOUNDARY), ids, sentences)


class FeedForwardNetwork(PairNetwork):
    """p(word | a context of ``width`` words).

    :param input_size: number of ids that can occur in a context.
    """

    config: CslmConfig | JointConfig
    # The units' activation function, which may change its argument.
    activate: Callable[[Tensor], Tensor]
    # The second layer, or None if the softmax reads the first one.
    upper: nn.Linear | None

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

    def initialize(self, generator: torch.Generator) -> None:
        """Draw weights uniformly from [-``init_range``, ``init_range``].

        As in Cho et al. (2014), section 4.1.2, and Devlin et al. (2014), section 2.2.
        """
        draw_uniformly(self, self.config.init_range, generator)

    def input_ranges(self) -> list[range]:
        """Return the valid ids at each position in a context."""
        raise NotImplementedError

    def contexts(self, batch: PairBatch, ngrams: NgramBatch) -> Tensor:
        """Return the context of each word to predict, ``(ngrams, width)`` ids."""
        raise NotImplementedError

    def forward(self, batch: PairBatch) -> Tensor:
        # With self-normalization, the objective is log p - alpha (log Z)^2 (Devlin et al., 2014,
        # equation 2).
        ngrams = all_ngrams(batch.target, self.config.order)
        contexts, words, indices = self.contexts(batch, ngrams), ngrams.words, None
        if not self.training:
            contexts, words, indices = _distinct(contexts, words)
        rows = self.hidden(contexts)  # (ngrams, upper_size)
        log_probs = self.word_log_probs(rows, words)  # (ngrams,)
        values = self.smooth(log_probs, rows, words)
        alpha = self.config.self_normalization
        if self.training and alpha > 0:
            logits = (rows * embedding(words, self.output.weight)).sum(1)
            logits = logits + self.output.bias.index_select(0, words)
            values = values - alpha * (logits - log_probs).square()
        if indices is not None:
            values = values.index_select(0, indices)
        return values.new_zeros(len(batch.target.lengths)).index_add(0, ngrams.sentences, values)

    def hidden(self, contexts: Tensor) -> Tensor:
        """Return the input of the softmax after each context, ``(rows, upper_size)``."""
        # (rows, width * embedding)
        rows = self.drop(embedding(contexts, self.embedding).flatten(1))
        rows = self.drop(self.activate(self.lower(rows)))  # (rows, hidden)
        return rows if self.upper is None else self.drop(self.activate(self.upper(rows)))


class CslmNetwork(FeedForwardNetwork):
    """p(word | the order - 1 words before it), a language model that ignores the source.

    The model of Schwenk (2007) with the layers of Cho et al. (2014), 4.1.2.
    """

    config: CslmConfig
    activate = staticmethod(torch.relu_)

    def __init__(self, config: CslmConfig, _source_size: int, target_size: int) -> None:
        super().__init__(config, config.order - 1, target_size, target_size)

    def input_ranges(self) -> list[range]:
        return [range(len(self.embedding))] * (self.config.order - 1)

    def contexts(self, _batch: PairBatch, ngrams: NgramBatch) -> Tensor:
        return ngrams.contexts


class JointNetwork(FeedForwardNetwork):
    """p(word | the words before it, the source words around its affiliation).

    The joint model of Devlin et al. (2014); :mod:`moses_integration.alignments` says with which
    source word a target word is affiliated. As in Moses' BilingualNPLM, a context has the source
    window from left to right, then the target words, oldest first. With vocabularies of T target
    and S source words, the ids of a context are

        0 .. T - 1          the target words; id 0, ``</s>``, stands for ``<s>``
        T .. T + S - 1      the source words; T + 0, ``</s>``, pads the window after the sentence
        T + S               ``<s>`` of the source; it pads the window before the sentence
    """

    config: JointConfig
    activate = staticmethod(torch.tanh_)

    def __init__(self, config: JointConfig, source_size: int, target_size: int) -> None:
        width = 2 * config.source_window + config.order
        super().__init__(config, width, target_size + source_size + 1, target_size)

    def initialize(self, generator: torch.Generator) -> None:
        """Draw all weights uniformly except the bias of the softmax.

        It starts at log(1 / words), so that log Z is near 0 from the start (section 2.4).
        """
        super().initialize(generator)
        nn.init.constant_(self.output.bias, -math.log(len(self.output.bias)))

    def input_ranges(self) -> list[range]:
        targets, all_ids = len(self.output.bias), len(self.embedding)
        sources = 2 * self.config.source_window + 1
        previous = [range(targets)] * (self.config.order - 1)
        return [range(targets, all_ids)] * sources + previous

    def contexts(self, batch: PairBatch, ngrams: NgramBatch) -> Tensor:
        affiliations = batch.target.affiliations
        if affiliations is None:
            raise ValueError("a joint model needs the affiliations of the target words")
        return torch.cat([self.source_windows(batch.source)[affiliations], ngrams.contexts], dim=1)

    def source_windows(self, side: BatchSide) -> Tensor:
        """Return the windows around words and ends, ``(words + batch, 2 * source_window + 1)``."""
        width = self.config.source_window
        first, count = len(self.output.bias), len(side.ids)
        # Indices into `table`, computed on the CPU. Its last two entries pad the window outside the
        # sentence.
        owners, _ = side.owners()
        starts = side.starts[owners].unsqueeze(1)
        ends = starts + side.lengths[owners].unsqueeze(1)
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


def _distinct(contexts: Tensor, words: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the distinct n-grams, and the index of each n-gram among them."""
    # The hypotheses of a list share most of their n-grams. If more than half are distinct, as in a
    # text, return all n-grams, and None for the indices.
    ngrams = torch.cat([contexts, words.unsqueeze(1)], dim=1)
    distinct, indices = torch.unique(ngrams, dim=0, return_inverse=True)
    if 2 * len(distinct) > len(ngrams):
        return contexts, words, None
    return distinct[:, :-1], distinct[:, -1], indices
