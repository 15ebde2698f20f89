"""The best BLEU that a choice from n-best lists can reach: an oracle, by hill climbing.

Corpus BLEU is not a sum over sentences, so the best choice cannot be found sentence by sentence.
The climb visits the sentences in turn and gives each the hypothesis with which the whole corpus
scores highest while all others stay, until a whole round changes nothing. The result is a lower
bound of the optimum. On lists small enough for trying every choice, it mostly is the optimum.
"""

from typing import NamedTuple

import numpy as np

from tuning.bleu import BleuScore, bleu, sentence_bleu
from tuning.metric import Statistics
from tuning.ngrams import Integers

# More rounds than any climb has needed; each round raises BLEU.
MAX_ROUNDS = 100


class Oracle(NamedTuple):
    """A choice of one hypothesis per sentence."""

    # The row of each sentence's hypothesis in the statistics.
    chosen: Integers
    score: BleuScore


def oracle_bleu(statistics: Statistics, segments: Integers) -> Oracle:
    """Choose hypotheses so that corpus BLEU against the references is high.

    Deterministic: it climbs from the first hypothesis of each list and from the best smoothed
    sentence BLEU, and returns the better end. The earliest of equally good hypotheses is taken.

    :param segments: of each hypothesis, rising.
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
        for segment, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            others = total - statistics[chosen[segment]]
            scores = _climbing_score(others + statistics[begin:end])
            better = begin + int(scores.argmax())
            if scores[better - begin] > scores[chosen[segment] - begin]:
                chosen[segment] = better
                total = others + statistics[better]
                changed = True
        if not changed:
            break
    return Oracle(chosen, BleuScore.of(total))


def _climbing_score(sums: Statistics) -> Statistics:
    """Return BLEU, or smoothed BLEU minus 1 if all are 0, so that a climb can leave 0."""
    scores = bleu(sums)
    if scores.any():
        return scores
    return sentence_bleu(sums) - 1.0
