"""A feed-forward language model for words that the caller numbers: a text's, a decoder's, a list's.

Each distinct context is computed once, in the order of the contexts, and so is a word's share of
the first layer at a place: W_i e(w) is a row of a table that grows with the words that come. A
value does not depend on the other n-grams of a call, to the last bit
(:mod:`phrasescore.scoring.products`). A word that the network does not know is ``<unk>``, or scored
by an n-gram model (:mod:`phrasescore.language_models.kenlm_model`).
"""

import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.context_memo import ContextMemo
from phrasescore.language_models.kenlm_model import BackoffModel
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.models.cslm import CslmNetwork
from phrasescore.scoring.prefix_tree import PrefixTree, on_device
from phrasescore.scoring.products import FixedProducts
from phrasescore.scoring.tree_scorer import TreeLogProbs, check_weights
from phrasescore.scoring.word_probabilities import WordProbabilities, check_log_probs
from phrasescore.vocabulary import Vocabulary

Floats = NDArray[np.float64]
WordIds = NDArray[np.int32]

# The number of ``<s>`` and of every place before it in a context, and of ``</s>`` where a word is
# predicted.
BOUNDARY = -1
# Distinct contexts whose layers are held at once.
_CONTEXTS = {"cpu": 4096, "cuda": 65536}


class CslmOptions(NamedTuple):
    """The options of scores; see :class:`WordScorer`."""

    # Whether log Z is computed.
    normalized: bool = True
    # An n-gram model for the words outside the shortlist; None for <unk>.
    backoff: str | None = None


# Scores that are probabilities, with <unk>.
USUAL = CslmOptions()


class Numbering(NamedTuple):
    """Words by the caller's numbers, which are their places."""

    words: Sequence[str]
    # The network's id of each, and at the end that of BOUNDARY.
    ids: WordIds


