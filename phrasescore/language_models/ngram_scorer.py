"""Score text with n-gram models, and compare them."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import DataError
from phrasescore.io.hashing import find, hash_word
from phrasescore.io.text import is_stream
from phrasescore.language_models.arpa import read_arpa_vocabulary
from phrasescore.language_models.ngram_table import (
    BEGIN,
    KERNEL,
    LN_10,
    UNKNOWN,
    score_next,
)

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class _WordIds(dict[str, int]):
    """The ids of the words that were looked up."""

    def __init__(self, vocabulary: Any) -> None:
        self._vocabulary = vocabulary

    def __missing__(self, word: str) -> int:
        text = np.frombuffer(word.encode() + b"\n", np.uint8)
        found: int = _find_word(self._vocabulary, text)
        self[word] = found
        return found


@KERNEL
def _find_word(vocabulary, text):  # type: ignore[no-untyped-def]
    """Return the id of a word, given with a newline after it."""
    slot = find(vocabulary, hash_word(text, 0, len(text) - 1))
    return UNKNOWN if slot < 0 else np.int64(vocabulary[slot, 1])


class NgramScorer:
    """The n-gram model in an ARPA file; all logarithms are natural.

    A word that the model does not know has the probability of its ``<unk>``, or 10^-100 where it
    has no ``<unk>``. Several threads may share an instance.

    :ivar order: the number of words in the longest n-grams.
    """

    def __init__(self, path: str) -> None:
        vocabulary, self._tables = read_arpa_vocabulary(path)
        self._ids, self.order = _WordIds(vocabulary), self._tables.order

    def __contains__(self, word: object) -> bool:
        """Return whether the model knows a word; it does not know ``<unk>``."""
        return isinstance(word, str) and self._ids[word] != UNKNOWN

    def score_words(self, sentences: Sequence[Sequence[str]]) -> tuple[Floats, Flags]:
        """Return log p of each word and ``</s>`` of each sentence, and whether it is unknown."""
        words = chain.from_iterable((*sentence, "</s>") for sentence in sentences)
        ids = np.array([*map(self._ids.__getitem__, words)], np.int32)
        log_probs, lengths = np.empty(len(ids)), np.array([*map(len, sentences)], np.int64)
        _score_sentences(self._tables, ids, lengths + 1, log_probs)
        return log_probs * LN_10, ids == UNKNOWN


@KERNEL
def _score_sentences(tables, words, lengths, log_probs):  # type: ignore[no-untyped-def]
    context, size = np.zeros(tables.order + 1, np.int32), np.zeros(1, np.int64)
    start = 0
    for length in lengths:
        context[0], size[0] = BEGIN, 1
        for place in range(start, start + length):
            score_next(tables, context, size, words[place], log_probs[place : place + 1])
        start += length


def load_ngrams(path: str) -> NgramScorer:
    """Load a model from an ARPA file, plain or compressed; a stream is an error."""
    if is_stream(path):  # which could not be read again for its digest
        raise DataError(path, None, "expected a file, as it is read twice")
    return NgramScorer(path)


def score_sentences(model: NgramScorer, sentences: Sequence[Sequence[str]]) -> tuple[Floats, Flags]:
    """Return log p(words ``</s>`` | ``<s>``) of each sentence, and which words are unknown."""
    log_probs, unknown = model.score_words(sentences)
    owners = np.repeat(np.arange(len(sentences)), [1 + len(words) for words in sentences] or 0)
    # Adds one after another, so that a sum does not depend on the other sentences.
    return np.asarray(np.bincount(owners, log_probs, len(sentences)), np.float64), unknown


class Differences(NamedTuple):
    """Cross-entropies of sentences, in-domain minus general, in nats per token."""

    values: Floats
    # Number of words and ends of sentences.
    tokens: int
    # Number of words that only one of the two models knows.
    known_to_one: int


class CrossEntropyDifference:
    """H_in(s) - H_general(s) of monolingual sentences, by which training text is selected.

    Moore and Lewis (2010): an in-domain model predicts the best sentences well, compared to a model
    of general text. Axelrod et al. (2011) add the differences of both sides of parallel text. If
    the vocabularies differ, ``<unk>`` stands for different words: see ``known_to_one``.
    """

    def __init__(self, in_domain: str, general: str) -> None:
        self._models = load_ngrams(in_domain), load_ngrams(general)
        # The words that each model knows, by its path.
        self.known_words = dict(zip((in_domain, general), self._models, strict=True))

    def differences(self, sentences: Sequence[Sequence[str]]) -> Differences:
        """Return the difference of each sentence; an empty sentence is a single ``</s>``."""
        (in_domain, one), (general, other) = (
            score_sentences(model, sentences) for model in self._models
        )
        lengths = np.array([len(words) + 1 for words in sentences])
        values = (general - in_domain) / lengths
        return Differences(values, int(lengths.sum()), int((one != other).sum()))
