"""Score words, numbered by the caller, with a feed-forward language model.

A word that the network does not know is ``<unk>``, or an n-gram model scores it
(:mod:`phrasescore.language_models.ngram_scorer`).
"""

import threading
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.errors import ModelError
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.context_scorer import (
    ContextMemo,
    ContextScorer,
    Floats,
    Numbering,
    WordIds,
)
from phrasescore.language_models.ngram_scorer import BackoffModel
from phrasescore.models.batches import batch_sequences
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.models.feed_forward import CslmNetwork, JointNetwork
from phrasescore.scoring.prefix_tree import HypothesisTexts, PrefixTree
from phrasescore.scoring.tree_scorer import TreeLogProbs
from phrasescore.vocabulary import Vocabulary

# In a context, the number of ``<s>`` and of every position before it; as a predicted word, the
# number of ``</s>``.
BOUNDARY = -1


class WordScorer(ContextScorer):
    """log p(word | the words before it). Several threads may share one instance.

    Values are natural logarithms. Without ``backoff``, a word outside the shortlist gets the
    probability of ``<unk>``, which is the total for all such words; with ``backoff``, the n-gram
    model's probability.

    :param backoff: path of an n-gram model for the words outside the shortlist; None for <unk>.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        precision: Precision,
        *,
        normalized: bool = True,
        backoff: str | None = None,
    ) -> None:
        network, vocabulary = checkpoint.model, checkpoint.target_vocabulary
        assert isinstance(network, CslmNetwork)
        self._backoff = None
        if backoff is not None and vocabulary.is_subwords:
            raise ModelError(
                f"{backoff}: a network of subwords knows all words, and needs no n-gram model"
            )
        if backoff is not None:
            self._backoff = BackoffModel(backoff, vocabulary, network.config.order)
        shortlist = None if self._backoff is None else self._backoff.shortlist
        super().__init__(checkpoint, device, precision, normalized=normalized, shortlist=shortlist)
        # The masses are one table.
        self._lock = threading.Lock()

    def is_unknown(self, numbering: Numbering) -> NDArray[np.bool_]:
        """Return whether each word has the probability of ``<unk>``; BOUNDARY is the last entry."""
        if self._backoff is None:
            unknown: NDArray[np.bool_] = numbering.ids == Vocabulary.UNKNOWN
            return unknown
        knows = self._backoff.knows
        return np.array([*(not knows(word) for word in numbering.words), False], dtype=bool)

    def log_probs(
        self,
        numbering: Numbering,
        contexts: WordIds,
        words: WordIds,
        memo: ContextMemo | None = None,
    ) -> Floats:
        """Return log p of each word after its context, as :meth:`log_probs_of_ids` does.

        With a back-off model, words outside the shortlist get its probability, and those inside are
        scaled by the mass that it gives to the shortlist.

        :param contexts: numbers instead of ids; BOUNDARY before a sentence.
        :param words: numbers instead of ids; BOUNDARY is ``</s>``.
        """
        ids, backoff = numbering.ids[words], self._backoff
        if backoff is None:
            return self.log_probs_of_ids(numbering.ids[contexts], ids, memo)
        log_probs = np.empty(len(words))
        is_inside = self._rows[ids] >= 0
        known = numbering.ids[contexts[is_inside]]
        log_probs[is_inside] = self.log_probs_of_ids(known, ids[is_inside], memo)
        recent = contexts[:, -max(backoff.order - 1, 1) :]
        order = np.lexsort(recent.T)  # equal contexts are adjacent
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (np.diff(recent[order], axis=0) != 0).any(axis=1)
        for start, end in pairwise([*np.flatnonzero(is_first).tolist(), len(order)]):
            indices = order[start:end]
            row = recent[indices[0]]
            before = backoff.number(numbering.words[word] for word in row if word != BOUNDARY)
            inside, outside = indices[is_inside[indices]], indices[~is_inside[indices]]
            with self._lock:
                state = backoff.state(before, begins=bool((row == BOUNDARY).any()))
                if len(inside):
                    log_probs[inside] += backoff.log_mass(state)
                if len(outside):
                    unpredicted = backoff.number(numbering.words[word] for word in words[outside])
                    log_probs[outside] = backoff.log_probs(state, unpredicted)
        return log_probs


def score_tree(scorer: WordScorer, tree: PrefixTree, words: Sequence[str]) -> TreeLogProbs:
    """Return the log-probability of every word in a tree under a language model.

    The sources (roots) are ignored: every sequence starts from an empty context.

    :param tree: the prefix tree of the sentences; its words are indices into ``words``.
    """
    places, predicted = tree.predictions(end=BOUNDARY)
    contexts = tree.prefixes(BOUNDARY).last_words(scorer.order - 1)[places]
    values = scorer.log_probs(scorer.number(words), contexts, predicted.astype(np.int32))
    return TreeLogProbs(tree, values)


class JointScorer(ContextScorer):
    """log p(word | the words before it, the source words around its affiliation).

    Values are natural logarithms. A word outside the shortlist gets the probability of ``<unk>``,
    which is the total for all such words.
    """

    def windows(self, sources: Sequence[Sequence[str]]) -> WordIds:
        """Return the source window around each word, and around the end, of each source.

        :return: ``(words + sources, 2 * source_window + 1)``, one source after another.
        """
        vocabulary = self._checkpoint.source_vocabulary
        batch = batch_sequences([vocabulary.ids(words) for words in sources])
        network = self._checkpoint.model
        assert isinstance(network, JointNetwork)
        windows: WordIds = network.source_windows(batch).numpy().astype(np.int32)
        return windows


def score_aligned(scorer: JointScorer, texts: HypothesisTexts) -> TreeLogProbs:
    """Return the log-probability of every word in the hypotheses, whose tree has network ids."""
    aligned, factor = texts.plan_aligned()
    ids = scorer.number(texts.words).ids.astype(np.int64)
    levels = [level._replace(words=ids[level.words // factor]) for level in aligned.levels]
    tree = aligned._replace(levels=levels)
    lengths = np.array([len(words) for words in texts.sources], np.int64)
    # The first row of `windows` for each source.
    starts = np.cumsum(lengths + 1) - (lengths + 1)
    # </s> is affiliated with the end of the source. Its word is -1, at which `ids` has its id.
    places, numbers = aligned.predictions(end=-1)
    words, affiliations = np.divmod(numbers, factor)
    prefixes = tree.prefixes(Vocabulary.END)
    roots = prefixes.roots[places]
    rows = starts[roots] + np.where(numbers < 0, lengths[roots], affiliations)
    windows = scorer.windows(texts.sources)[rows]
    contexts = np.concatenate([windows, prefixes.last_words(scorer.order - 1)[places]], axis=1)
    values = scorer.log_probs_of_ids(contexts, ids[words].astype(np.int32))
    return TreeLogProbs(tree, values)
