"""Measure how well language models predict text: perplexities.

All models predict the same events: each word of each sentence and its ``</s>``. A word that a model
does not know is scored as its ``<unk>``; a perplexity includes or excludes such words.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from phrasescore.language_models.ngram_scorer import NgramScorer
    from phrasescore.language_models.word_scorer import WordScorer

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Number of sentences that are scored together.
_SENTENCES = 1024


class TextScores(NamedTuple):
    """The log-probabilities of a text under a model, one per event."""

    # Natural logarithms.
    log_probs: Floats
    # Whether the event is a word that the model does not know.
    unknown: Flags


@dataclass(frozen=True, slots=True)
class Perplexity:
    """Perplexities of a text, with the numbers that KenLM's ``query`` prints."""

    # Number of words and ``</s>``.
    tokens: int
    # Number of words that the model does not know.
    unknown: int
    # exp(mean of -log p) over all tokens, and over the known tokens.
    including_unknown: float
    excluding_unknown: float


def measure(scores: TextScores) -> Perplexity:
    """Return the perplexities of a text with at least one token.

    If no token is known, ``excluding_unknown`` is NaN, as in KenLM.
    """
    known = scores.log_probs[~scores.unknown]
    return Perplexity(
        tokens=len(scores.log_probs),
        unknown=int(scores.unknown.sum()),
        including_unknown=_perplexity(scores.log_probs),
        excluding_unknown=_perplexity(known) if len(known) else math.nan,
    )


def _perplexity(log_probs: Floats) -> float:
    # The finite weights of a damaged model can give a perplexity that overflows.
    return math.exp(min(-log_probs.mean(), 700.0))


def score_with_network(scorer: "WordScorer", sentences: Iterable[Sequence[str]]) -> TextScores:
    """Return the scores of a text under a network, which may back off to an n-gram model.

    Words outside its shortlist are unknown. With an n-gram model, words outside that model's
    vocabulary are unknown instead, as in :func:`score_with_ngrams`. With subwords, log p of a word
    is the sum over its pieces, and a word with a new character is unknown.
    """
    from phrasescore.language_models.word_scorer import BOUNDARY  # imports torch
    from phrasescore.scoring.tree_scorer import sum_parts

    log_probs, unknown = [np.zeros(0)], [np.zeros(0, dtype=bool)]
    iterator = iter(sentences)
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


def score_with_ngrams(model: "NgramScorer", sentences: Iterable[Sequence[str]]) -> TextScores:
    """Return the scores of a text under an n-gram model."""
    iterator = iter(sentences)
    parts = [TextScores(np.zeros(0), np.zeros(0, dtype=bool))]
    while part := list(islice(iterator, _SENTENCES)):
        parts.append(TextScores(*model.score_words(part)))
    return TextScores(*map(np.concatenate, zip(*parts, strict=True)))
