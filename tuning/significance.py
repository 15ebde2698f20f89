"""Test whether a difference between two systems, each tuned several times, is due to chance.

Approximate randomization (Riezler and Maxwell, 2005) over sentences. The score of a system is the
mean of its replicas' scores, as Clark et al. (2011) advise. A sentence's translations are exchanged
in all replicas together. Translations with weights of two seeds are much alike, so separate
exchanges would count them as independent sentences.
"""

import numpy as np

from tuning.metric import Metric, Statistics

# Draws that are summed at once.
_BATCH = 250


def randomization_p_value(
    metric: Metric, baseline: Statistics, system: Statistics, *, trials: int, seed: int
) -> float:
    """Return how often chance alone would make a difference this large, in either direction.

    This is (r + 1) / (trials + 1), where r draws have a difference that is not smaller.

    :param baseline: (replicas, sentences, num_stats).
    :param system: likewise; the number of replicas may differ.
    """
    if baseline.shape[1:] != system.shape[1:]:
        raise ValueError(f"expected the same sentences, got {baseline.shape}, {system.shape}")
    if len(baseline) != len(system):
        # Repeat each replica, so that both systems have the same number.
        repeated = np.lcm(len(baseline), len(system))
        baseline, system = (
            np.repeat(stats, repeated // len(stats), axis=0) for stats in (baseline, system)
        )
    totals = [stats.sum(axis=1) for stats in (baseline, system)]  # (replicas, num_stats)
    difference = system - baseline  # (replicas, sentences, num_stats)
    observed = abs(_mean_score(metric, totals[1]) - _mean_score(metric, totals[0]))
    numbers = np.random.default_rng(seed)
    as_large = 0
    for start in range(0, trials, _BATCH):
        draws = min(_BATCH, trials - start)
        exchanged = numbers.random((draws, difference.shape[1])) < 0.5
        # Statistics are integers in float64, so sums are exact in any order.
        moved = np.einsum("ds,rsk->drk", exchanged.astype(np.float64), difference, optimize=True)
        drawn = _mean_score(metric, totals[1] - moved) - _mean_score(metric, totals[0] + moved)
        as_large += int((np.abs(drawn) >= observed).sum())
    return (as_large + 1) / (trials + 1)


def _mean_score(metric: Metric, totals: Statistics) -> Statistics:
    """Return the mean over replicas of the scores of (..., replicas, num_stats)."""
    return np.asarray(metric.score(totals).mean(axis=-1))
