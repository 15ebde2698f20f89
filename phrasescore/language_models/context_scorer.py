"""Score words after contexts, both given as ids of a feed-forward network.

Each distinct context is computed once, and so is a word's share of the first layer at a position:
W_i e(w) is a row of a table that is filled on demand (Devlin et al., 2014, section 2.3, fill it in
advance). A value does not depend on the other contexts of a call, to the last bit
(:mod:`phrasescore.scoring.products`).
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from phrasescore.io.hashing import EMPTY, combine, find, make_table
from phrasescore.io.kernel_cache import kept_njit
from phrasescore.kernels.precision import Precision
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.models.feed_forward import FeedForwardNetwork
from phrasescore.scoring.prefix_tree import on_device
from phrasescore.scoring.products import Products
from phrasescore.scoring.word_probabilities import WordProbabilities
from phrasescore.vocabulary import Vocabulary

Floats = NDArray[np.float64]
WordIds = NDArray[np.int32]
Ids = NDArray[np.int64]

# Maximum number of distinct contexts whose layers are in memory at the same time.
_CONTEXTS = {"cpu": 4096, "cuda": 65536}
# Maximum size of a memo's rows, in bytes.
_BYTES = 1 << 26


class Numbering(NamedTuple):
    """Words in the order of the caller's numbers, and their network ids, followed by ``</s>``'s."""

    words: Sequence[str]
    ids: WordIds


class ContextMemo:
    """Maps contexts to the rows that the softmax reads and to log Z, for one thread at a time.

    The same context recurs in several stacks of a search. A full memo is cleared.
    """

    def __init__(
        self, words: int, width: int, device: torch.device, capacity: int | None = None
    ) -> None:
        most = max(1, _BYTES // (4 * width))
        self.capacity = min(capacity or most, most)
        self._contexts = np.empty((self.capacity, words), np.int32)
        self._numbers = make_table(self.capacity, 2)
        self._count = 0
        self._rows = torch.empty(self.capacity, width, device=device)
        self._normalizers = torch.empty(self.capacity, dtype=torch.float64, device=device)

    def find(
        self, contexts: WordIds, compute: Callable[[Ids], tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor, Ids]:
        """Return rows, log Z, and the index of each context's row.

        :param contexts: ``(n, words)`` ids; ``n`` is at most the capacity.
        :param compute: returns the rows and log Z of distinct new contexts.
        """
        if self._count + len(contexts) > self.capacity:
            self._numbers.fill(0)
            self._count = 0
        known = self._count
        indices = np.empty(len(contexts), np.int64)
        self._count = _number(contexts, self._contexts, self._numbers, known, indices)
        if self._count > known:
            part = slice(known, self._count)
            try:
                new = self._contexts[part].astype(np.int64)
                self._rows[part], self._normalizers[part] = compute(new)
            except BaseException:
                # Later calls must not find contexts whose rows are missing.
                self._numbers.fill(0)
                self._count = 0
                raise
        return self._rows[: self._count], self._normalizers[: self._count], indices


@kept_njit()
def _number(contexts: Any, kept: Any, numbers: Any, count: int, indices: Any) -> int:
    """Write the index of each context, append the new ones, and return the new count."""
    for row in range(len(contexts)):
        key = EMPTY
        for word in contexts[row]:
            key = combine(key, np.uint64(word + 1))
        key |= np.uint64(1)
        slot = find(numbers, key)
        if slot < 0:
            slot = -1 - slot
            numbers[slot, 0], numbers[slot, 1] = key, count
            kept[count] = contexts[row]
            count += 1
        indices[row] = numbers[slot, 1]
    return count


class ContextScorer:
    """log p(word | context). Several threads may share one instance.

    :param normalized: False omits log Z: values are near log p only if training kept log Z near 0,
        and may be above 0.
    :param shortlist: the ids over which probabilities are normalised; None for all.
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
        network = checkpoint.model
        assert isinstance(network, FeedForwardNetwork)
        self.order = network.config.order
        self.vocabulary = checkpoint.target_vocabulary
        self._checkpoint = checkpoint
        self._normalized = normalized
        self._device = device
        self._activate = network.activate
        self._width = len(network.input_ranges())
        # The softmax row of each network id; -1 if another model predicts the word.
        self._rows = np.arange(len(self.vocabulary))
        self._upper: Any = None
        with torch.inference_mode():
            self._products = Products(precision, device)
            self._first = _FirstLayer(network, self._products)
            if network.upper is not None:
                self._upper = self._products.prepare(network.upper.weight.t())
                self._upper_bias = self._products.place(network.upper.bias)
            weight, bias = network.output.weight.detach(), network.output.bias.detach()
            if shortlist is not None:
                chosen = on_device(shortlist.astype(np.int64), weight.device)
                weight, bias = weight[chosen], bias[chosen]
                self._rows = np.full(len(self._rows), -1)
                self._rows[shortlist] = np.arange(len(shortlist))
            self._num_factors = weight.shape[1]
            self._probabilities = WordProbabilities(weight, bias, self._products, checkpoint.folder)

    def number(self, words: Sequence[str]) -> Numbering:
        """Number words, or subword pieces, and look up their network ids."""
        ids = [*self.vocabulary.ids_of_pieces(words), Vocabulary.END]
        return Numbering(words, np.array(ids, dtype=np.int32))

    def new_memo(self, capacity: int | None = None) -> ContextMemo:
        """Return an empty memo for :meth:`log_probs_of_ids`, for up to ``capacity`` contexts."""
        return ContextMemo(self._width, self._num_factors, self._device, capacity)

    def log_probs_of_ids(
        self, contexts: WordIds, words: WordIds, memo: ContextMemo | None = None
    ) -> Floats:
        """Return log p of each word after its context, a natural logarithm, ``(n,)``.

        :param contexts: ``(n, width)`` network ids. Equal rows need only one softmax.
        :param words: ``(n,)`` ids in the shortlist: 0 is ``</s>``, 1 is ``<unk>``.
        :param memo: contexts that need no softmax; new contexts are added. Only one thread may use
            it at a time.
        """
        if len(words) == 0:
            return np.zeros(0)
        memo = memo or self.new_memo(len(words))
        values = np.empty(len(words))
        step = min(memo.capacity, _CONTEXTS[self._device.type])
        with torch.inference_mode():
            for start in range(0, len(words), step):
                part = slice(start, start + step)
                rows, normalizers, places = memo.find(contexts[part], self._layers)
                values[part] = self._values(rows, places, self._rows[words[part]], normalizers)
        return self._probabilities.check(values, 0.0 if self._normalized else np.inf)

    def _layers(self, contexts: Ids) -> tuple[Tensor, Tensor]:
        """Return the softmax's input rows for contexts, and log Z, which is 0 if omitted."""
        rows = self._hidden(contexts)
        if not self._normalized:
            return rows, rows.new_zeros(len(rows), dtype=torch.float64)
        return rows, self._probabilities.log_normalizers(rows)

    def _hidden(self, contexts: Ids) -> Tensor:
        rows = self._activate(self._first.units(contexts))
        if self._upper is None:
            return rows
        upper = self._products.multiply("upper", rows, self._upper)
        return self._activate(upper.add_(self._upper_bias))

    def _values(self, rows: Tensor, places: Ids, words: Ids, normalizers: Tensor) -> Floats:
        if self._normalized:
            scores = self._probabilities.log_probs(rows, normalizers, places, words)
        else:
            scores = self._probabilities.logits(rows, places, words)
        values: Floats = scores.cpu().numpy()
        return values


