"""Selection from n-best lists with an oracle, which uses the references."""

import numpy as np

from tuning import metrics
from tuning.metrics import BleuScore, Statistics
from tuning.ngrams import Integers

MAX_ROUNDS = 100  # rounds of a climb, more than were ever needed; each round raises BLEU


def oracle_rows(statistics: Statistics, segments: Integers) -> Integers:
    """Choose a hypothesis per sentence so that corpus BLEU is high; return their rows.

    Corpus BLEU is not a sum over sentences, so the best choice cannot be found sentence by
    sentence. Instead, coordinate ascent visits the sentences in turn. It selects the hypothesis
    that gives the highest corpus score while all other sentences remain fixed, the earliest on
    ties, until a round changes nothing. One ascent starts from the first hypothesis in each list
    and another from the best smoothed sentence BLEU; the better result is returned. It is a lower
    bound on the optimum. On lists small enough for exhaustive search, it is usually the optimum.

    :param segments: the segment of each hypothesis, in ascending order.
    """
    begins = np.flatnonzero(np.diff(segments, prepend=segments[0] - 1))
    ends = np.append(begins[1:], len(segments))
    smoothed = metrics.sentence_bleu(statistics)
    best = [
        begin + int(smoothed[begin:end].argmax()) for begin, end in zip(begins, ends, strict=True)
    ]
    climbs = [_climb(statistics, begins, ends, start) for start in (begins, np.array(best))]
    return max(climbs, key=lambda chosen: BleuScore.of(statistics[chosen].sum(axis=0)).bleu)


def _climb(statistics: Statistics, begins: Integers, ends: Integers, start: Integers) -> Integers:
    chosen = start.copy()
    total = statistics[chosen].sum(axis=0)
    for _ in range(MAX_ROUNDS):
        changed = False
        for segment, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            others = total - statistics[chosen[segment]]
            sums = others + statistics[begin:end]
            scores = metrics.bleu(sums)
            if not scores.any():  # so that the ascent can get away from 0
                scores = metrics.sentence_bleu(sums) - 1.0
            better = begin + int(scores.argmax())
            if scores[better - begin] > scores[chosen[segment] - begin]:
                chosen[segment] = better
                total = others + statistics[better]
                changed = True
        if not changed:
            break
    return chosen
