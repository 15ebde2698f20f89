"""N-grams as integers, for many sentences at once."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

# BLEU's longest n-gram (Papineni et al., 2002).
MAX_ORDER = 4

_UNKNOWN = -1


class Ngrams(NamedTuple):
    """The n-grams of one order in some sentences, in text order."""

    # The 0-based id of each n-gram.
    ids: Integers
    # The 0-based sentence of each n-gram.
    sentences: Integers


class _Tokens(NamedTuple):
    """Concatenated sentences."""

    # The id of each word, or _UNKNOWN.
    words: Integers
    # The sentence of each word, and the end of that sentence.
    sentences: Integers
    ends: Integers


class NgramIndex:
    """The n-grams of some sentences by number; equal n-grams have the same id.

    The id of the first n-1 words and the last word identify an n-gram; both make one 64-bit number.
    So n-grams are never tuples of strings, and are found by sorting.

    :param sentences: words; or strings, whose characters are the words.
    :param max_order: the length of the longest n-grams, at least 1.
    :ivar ngrams: the n-grams of the sentences, for each order from 1 on.
    :ivar sizes: the number of distinct n-grams of each order.
    """

    def __init__(self, sentences: Sequence[Sequence[str]], *, max_order: int = MAX_ORDER) -> None:
        self._max_order = max_order
        self._words: dict[str, int] = {}
        words = [
            self._words.setdefault(word, len(self._words))
            for sentence in sentences
            for word in sentence
        ]
        self.sizes = [len(self._words)]
        # For each order from 2 on, the sorted pairs that identify n-grams; the index is the id.
        self._pairs: list[Integers] = []
        self.ngrams = self._extend(_tokens(words, sentences), self._learn)

    def find(self, sentences: Sequence[Sequence[str]]) -> list[Ngrams]:
        """Return the known n-grams of other sentences, for each order."""
        get = self._words.get
        words = [get(word, _UNKNOWN) for sentence in sentences for word in sentence]
        return self._extend(_tokens(words, sentences), self._look_up)

    def _extend(self, tokens: _Tokens, number: Callable[[int, Integers], Integers]) -> list[Ngrams]:
        """Return the n-grams of each order; ``number`` returns the ids of an order's pairs."""
        starts = np.flatnonzero(tokens.words != _UNKNOWN)
        ids = tokens.words[starts]
        ngrams = [Ngrams(ids, tokens.sentences[starts])]
        for order in range(2, self._max_order + 1):
            inside = starts + (order - 1) < tokens.ends[starts]
            starts, ids = starts[inside], ids[inside]
            last = tokens.words[starts + (order - 1)]
            pairs = np.where(last == _UNKNOWN, _UNKNOWN, ids * self.sizes[0] + last)
            ids = number(order, pairs)
            known = ids != _UNKNOWN
            starts, ids = starts[known], ids[known]
            ngrams.append(Ngrams(ids, tokens.sentences[starts]))
        return ngrams

    def _learn(self, _order: int, pairs: Integers) -> Integers:
        known, ids = np.unique(pairs, return_inverse=True)
        self._pairs.append(known)
        self.sizes.append(len(known))
        return ids.astype(np.int64, copy=False)

    def _look_up(self, order: int, pairs: Integers) -> Integers:
        ids = find_sorted(self._pairs[order - 2], pairs)
        return np.where(pairs == _UNKNOWN, _UNKNOWN, ids)


def _tokens(words: list[int], sentences: Sequence[Sequence[str]]) -> _Tokens:
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    return _Tokens(
        np.array(words, np.int64),
        np.repeat(np.arange(len(sentences)), lengths),
        np.repeat(np.cumsum(lengths), lengths),
    )


def find_sorted(known: Integers, wanted: Integers) -> Integers:
    """Return the index of each wanted number among sorted ones, -1 if it is not there.

    >>> find_sorted(np.array([2, 5, 7]), np.array([7, 3, 2, 9])).tolist()
    [2, -1, 0, -1]
    """
    if not len(known):
        return np.full(len(wanted), _UNKNOWN)
    indices = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[indices] == wanted, indices, _UNKNOWN)


def count_ngrams(ngrams: Ngrams, size: int) -> tuple[Integers, Integers, Integers]:
    """Count the occurrences of each n-gram in each sentence.

    :param size: the number of ids, from `NgramIndex.sizes`.
    :return: sentence, id and count of each n-gram of each sentence, sorted.
    """
    keys, counts = np.unique(ngrams.sentences * size + ngrams.ids, return_counts=True)
    sentences, ids = np.divmod(keys, max(size, 1))
    return sentences, ids, counts.astype(np.int64, copy=False)
