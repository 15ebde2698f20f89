"""A feed-forward language model for words that the caller numbers: a text's, a decoder's, a list's.

Here a word that the network does not know is still a word: ``<unk>``, or scored by an n-gram model
(:mod:`phrasescore.language_models.backoff`).
"""

import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.errors import PhrasescoreError
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.backoff import BackoffModel
from phrasescore.language_models.context_memo import ContextMemo
from phrasescore.language_models.ngram_scorer import (
    Floats,
    NgramScorer,
    WordIds,
    distinct_rows,
    language_network,
)
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.scoring.prefix_tree import PrefixTree
from phrasescore.scoring.tree_scorer import TreeLogProbs
from phrasescore.vocabulary import Vocabulary

# The number of ``<s>`` and of every place before it in a context, and of ``</s>`` where a word is
# predicted.
BOUNDARY = -1


class Numbering(NamedTuple):
    """Words by the caller's numbers, which are their places."""

    words: Sequence[str]
    # The network's id of each, and at the end that of BOUNDARY.
    ids: WordIds


class WordScorer:
    """log p(word | the words before it). Several threads may use one instance at once.

    Natural logarithms. Without ``backoff`` a word outside the shortlist has the probability of
    ``<unk>``, which is that of all such words together; with it, its own.

    :param checkpoint: of the kind cslm.
    :param device: where it runs.
    :param precision: of the matrix products.
    :param normalized: False leaves log Z out; see :class:`NgramScorer`.
    :param backoff: an n-gram model for the words outside the shortlist, as a file.
    :raises PhrasescoreError: if one is wanted and log Z is not.
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
        self._vocabulary = checkpoint.target_vocabulary
        order = language_network(checkpoint).config.order
        self._backoff = None
        shortlist = None
        if backoff is not None:
            self._backoff = BackoffModel(backoff, self._vocabulary, order)
            shortlist = self._backoff.shortlist
        self._ngrams = NgramScorer(
            checkpoint, device, precision, normalized=normalized, shortlist=shortlist
        )
        self.order = self._ngrams.order
        # Whether the network predicts an id.
        self._inside = np.ones(len(self._vocabulary), dtype=bool)
        if shortlist is not None:
            self._inside[:] = False
            self._inside[shortlist] = True
        # KenLM gives way to other threads nowhere, and the masses are one table.
        self._lock = threading.Lock()

    @property
    def contexts_scored(self) -> int:
        """Softmaxes so far."""
        return self._ngrams.contexts_scored

    def number(self, words: Sequence[str]) -> Numbering:
        """Return what :meth:`log_probs` needs of the caller's words."""
        ids = np.array([*self._vocabulary.ids(words), Vocabulary.END], dtype=np.int32)
        return Numbering(words, ids)

    def is_unknown(self, numbering: Numbering) -> NDArray[np.bool_]:
        """Return whether each word, and at the end BOUNDARY, has the probability of ``<unk>``."""
        if self._backoff is None:
            unknown: NDArray[np.bool_] = numbering.ids == Vocabulary.UNKNOWN
            return unknown
        knows = self._backoff.knows
        return np.array([*(not knows(word) for word in numbering.words), False], dtype=bool)

    def new_memo(self) -> ContextMemo:
        """Return an empty memory for :meth:`log_probs`."""
        return self._ngrams.new_memo()

    def log_probs(
        self,
        numbering: Numbering,
        contexts: WordIds,
        words: WordIds,
        memo: ContextMemo | None = None,
    ) -> Floats:
        """Return log p of each word after its context, ``(n,)``.

        :param contexts: ``(n, order - 1)`` numbers, the oldest word first; BOUNDARY at the places
            before a sentence.
        :param words: ``(n,)`` numbers; BOUNDARY is ``</s>``.
        :param memo: see :meth:`NgramScorer.log_probs`.
        """
        ids = numbering.ids[words]
        if self._backoff is None:
            return self._ngrams.log_probs(numbering.ids[contexts], ids, memo)
        found = np.empty(len(words))
        inside = np.flatnonzero(self._inside[ids])
        known = numbering.ids[contexts[inside]]
        found[inside] = self._ngrams.log_probs(known, ids[inside], memo)
        with self._lock:
            self._back_off(numbering, contexts, words, self._inside[ids], found)
        return found

    def _back_off(
        self,
        numbering: Numbering,
        contexts: WordIds,
        words: WordIds,
        inside: NDArray[np.bool_],
        found: Floats,
    ) -> None:
        """Add the shortlist's mass to its words, and fill the places of the others."""
        assert self._backoff is not None
        width = self._backoff.width
        recent = contexts[:, contexts.shape[1] - width :]
        distinct, places = distinct_rows(recent + 1, len(numbering.words) + 1)
        order = np.argsort(places, kind="stable")
        cuts = np.searchsorted(places[order], np.arange(len(distinct) + 1))
        for row, (start, end) in zip(distinct - 1, pairwise(cuts), strict=True):
            begins = bool((row == BOUNDARY).any())
            state = self._backoff.state(
                [numbering.words[word] for word in row if word != BOUNDARY], begins=begins
            )
            asked = order[start:end]
            known = asked[inside[asked]]
            if len(known):
                found[known] += self._backoff.log_mass(state)
            for place in asked[~inside[asked]]:
                found[place] = self._backoff.log_prob(state, numbering.words[words[place]])


def score_tree(scorer: WordScorer, tree: PrefixTree, words: Sequence[str]) -> TreeLogProbs:
    """Return the log-probability of every word of the tree, whatever its roots read.

    Each distinct n-gram context is computed once.

    :param tree: of the sentences; its words are places in ``words``.
    """
    context = np.full((tree.num_roots, scorer.order - 1), BOUNDARY, dtype=np.int32)
    contexts = [context[tree.empty_roots]]
    predicted = [np.full(len(tree.empty), BOUNDARY, dtype=np.int32)]
    ends = [tree.empty]
    for level in tree.levels:
        contexts.append(context[level.parents])
        predicted.append(level.words.astype(np.int32))
        context = np.concatenate([contexts[-1][:, 1:], predicted[-1][:, None]], axis=1)
        contexts.append(context[level.end_nodes])
        predicted.append(np.full(len(level.ends), BOUNDARY, dtype=np.int32))
        ends.append(level.ends)
    values = scorer.log_probs(
        scorer.number(words), np.concatenate(contexts), np.concatenate(predicted)
    )
    parts = np.split(values, np.cumsum([len(part) for part in predicted])[:-1])
    of_ends = np.empty(sum(len(part) for part in ends))
    for sequences, part in zip(ends, parts[::2], strict=True):
        of_ends[sequences] = part
    return TreeLogProbs(parts[1::2], of_ends)
