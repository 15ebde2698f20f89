"""The best BLEU that a choice from n-best lists can reach: an oracle, by hill climbing.

Corpus BLEU is no sum over sentences, so the best choice cannot be found sentence by sentence. The
climb takes one sentence after the other, gives it the hypothesis with which the whole corpus scores
highest while all others stay, and goes on until a whole round changes nothing. The result is a
lower bound of the true optimum; on lists small enough to try every choice it mostly is the optimum.
"""

from typing import NamedTuple

import numpy as np

from tuning.bleu import BleuScore, bleu, sentence_bleu
from tuning.metric import Statistics
from tuning.ngrams import Integers

# More rounds than any climb has needed; each round that goes on has raised BLEU.
MAX_ROUNDS = 100


class Oracle(NamedTuple):
    """A choice of one hypothesis per sentence."""

    # Place in the statistics of each sentence's hypothesis.
    chosen: Integers
    score: BleuScore


def oracle_bleu(statistics: Statistics, segments: Integers) -> Oracle:
    """Choose hypotheses so that corpus BLEU against the references is high.

    Deterministic: starts are the first hypothesis of each list and the one with the best smoothed
    sentence BLEU; the better end counts. Of equally good hypotheses the earliest is taken.

    :param statistics: as `Bleu.statistics` gives them, (hypotheses, NUM_STATISTICS).
    :param segments: of each hypothesis; rising, each list in one piece.
    """
    if not len(segments):
        raise ValueError("expected at least one hypothesis")
    begins = np.flatnonzero(np.diff(segments, prepend=segments[0] - 1))
    ends = np.append(begins[1:], len(segments))
    smoothed = sentence_bleu(statistics)
    best = [
        begin + int(smoothed[begin:end].argmax()) for begin, end in zip(begins, ends, strict=True)
    ]
    climbs = [_climb(statistics, begins, ends, start) for start in (begins, np.array(best))]
    return max(climbs, key=lambda oracle: oracle.score.bleu)


def _climb(statistics: Statistics, begins: Integers, ends: Integers, start: Integers) -> Oracle:
    chosen = start.copy()
    total = statistics[chosen].sum(axis=0)
    for _ in range(MAX_ROUNDS):
        changed = False
        for place, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            others = total - statistics[chosen[place]]
            scores = _climbing_score(others + statistics[begin:end])
            better = begin + int(scores.argmax())
            if scores[better - begin] > scores[chosen[place] - begin]:
                chosen[place] = better
                total = others + statistics[better]
                changed = True
        if not changed:
            break
    return Oracle(chosen, BleuScore.of(total))


def _climbing_score(sums: Statistics) -> Statistics:
    """Return BLEU, and below every BLEU above 0 a smoothed one: so a climb can leave 0."""
    scores = bleu(sums)
    if scores.any():
        return scores
    return sentence_bleu(sums) - 1.0
