"""Select training text that resembles another text, by the difference of two cross-entropies.

Moore and Lewis (2010): the best sentences are those that a model of the wanted domain predicts
well, compared to a model of general text. Axelrod et al. (2011) add up both sides of parallel text.
Lower differences are better.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.language_models.kenlm_model import (
    LN_10,
    load_kenlm,
    plain_word,
    score_sentence,
)

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Differences(NamedTuple):
    """Cross-entropies of sentences, in-domain minus general, in nats per token.

    :ivar tokens: number of words and ends of sentences.
    :ivar known_to_one: number of words that only one of the models knows.
    """

    values: Floats
    tokens: int
    known_to_one: int


class CrossEntropyDifference:
    """H_in(s) - H_general(s) of sentences of one language, in nats per token.

    Each word and ``</s>`` is a token. An unknown word gets the probability of ``<unk>``, which
    covers different words in models with different vocabularies: see ``known_to_one``.
    """

    def __init__(self, in_domain: str, general: str) -> None:
        self._in_domain, self._general = load_kenlm(in_domain), load_kenlm(general)
        # The words that each model knows, by its path.
        self.known_words = {in_domain: self._in_domain, general: self._general}
        # For each word so far, whether only one model knows it.
        self._differs: dict[str, bool] = {}

    def differences(self, sentences: Iterable[Sequence[str]]) -> Differences:
        """Return the difference of each sentence; an empty sentence is a single ``</s>``."""
        in_domain, general, differs = self._in_domain, self._general, self._differs
        values, tokens, known_to_one = [], 0, 0
        for sentence in sentences:
            words = [plain_word(word) for word in sentence]
            length = len(words) + 1
            difference = score_sentence(general, words) - score_sentence(in_domain, words)
            values.append(difference / length)
            tokens += length
            for word in words:
                differing = differs.get(word)
                if differing is None:
                    differing = differs[word] = (word in in_domain) != (word in general)
                known_to_one += differing
        return Differences(np.array(values) * LN_10, tokens, known_to_one)


def choose_best(values: Floats, count: int) -> Flags:
    """Return flags of the ``count`` sentences with the lowest values; ties go to the earlier one.

    >>> choose_best(np.array([0.5, -1.0, 0.5, 0.0]), 3).tolist()
    [True, True, False, True]
    """
    chosen = np.zeros(len(values), dtype=bool)
    chosen[np.argsort(values, kind="stable")[:count]] = True
    return chosen


def draw(total: int, count: int, seed: int) -> Flags:
    """Return flags of sentences drawn without replacement, as a baseline for a selection."""
    chosen = np.zeros(total, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(total)[:count]] = True
    return chosen