class WordScorer:
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
        network = checkpoint.model
        if not isinstance(network, CslmNetwork):
            kind = checkpoint.config.kind
            raise ModelError(f"expected a language model (cslm), found a model of the kind {kind}")
        check_weights(network)
        self.order = network.config.order
        self.contexts_scored = 0
        self._normalized = normalized
        self._device = device
        self._vocabulary = checkpoint.target_vocabulary
        # The rows of the softmax by the network's ids; -1 where another model predicts the word.
        self._rows = np.arange(len(network.embedding))
        self._backoff = None
        # KenLM gives way to other threads nowhere, and the masses are one table.
        self._lock = threading.Lock()
        with torch.inference_mode():
            self._products = FixedProducts(precision, device)
            self._first = _FirstLayer(network, self._products)
            self._upper = self._products.prepare(network.upper.weight.t())
            self._upper_bias = self._products.place(network.upper.bias)
            weight, bias = network.output.weight.detach(), network.output.bias.detach()
            if backoff is not None:
                self._backoff = BackoffModel(backoff, self._vocabulary, self.order)
                shortlist = self._backoff.shortlist
                chosen = on_device(shortlist.astype(np.int64), weight.device)
                weight, bias = weight[chosen], bias[chosen]
                self._rows = np.full(len(self._rows), -1)
                self._rows[shortlist] = np.arange(len(shortlist))
            self._probabilities = WordProbabilities(weight, bias, self._products)

    def number(self, words: Sequence[str]) -> Numbering:
        """Return the caller's words with the network's ids."""
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
        """Return an empty memory of contexts for :meth:`log_probs`."""
        return ContextMemo(self.order, len(self._upper_bias), self._device)

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

    def log_probs_of_ids(
        self, contexts: WordIds, words: WordIds, memo: ContextMemo | None = None
    ) -> Floats:
        """Return log p under the network alone, as :meth:`log_probs`, by its own ids.

        :param words: 0 is ``</s>``, 1 is ``<unk>``; of the shortlist.
        """
        if len(words) == 0:
            return np.zeros(0)
        with torch.inference_mode():
            if memo is None:
                found = self._distinct_log_probs(contexts, words)
            else:
                found = self._known_log_probs(contexts, words, memo)
        return check_log_probs(found, 0.0 if self._normalized else np.inf)

    def _distinct_log_probs(self, contexts: WordIds, words: WordIds) -> Floats:
        """Return log p, with a softmax for each distinct context, in the order of the contexts."""
        distinct, places = distinct_rows(contexts, len(self._rows))
        self.contexts_scored += len(distinct)
        order = np.argsort(places, kind="stable")
        step = _CONTEXTS[self._device.type]
        starts = range(0, len(distinct), step)
        cuts = np.searchsorted(places[order], np.array(starts[1:], dtype=np.int64))
        found = np.empty(len(words))
        for start, asked in zip(starts, np.split(order, cuts), strict=True):
            rows = self._hidden(distinct[start : start + step])
            wanted = self._rows[words[asked]]
            found[asked] = self._values(rows, places[asked] - start, wanted)
        return found

    def _known_log_probs(self, contexts: WordIds, words: WordIds, memo: ContextMemo) -> Floats:
        """Return log p, with a softmax for each context that the memo does not know."""
        found = np.empty(len(words))
        step = min(memo.capacity, _CONTEXTS[self._device.type])
        for start in range(0, len(words), step):
            part = slice(start, start + step)
            rows, normalizers, places = memo.find(contexts[part], self._layers)
            found[part] = self._values(rows, places, self._rows[words[part]], normalizers)
        return found

    def _layers(self, contexts: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return the rows that the softmax reads after contexts, and log Z; 0 if left out."""
        self.contexts_scored += len(contexts)
        rows = self._hidden(contexts)
        if not self._normalized:
            return rows, rows.new_zeros(len(rows), dtype=torch.float64)
        return rows, self._probabilities.log_normalizers(rows)

    def _hidden(self, contexts: NDArray[np.int64]) -> Tensor:
        """Return the rows that the softmax reads after contexts, ``(contexts, upper_size)``."""
        rows = self._first.units(contexts)
        upper = self._products.multiply("upper", rows, self._upper)
        return upper.add_(self._upper_bias).relu_()

    def _values(
        self,
        rows: Tensor,
        places: NDArray[np.int64],
        words: NDArray[np.int64],
        normalizers: Tensor | None = None,
    ) -> NDArray[np.float64]:
        if not self._normalized:
            found = self._probabilities.logits(rows, places, words)
        else:
            if normalizers is None:
                normalizers = self._probabilities.log_normalizers(rows)
            found = self._probabilities.log_probs(rows, normalizers, places, words)
        values: Floats = found.cpu().numpy()
        return values

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


class _FirstLayer:
    """relu(W e + b), where W_i e(w) of word w at place i is computed when it first comes."""

    def __init__(self, network: CslmNetwork, products: FixedProducts) -> None:
        self._products = products
        device, size = products.device, len(network.embedding)
        self._embedding = products.place(network.embedding)
        width = self._embedding.shape[1]
        weight = network.lower.weight.detach()
        self._matrices = [products.prepare(part.t()) for part in weight.split(width, dim=1)]
        self._bias = products.place(network.lower.bias)
        # The row of word w at place i is i * size + w. Memory that is not written to is not taken.
        self._table = torch.empty(len(self._matrices) * size, len(weight), device=device)
        self._known = np.zeros(len(self._table), dtype=bool)
        self._starts = np.arange(len(self._matrices)) * size
        self._lock = threading.Lock()

    def units(self, contexts: NDArray[np.int64]) -> Tensor:
        """Return the units of the layer after contexts, ``(contexts, hidden_size)``."""
        places = contexts + self._starts
        new = places[~self._known[places]]
        if len(new):
            with self._lock:
                self._compute(np.unique(new))
        chosen = on_device(places, self._table.device)
        return embedding_bag(chosen, self._table, mode="sum").add_(self._bias).relu_()

    def _compute(self, rows: NDArray[np.int64]) -> None:
        cuts = np.searchsorted(rows, self._starts[1:])
        parts = np.split(rows, cuts)
        for part, start, matrix in zip(parts, self._starts, self._matrices, strict=True):
            if not len(part):
                continue
            words = on_device(part - start, self._table.device)
            products = self._products.multiply("first", self._embedding[words], matrix)
            self._table[on_device(part, self._table.device)] = products
        self._known[rows] = True


def distinct_rows(
    rows: NDArray[np.integer], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct rows, sorted by their columns, and which of them each row is.

    :param rows: ``(rows, columns)``, each number from 0 to ``size - 1``.
    """
    keys = np.zeros(len(rows), dtype=np.int64)
    limit = 1  # keys are below it
    for column in np.asarray(rows, dtype=np.int64).T:
        if limit > (1 << 62) // size:
            keys = np.unique(keys, return_inverse=True)[1]
            limit = len(rows)
        keys = keys * size + column
        limit *= size
    _, first, places = np.unique(keys, return_index=True, return_inverse=True)
    return np.asarray(rows[first], dtype=np.int64), places


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
