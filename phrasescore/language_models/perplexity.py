"""How well language models predict a text: perplexities, and of a mixture of two models.

Every model here predicts the same events: each word of each sentence and its ``</s>``. A word that
is unknown to a model is its ``<unk>``; a perplexity tells how it was counted.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from phrasescore.language_models.kenlm_model import LN_10, plain_word, score_words
from phrasescore.language_models.word_scorer import BOUNDARY, WordScorer
from phrasescore.records import to_words
from phrasescore.scoring.word_pieces import sum_parts

if TYPE_CHECKING:
    import kenlm

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Sentences that are scored together.
_SENTENCES = 1024
# How near a mixture's weight is to the best one.
_NEAR = 1e-9


class TextScores(NamedTuple):
    """The log-probabilities of a text under a model, event by event."""

    # Natural logarithms of the probabilities of the words and ``</s>``, in their order.
    log_probs: Floats
    # Whether the event is a word that the model does not know.
    unknown: Flags


@dataclass(frozen=True, slots=True)
class Perplexity:
    """Perplexities of a text, with the numbers that KenLM's ``query`` prints."""

    # Words and ``</s>``.
    tokens: int
    # Words that the model does not know.
    unknown: int
    # exp of the mean of -log p: of all tokens, and of those that are known.
    including_unknown: float
    excluding_unknown: float


def measure(scores: TextScores) -> Perplexity:
    """Return the perplexities of a text of at least one token.

    Where no token is known, the one without unknown words is NaN, as KenLM's.
    """
    known = scores.log_probs[~scores.unknown]
    return Perplexity(
        tokens=len(scores.log_probs),
        unknown=int(scores.unknown.sum()),
        including_unknown=_perplexity(scores.log_probs),
        excluding_unknown=_perplexity(known) if len(known) else math.nan,
    )


def _perplexity(log_probs: Floats) -> float:
    # Weights of a damaged model, which are numbers still, give what no float holds.
    return math.exp(min(-log_probs.mean(), 700.0))


def mixture(first: Floats, second: Floats, weight: float) -> Floats:
    """Return log(weight p1 + (1 - weight) p2) of each event.

    :param weight: from 0 to 1.
    """
    with np.errstate(divide="ignore"):
        parts = np.log([weight, 1.0 - weight])
    mixed: Floats = np.logaddexp(first + parts[0], second + parts[1])
    return mixed


def mixture_weight(first: Floats, second: Floats) -> float:
    """Return the weight of the first model under which a text is most probable, from 0 to 1.

    The log-probability is a concave function of the weight: its maximum is where its slope is 0, or
    at an end.

    :param first: log p of each event of the text under the first model.
    """
    odds = second - first

    def slope(weight: float) -> float:
        # With s the first model's share p1 w / (p1 w + p2 (1 - w)), found without overflow.
        shares = np.exp(-np.logaddexp(0.0, odds + math.log1p(-weight) - math.log(weight)))
        return float((shares / weight - (1 - shares) / (1 - weight)).mean())

    if slope(_NEAR) <= 0:
        return 0.0
    if slope(1 - _NEAR) >= 0:
        return 1.0
    return float(brentq(slope, _NEAR, 1 - _NEAR, xtol=_NEAR))


def score_with_network(scorer: WordScorer, sentences: Iterable[Sequence[str]]) -> TextScores:
    """Return the scores of a text under a network, with or without an n-gram model behind it.

    Unknown are the words outside its shortlist, or with an n-gram model those outside the latter's
    vocabulary: the same words, then, as :func:`score_with_kenlm` counts. Of subwords, log p of a
    word is the sum over its pieces, and a word with a new character is unknown.
    """
    log_probs, unknown = [np.zeros(0)], [np.zeros(0, dtype=bool)]
    iterator = map(to_words, sentences)
    while part := list(islice(iterator, _SENTENCES)):
        numbers: dict[str, int] = {}
        text, starts = [], []
        sizes: list[int] = []  # pieces of each word, and of </s>
        for words in part:
            text += [BOUNDARY] * (scorer.order - 1)
            split = scorer.vocabulary.split(words)
            sizes += [*map(len, split), 1]
            pieces = list(chain.from_iterable(split))
            starts.append(np.arange(len(text), len(text) + len(pieces) + 1))
            text += [numbers.setdefault(piece, len(numbers)) for piece in pieces]
            text.append(BOUNDARY)
        numbering = scorer.number(list(numbers))
        at, line = np.concatenate(starts), np.array(text, dtype=np.int32)
        contexts = line[at[:, None] + np.arange(1 - scorer.order, 0)]
        lengths = np.array(sizes)
        log_probs.append(sum_parts(scorer.log_probs(numbering, contexts, line[at]), lengths))
        unknown.append(sum_parts(scorer.is_unknown(numbering)[line[at]], lengths) > 0)
    return TextScores(np.concatenate(log_probs), np.concatenate(unknown))


def score_with_kenlm(model: "kenlm.Model", sentences: Iterable[Sequence[str]]) -> TextScores:
    """Return the scores of a text under an n-gram model: of words after ``<s>``, and ``</s>``."""
    found = [
        score
        for words in map(to_words, sentences)
        for score in score_words(model, [plain_word(word) for word in words])
    ]
    return TextScores(
        np.array([log_10 for log_10, _ in found], dtype=np.float64) * LN_10,
        np.array([is_unknown for _, is_unknown in found], dtype=bool),
    )
