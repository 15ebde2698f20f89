"""Score text with n-gram models, back off to them, and compare them.

ARPA files are read by :mod:`phrasescore.language_models.arpa`, and KenLM's binary files by
:mod:`phrasescore.language_models.kenlm_scorer`.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.kernel_cache import borrow
from phrasescore.language_models.arpa import read_arpa, read_arpa_counts
from phrasescore.language_models.kenlm_scorer import (
    LN_10,
    Flags,
    Floats,
    KenlmScorer,
    is_binary,
    natural_logs,
)
from phrasescore.language_models.ngram_table import (
    BEGIN,
    KERNEL,
    UNKNOWN,
    score_next,
    score_word,
)
from phrasescore.vocabulary import Vocabulary

# Maximum number of cached masses; an entry takes about 100 bytes.
_MASSES = 1_000_000


class ArpaScorer:
    """The n-gram model in an ARPA file; all logarithms are natural.

    Words are passed to `state` and `log_probs` as `number` returns them. A word that the model does
    not know has the probability of its ``<unk>``, or 10^-100 where it has no ``<unk>``. Several
    threads may share an instance.

    :ivar order: the number of words in the longest n-grams.
    """

    def __init__(self, path: str) -> None:
        words, self._tables = read_arpa(path)
        self._ids = {word: number for number, word in enumerate(words)}
        self.order, self._path = self._tables.order, path

    def __contains__(self, word: object) -> bool:
        """Return whether the model knows a word; it does not know ``<unk>``."""
        return isinstance(word, str) and self._ids.get(word, UNKNOWN) != UNKNOWN

    def number(self, words: Iterable[str]) -> NDArray[np.int32]:
        """Return words in the form that the model takes."""
        return np.array([self._ids.get(word, UNKNOWN) for word in words], np.int32)

    def score_words(self, sentences: Sequence[Sequence[str]]) -> tuple[Floats, Flags]:
        """Return log p of each word and ``</s>`` of each sentence, and whether it is unknown."""
        ids = self.number(chain.from_iterable((*words, "</s>") for words in sentences))
        log_probs, lengths = np.empty(len(ids)), np.array([*map(len, sentences)], np.int64)
        _score_sentences(self._tables, ids, lengths + 1, log_probs)
        return natural_logs(self._path, log_probs, sentences), ids == UNKNOWN

    def others(self, words: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the known words that are not in ``words``, with ``<unk>`` and without ``<s>``."""
        known = np.arange(len(self._tables.unigram_backoffs), dtype=np.int32)
        return np.setdiff1d(known, np.append(words, BEGIN)).astype(np.int32)

    def state(self, context: NDArray[np.int32], *, begins: bool) -> Hashable:
        """Return the state after a context; equal states give equal probabilities."""
        latest = np.full(self.order + 1, BEGIN, np.int32)
        length = _advance(self._tables, latest, int(begins), context)
        return tuple(latest[:length].tolist())

    def log_probs(self, state: Any, words: NDArray[np.int32]) -> Floats:
        """Return log p of each word after a state."""
        found = np.empty(len(words))
        _score_after(self._tables, np.array(state, np.int32), words, found)
        return found * LN_10


@KERNEL
def _score_sentences(tables, words, lengths, log_probs):  # type: ignore[no-untyped-def]
    tables, log_probs = borrow((tables, log_probs))
    context, size = np.zeros(tables.order + 1, np.int32), np.zeros(1, np.int64)
    start = 0
    for length in lengths:
        context[0], size[0] = BEGIN, 1
        for place in range(start, start + length):
            score_next(tables, context, size, words[place], log_probs[place : place + 1])
        start += length


@KERNEL
def _advance(tables, context, length, words):  # type: ignore[no-untyped-def]
    size, log_probs = np.full(1, length), np.empty(1)
    for word in words:
        score_next(tables, context, size, word, log_probs)
    return size[0]


@KERNEL
def _score_after(tables, context, words, log_probs):  # type: ignore[no-untyped-def]
    tables = borrow(tables)
    for place in range(len(words)):
        log_probs[place], _ = score_word(tables, 0, context, len(context), words[place])


NgramScorer = ArpaScorer | KenlmScorer