class _FirstLayer:
    """W e + b, where W_i e(w) of word w at position i is computed at its first occurrence."""

    def __init__(self, network: FeedForwardNetwork, products: Products) -> None:
        self._products = products
        device = products.device
        self._embedding = products.place(network.embedding)
        width = self._embedding.shape[1]
        weight = network.lower.weight.detach()
        self._matrices = [products.prepare(part.t()) for part in weight.split(width, dim=1)]
        self._bias = products.place(network.lower.bias)
        # Each position has rows for its possible words: word w has row starts[position] + w.
        ranges = network.input_ranges()
        ends = np.cumsum([len(words) for words in ranges])
        self._cuts = ends[:-1]
        self._starts = ends - np.array([words.stop for words in ranges])
        # The operating system provides memory only as rows are written.
        self._table = torch.empty(int(ends[-1]), len(weight), device=device)
        self._known = np.zeros(len(self._table), dtype=bool)
        self._lock = threading.Lock()

    def units(self, contexts: Ids) -> Tensor:
        """Return the inputs of the layer's units for contexts, ``(contexts, hidden_size)``."""
        places = contexts + self._starts
        new = places[~self._known[places]]
        if len(new):
            with self._lock:
                self._compute(np.unique(new))
        chosen = on_device(places, self._table.device)
        return embedding_bag(chosen, self._table, mode="sum").add_(self._bias)

    def _compute(self, rows: Ids) -> None:
        parts = np.split(rows, np.searchsorted(rows, self._cuts))
        for part, start, matrix in zip(parts, self._starts, self._matrices, strict=True):
            if not len(part):
                continue
            words = on_device(part - start, self._table.device)
            products = self._products.multiply("first", self._embedding[words], matrix)
            self._table[on_device(part, self._table.device)] = products
        self._known[rows] = True
