"""N-grams as integers, for many sentences at once."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

MAX_ORDER = 4  # BLEU's longest n-gram (Papineni et al., 2002)

_UNKNOWN = -1


class Ngrams(NamedTuple):
    """The id and the sentence of each n-gram of one order, both 0-based, in text order."""

    ids: Integers
    sentences: Integers


class NgramIndex:
    """The n-grams in the given sentences as integers; equal n-grams have the same id.

    An n-gram is identified by the id of its first n-1 words and its last word, combined in a 64-bit
    integer. Ids are assigned by sorting these integers, without creating tuples of strings.

    :ivar ngrams: the n-grams in the sentences, for each order from 1 on.
    :ivar sizes: the number of distinct n-grams of each order.
    """

    def __init__(self, sentences: Sequence[Sequence[str]]) -> None:
        self._words: dict[str, int] = {}
        words = [
            self._words.setdefault(word, len(self._words)) for text in sentences for word in text
        ]
        self.sizes = [len(self._words)]
        # For each order from 2 on, the sorted integers that identify n-grams; the index is the id.
        self._pairs: list[Integers] = []
        self.ngrams = self._extend(words, sentences, self._learn)

    def find(self, sentences: Sequence[Sequence[str]]) -> list[Ngrams]:
        """Return the n-grams in other sentences that are in the index, for each order."""
        get = self._words.get
        words = [get(word, _UNKNOWN) for sentence in sentences for word in sentence]
        return self._extend(words, sentences, self._look_up)

    def _extend(
        self,
        word_ids: list[int],
        sentences: Sequence[Sequence[str]],
        number: Callable[[int, Integers], Integers],
    ) -> list[Ngrams]:
        words = np.array(word_ids, np.int64)
        lengths = sentence_lengths(sentences)
        owners = np.repeat(np.arange(len(lengths)), lengths)
        ends = np.repeat(lengths.cumsum(), lengths)
        starts = np.flatnonzero(words != _UNKNOWN)
        ids = words[starts]
        ngrams = [Ngrams(ids, owners[starts])]
        for order in range(2, MAX_ORDER + 1):
            inside = starts + (order - 1) < ends[starts]
            starts, ids = starts[inside], ids[inside]
            last = words[starts + (order - 1)]
            pairs = np.where(last == _UNKNOWN, _UNKNOWN, ids * self.sizes[0] + last)
            ids = number(order, pairs)
            known = ids != _UNKNOWN
            starts, ids = starts[known], ids[known]
            ngrams.append(Ngrams(ids, owners[starts]))
        return ngrams

    def _learn(self, _order: int, pairs: Integers) -> Integers:
        known, ids = np.unique(pairs, return_inverse=True)
        self._pairs.append(known)
        self.sizes.append(len(known))
        return ids.astype(np.int64, copy=False)

    def _look_up(self, order: int, pairs: Integers) -> Integers:
        ids = find_sorted(self._pairs[order - 2], pairs)
        return np.where(pairs == _UNKNOWN, _UNKNOWN, ids)


def sentence_lengths(sentences: Sequence[Sequence[str]]) -> Integers:
    """Return the number of words in each sentence."""
    return np.fromiter(map(len, sentences), np.int64, len(sentences))


def find_sorted(known: Integers, wanted: Integers) -> Integers:
    """Return the index of each wanted number in a sorted array, or -1 if it is missing.

    >>> find_sorted(np.array([2, 5, 7]), np.array([7, 3, 2, 9])).tolist()
    [2, -1, 0, -1]
    """
    if not len(known):
        return np.full(len(wanted), _UNKNOWN)
    indices = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[indices] == wanted, indices, _UNKNOWN)


def count_ngrams(ngrams: Ngrams, size: int) -> tuple[Integers, Integers, Integers]:
    """Return sentences, ids and counts of n-grams in sentences, sorted by sentence, then by id.

    :param size: the number of distinct n-grams.
    """
    keys, counts = np.unique(ngrams.sentences * size + ngrams.ids, return_counts=True)
    sentences, ids = np.divmod(keys, max(size, 1))
    return sentences, ids, counts.astype(np.int64, copy=False)