def load_ngrams(path: str) -> NgramScorer:
    """Load a model from an ARPA file, plain or compressed, or from build_binary's binary file."""
    return KenlmScorer(path) if is_binary(path) else ArpaScorer(path)


def read_ngram_order(path: str) -> int:
    """Return the order of a model, without loading an ARPA file."""
    return KenlmScorer(path).order if is_binary(path) else len(read_arpa_counts(path))


def sum_words(log_probs: Floats, sentences: Sequence[Sequence[str]]) -> Floats:
    """Return log p(words ``</s>`` | ``<s>``) of each sentence, from log p of all words."""
    owners = np.repeat(np.arange(len(sentences)), [1 + len(words) for words in sentences] or 0)
    # Adds one after another, so that a sum does not depend on the other sentences.
    return np.asarray(np.bincount(owners, log_probs, len(sentences)), np.float64)


class BackoffModel(ArpaScorer):
    """An n-gram model for the words outside a network's shortlist, for one thread at a time.

    Schwenk (2007), section 3.1. With S the shortlist and h the words before,

        p(w | h) = p_network(w | h) * P_S(h)   if w is in S,
        p(w | h) = p_ngram(w | h)              otherwise,
        P_S(h)   = sum over v in S of p_ngram(v | h).

    The network's probabilities are renormalized over S, so that the combination sums to one over
    the n-gram model's vocabulary with ``</s>`` and ``<unk>``. A word of the shortlist that the
    n-gram model does not know is not in S: both treat it as ``<unk>``.
    """

    def __init__(self, path: str, vocabulary: Vocabulary, order: int) -> None:
        super().__init__(path)
        if self.order > order:
            problem = f"expected a model of at most the network's order {order}"
            raise DataError(path, None, f"{problem}, found order {self.order}")
        words = [vocabulary.word(number) for number in range(len(vocabulary))]
        # The ids of S, ascending; </s> is the first.
        self.shortlist: NDArray[np.int32] = np.array(
            [Vocabulary.END]
            + [number for number in range(2, len(words)) if self.knows(words[number])],
            np.int32,
        )
        if len(self.shortlist) == 1:
            raise PhrasescoreError(f"{path}: the n-gram model knows no word of the shortlist")
        inside = super().number([words[number] for number in self.shortlist])
        outside = self.others(inside)
        # Sum over the smaller of the two sets.
        self._complement = len(outside) < len(inside)
        self._summed = outside if self._complement else inside
        self._masses: dict[Hashable, float] = {}

    def knows(self, word: str) -> bool:
        """Return whether a word is in the n-gram model's vocabulary."""
        return word not in ("<s>", "</s>") and word in self

    def number(self, words: Iterable[str]) -> NDArray[np.int32]:
        return super().number(word if self.knows(word) else "<unk>" for word in words)

    def log_mass(self, state: Hashable) -> float:
        """Return log P_S(h)."""
        mass = self._masses.get(state)
        if mass is None:
            if len(self._masses) >= _MASSES:
                self._masses.clear()
            with np.errstate(over="ignore"):
                total = math.fsum(np.exp(self.log_probs(state, self._summed)))
            mass = 1.0 - total if self._complement else total
            if not 0.0 < mass < 1.001:
                raise PhrasescoreError(
                    f"{self._path}: expected probabilities that sum to one, found {mass:g} for the "
                    "shortlist"
                )
            self._masses[state] = mass
        return min(math.log(mass), 0.0)


class CrossEntropyDifference:
    """H_in(s) - H_general(s) of monolingual sentences, by which training text is selected.

    Moore and Lewis (2010): an in-domain model predicts the best sentences well, compared to a model
    of general text. Axelrod et al. (2011) add the differences of both sides of parallel text.
    """

    def __init__(self, in_domain: str, general: str) -> None:
        self._models = load_ngrams(in_domain), load_ngrams(general)
        # The words that each model knows, by its path.
        self.known_words = dict(zip((in_domain, general), self._models, strict=True))

    def differences(self, sentences: Sequence[Sequence[str]]) -> Floats:
        """Return the difference of each sentence, in nats per token, which ``</s>`` is, too."""
        in_domain, general = (
            sum_words(model.score_words(sentences)[0], sentences) for model in self._models
        )
        values: Floats = (general - in_domain) / [len(words) + 1 for words in sentences]
        return values
