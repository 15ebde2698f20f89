"""Log-probabilities of n-grams under a feed-forward language model.

Each distinct context is computed once, in the order of the contexts, and so is what a word adds to
the first layer at a place: W_i e(w) is a row of a table that grows with the words that come. A
value does not depend on what is asked beside it, to the last bit
(:mod:`phrasescore.scoring.products`).
"""

import threading

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from phrasescore.errors import ModelError
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.context_memo import ContextMemo
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.models.cslm import CslmNetwork
from phrasescore.scoring.prefix_tree import on_device
from phrasescore.scoring.products import FixedProducts
from phrasescore.scoring.word_probabilities import WordProbabilities

Floats = NDArray[np.float64]
WordIds = NDArray[np.int32]

# Distinct contexts whose layers are held at once.
_CONTEXTS = {"cpu": 4096, "cuda": 65536}
# Rounding may lift the log-probability of a certain event above 0 by this much.
_ROUNDING = 1e-3


class NgramScorer:
    """log p(word | context) under one network. Several threads may use one instance at once.

    :param checkpoint: of the kind cslm.
    :param device: where it runs.
    :param precision: of the matrix products.
    :param normalized: False leaves log Z out: values are then near log p only where training kept
        log Z near 0, and may be above 0.
    :param shortlist: the ids among which the probabilities are divided, rising; those of the whole
        vocabulary, ``<unk>`` among them, where none are named.
    :raises ModelError: if the network is of another kind, or holds what is not finite.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        precision: Precision,
        *,
        normalized: bool = True,
        shortlist: WordIds | None = None,
    ) -> None:
        network = language_network(checkpoint)
        for name, parameter in network.named_parameters():
            if not bool(parameter.isfinite().all()):
                raise ModelError(f"weights {name!r} are not all finite")
        self.order = network.config.order
        self.normalized = normalized
        self.contexts_scored = 0
        self._size = len(network.embedding)
        self._device = device
        self._rows = np.arange(self._size)
        with torch.inference_mode():
            self._products = FixedProducts(precision, device)
            self._first = _FirstLayer(network, self._products)
            self._upper = self._products.prepare(network.upper.weight.t())
            self._upper_bias = network.upper.bias.detach().to(device, torch.float32)
            weight, bias = network.output.weight.detach(), network.output.bias.detach()
            if shortlist is not None:
                chosen = on_device(shortlist.astype(np.int64), weight.device)
                weight, bias = weight[chosen], bias[chosen]
                self._rows = np.full(self._size, -1)
                self._rows[shortlist] = np.arange(len(shortlist))
            self._probabilities = WordProbabilities(weight, bias, self._products)

    def new_memo(self) -> ContextMemo:
        """Return an empty memory for :meth:`log_probs`."""
        return ContextMemo(self.order, self._upper_bias.shape[0], self._device)

    def log_probs(
        self, contexts: WordIds, words: WordIds, memo: ContextMemo | None = None
    ) -> Floats:
        """Return log p of each word after its context, natural logarithms, ``(n,)``.

        :param contexts: ``(n, order - 1)`` ids of the vocabulary, the oldest word first; 0 at the
            places before the sentence. Equal rows cost one softmax.
        :param words: ``(n,)`` ids, 0 for ``</s>``, 1 for ``<unk>``; of the shortlist.
        :param memo: contexts that it knows cost none, and it learns the others; for one thread.
        :raises ModelError: if a value is not a finite log-probability.
        """
        if len(words) == 0:
            return np.zeros(0)
        with torch.inference_mode():
            if memo is None:
                found = self._distinct_log_probs(contexts, words)
            else:
                found = self._known_log_probs(contexts, words, memo)
        wrong = ~np.isfinite(found)
        if self.normalized:
            wrong |= found > _ROUNDING
        if wrong.any():
            raise ModelError(f"a word scores {found[wrong][0]}, which is no log-probability")
        return np.minimum(found, 0.0) if self.normalized else found

    def _distinct_log_probs(self, contexts: WordIds, words: WordIds) -> Floats:
        """Return log p, with a softmax for each distinct context, in the order of the contexts."""
        distinct, places = distinct_rows(contexts, self._size)
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
        if not self.normalized:
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
        if not self.normalized:
            found = self._probabilities.logits(rows, places, words)
        else:
            if normalizers is None:
                normalizers = self._probabilities.log_normalizers(rows)
            found = self._probabilities.log_probs(rows, normalizers, places, words)
        values: Floats = found.cpu().numpy()
        return values


def language_network(checkpoint: Checkpoint) -> CslmNetwork:
    """Return the network of a language model.

    :raises ModelError: if it is another kind of model.
    """
    network = checkpoint.model
    if not isinstance(network, CslmNetwork):
        kind = checkpoint.config.kind
        raise ModelError(f"expected a language model (cslm), found a model of the kind {kind}")
    return network


class _FirstLayer:
    """relu(W e + b), where W_i e(w) of word w at place i is computed when it first comes."""

    def __init__(self, network: CslmNetwork, products: FixedProducts) -> None:
        self._products = products
        device, size = products.device, len(network.embedding)
        self._embedding = network.embedding.detach().to(device, torch.float32)
        width = self._embedding.shape[1]
        weight = network.lower.weight.detach()
        self._matrices = [products.prepare(part.t()) for part in weight.split(width, dim=1)]
        self._bias = network.lower.bias.detach().to(device, torch.float32)
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
