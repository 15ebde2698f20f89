"""A feed-forward language model for words that the caller numbers: a text's, a decoder's, a list's.

A word that the network does not know is ``<unk>``, or scored by an n-gram model
(:mod:`phrasescore.language_models.kenlm_model`).
"""

import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.context_memo import ContextMemo
from phrasescore.language_models.context_scorer import (
    ContextScorer,
    Floats,
    Numbering,
    WordIds,
    distinct_rows,
)
from phrasescore.language_models.kenlm_model import BackoffModel
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.models.cslm import CslmNetwork
from phrasescore.scoring.prefix_tree import PrefixTree
from phrasescore.scoring.tree_scorer import TreeLogProbs
from phrasescore.vocabulary import Vocabulary

# The number of ``<s>`` and of every place before it in a context, and of ``</s>`` where a word is
# predicted.
BOUNDARY = -1


class CslmOptions(NamedTuple):
    """The options of scores; see :class:`WordScorer`."""

    # Whether log Z is computed.
    normalized: bool = True
    # An n-gram model for the words outside the shortlist; None for <unk>.
    backoff: str | None = None


# Scores that are probabilities, with <unk>.
USUAL = CslmOptions()


class WordScorer(ContextScorer):
    """log p(word | the words before it). Several threads may use one instance at once.

    Natural logarithms. Without ``backoff`` a word outside the shortlist has the probability of
    ``<unk>``, which is that of all such words together; with it, its own.

    :ivar order: of the network, whose contexts have a word less.
    :ivar contexts_scored: softmaxes so far.

    :param checkpoint: of the kind cslm.
    :param precision: of the matrix products.
    :param normalized: False leaves log Z out: values are then near log p only where training kept
        log Z near 0, and may be above 0.
    :param backoff: an n-gram model for the words outside the shortlist, as a file.
    :raises ModelError: if the network is of another kind, or has a weight that is not finite.
    :raises PhrasescoreError: if an n-gram model is wanted and log Z is not.
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
        if backoff is not None and not normalized:
            raise PhrasescoreError(
                f"{backoff}: a model that leaves log Z out cannot share its probability with "
                "another"
            )
        network, vocabulary = checkpoint.model, checkpoint.target_vocabulary
        if not isinstance(network, CslmNetwork):
            kind = checkpoint.config.kind
            raise ModelError(f"expected a language model (cslm), found a model of the kind {kind}")
        self._backoff = None
        if backoff is not None and vocabulary.is_subwords:
            problem = "a network of subwords knows all words, and backs off to no n-gram model"
            raise ModelError(f"{backoff}: {problem}")
        if backoff is not None:
            self._backoff = BackoffModel(backoff, vocabulary, network.config.order)
        super().__init__(
            *(network, checkpoint, device, precision),
            normalized=normalized,
            shortlist=None if self._backoff is None else self._backoff.shortlist,
        )
        # KenLM gives way to other threads nowhere, and the masses are one table.
        self._lock = threading.Lock()

    def is_unknown(self, numbering: Numbering) -> NDArray[np.bool_]:
        """Return whether each word, and at the end BOUNDARY, has the probability of ``<unk>``."""
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
        """Return log p of each word after its context, ``(n,)``.

        :param contexts: ``(n, order - 1)`` numbers, the oldest word first; BOUNDARY at the places
            before a sentence. Equal rows cost one softmax.
        :param words: ``(n,)`` numbers; BOUNDARY is ``</s>``.
        :param memo: its contexts cost no softmax, and it learns the others; for one thread.
        :raises ModelError: if a value is not a finite log-probability.
        """
        ids = numbering.ids[words]
        if self._backoff is None:
            return self.log_probs_of_ids(numbering.ids[contexts], ids, memo)
        found = np.empty(len(words))
        is_inside = self._rows[ids] >= 0
        inside = np.flatnonzero(is_inside)
        known = numbering.ids[contexts[inside]]
        found[inside] = self.log_probs_of_ids(known, ids[inside], memo)
        with self._lock:
            self._back_off(self._backoff, numbering, contexts, words, is_inside, found)
        return found

    def _back_off(
        self,
        backoff: BackoffModel,
        numbering: Numbering,
        contexts: WordIds,
        words: WordIds,
        inside: NDArray[np.bool_],
        found: Floats,
    ) -> None:
        """Add the shortlist's mass to its words, and fill the places of the others."""
        width = backoff.width
        recent = contexts[:, contexts.shape[1] - width :]
        distinct, places = distinct_rows(recent + 1, len(numbering.words) + 1)
        order = np.argsort(places, kind="stable")
        cuts = np.searchsorted(places[order], np.arange(len(distinct) + 1))
        for row, (start, end) in zip(distinct - 1, pairwise(cuts), strict=True):
            begins = bool((row == BOUNDARY).any())
            state = backoff.state(
                [numbering.words[word] for word in row if word != BOUNDARY], begins=begins
            )
            asked = order[start:end]
            known = asked[inside[asked]]
            if len(known):
                found[known] += backoff.log_mass(state)
            for place in asked[~inside[asked]]:
                found[place] = backoff.log_prob(state, numbering.words[words[place]])


def score_tree(scorer: WordScorer, tree: PrefixTree, words: Sequence[str]) -> TreeLogProbs:
    """Return the log-probability of every word of the tree, whatever its roots read.

    Each distinct n-gram context is computed once.

    :param tree: of the sentences; its words are places in ``words``.
    """
    context = np.full((tree.num_roots, scorer.order - 1), BOUNDARY, dtype=np.int32)
    contexts = [context[tree.empty_roots]]
    predicted = [np.full(len(tree.empty), BOUNDARY, dtype=np.int32)]
    for level in tree.levels:
        contexts.append(context[level.parents])
        predicted.append(level.words.astype(np.int32))
        context = np.concatenate([contexts[-1][:, 1:], predicted[-1][:, None]], axis=1)
        contexts.append(context[level.end_nodes])
        predicted.append(np.full(len(level.ends), BOUNDARY, dtype=np.int32))
    values = scorer.log_probs(
        scorer.number(words), np.concatenate(contexts), np.concatenate(predicted)
    )
    return TreeLogProbs(tree, values)
