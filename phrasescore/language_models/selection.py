"""Choose training text that is like some other text, by the difference of two cross-entropies.

Moore and Lewis (2010): a sentence is worth more the better a model of the wanted domain predicts
it, and the worse one of the text at large does. Axelrod et al. (2011) add up both sides of parallel
text. The lower a difference, the better.
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
    """Cross-entropies of some sentences, in-domain minus general."""

    # Nats per token, in the order of the sentences.
    values: Floats
    # Words and ends of sentences.
    tokens: int
    # Words that one of the models knows and the other one does not.
    known_to_one: int


class CrossEntropyDifference:
    """H_in(s) - H_general(s) of sentences of one language, in nats per token.

    Each word and ``</s>`` is a token; an unknown word has the probability of ``<unk>``, which
    covers different words in models with different vocabularies: see ``known_to_one``.

    :param in_domain: an n-gram model of the wanted domain: ARPA, plain or ``.gz``, or KenLM's
        binary of one.
    :param general: an n-gram model of the text that is chosen from.
    :raises DataError: if a file is no such model.
    """

    def __init__(self, in_domain: str, general: str) -> None:
        self._in_domain, self._general = load_kenlm(in_domain), load_kenlm(general)
        # The words that each model knows, by its path.
        self.known_words = {in_domain: self._in_domain, general: self._general}
        # Of the words so far, whether only one model knows them.
        self._differs: dict[str, bool] = {}

    def differences(self, sentences: Iterable[Sequence[str]]) -> Differences:
        """Return the difference of each sentence; one without words is its ``</s>`` alone."""
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
    """Return flags of the best sentences; of equal ones the earlier is better.

    :param values: differences; the lowest are the best.
    :param count: how many to choose, at most all.

    >>> choose_best(np.array([0.5, -1.0, 0.5, 0.0]), 3).tolist()
    [True, True, False, True]
    """
    chosen = np.zeros(len(values), dtype=bool)
    chosen[np.argsort(values, kind="stable")[:count]] = True
    return chosen


def draw(total: int, count: int, seed: int) -> Flags:
    """Return flags of sentences drawn without replacement: a selection has to beat them."""
    chosen = np.zeros(total, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(total)[:count]] = True
    return chosen
