"""N-grams as integers, for many sentences in one pass."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

# BLEU's longest n-gram (Papineni et al., 2002).
MAX_ORDER = 4

_UNKNOWN = -1


class Ngrams(NamedTuple):
    """The n-grams of one order in some sentences, in the order of the text."""

    # Each n-gram's id, from 0 on.
    ids: Integers
    # The number of the sentence that it stands in, from 0 on.
    sentences: Integers


class _Tokens(NamedTuple):
    """Sentences in one row."""

    # The id of each word, or _UNKNOWN.
    words: Integers
    # Of each word: the number of its sentence, and the place after that sentence's last word.
    sentences: Integers
    ends: Integers


class NgramIndex:
    """The n-grams of some sentences, numbered: the same n-gram has the same id wherever it stands.

    An n-gram is known by the id of its first n-1 words and by its last word; both together are one
    64-bit number. So no n-gram is ever a tuple of strings, and all are found by sorting.

    :param sentences: words; or strings, whose words are their characters.
    :param max_order: of the longest n-grams, at least 1.
    :ivar ngrams: those of the sentences, for each order from 1 to the highest.
    :ivar sizes: the number of different ones of each order.
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
        # Of each order from 2 on: the pairs that make its n-grams, rising; the place is the id.
        self._pairs: list[Integers] = []
        self.ngrams = self._extend(_tokens(words, sentences), self._learn)

    def find(self, sentences: Sequence[Sequence[str]]) -> list[Ngrams]:
        """Return those n-grams of other sentences that are known, for each order."""
        get = self._words.get
        words = [get(word, _UNKNOWN) for sentence in sentences for word in sentence]
        return self._extend(_tokens(words, sentences), self._look_up)

    def _extend(self, tokens: _Tokens, number: Callable[[int, Integers], Integers]) -> list[Ngrams]:
        """Return the n-grams of each order, made from those of the order below.

        :param number: gives the ids of pairs of an order, _UNKNOWN for some.
        """
        starts = np.flatnonzero(tokens.words != _UNKNOWN)
        ids = tokens.words[starts]
        found = [Ngrams(ids, tokens.sentences[starts])]
        for order in range(2, self._max_order + 1):
            inside = starts + (order - 1) < tokens.ends[starts]
            starts, ids = starts[inside], ids[inside]
            last = tokens.words[starts + (order - 1)]
            pairs = np.where(last == _UNKNOWN, _UNKNOWN, ids * self.sizes[0] + last)
            ids = number(order, pairs)
            known = ids != _UNKNOWN
            starts, ids = starts[known], ids[known]
            found.append(Ngrams(ids, tokens.sentences[starts]))
        return found

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
    """Return the place of each wanted number among rising ones, -1 where it is not there.

    >>> find_sorted(np.array([2, 5, 7]), np.array([7, 3, 2, 9])).tolist()
    [2, -1, 0, -1]
    """
    if not len(known):
        return np.full(len(wanted), _UNKNOWN)
    places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[places] == wanted, places, _UNKNOWN)


def count_ngrams(ngrams: Ngrams, size: int) -> tuple[Integers, Integers, Integers]:
    """Count how often each n-gram stands in each sentence.

    :param size: number of ids, as `NgramIndex.sizes` has it.
    :return: sentence, id and count, one of each for every n-gram in a sentence, in rising order.
    """
    keys, counts = np.unique(ngrams.sentences * size + ngrams.ids, return_counts=True)
    sentences, ids = np.divmod(keys, max(size, 1))
    return sentences, ids, counts.astype(np.int64, copy=False)
