"""Several runs of a method with other seeds: how much of a result is luck, and their average.

Clark et al. (2011), Better Hypothesis Testing for Statistical Machine Translation: Controlling for
Optimizer Instability. The average of weights is mostly as good as the best, and steadier.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuning.methods import Tuned
from tuning.metric import Metric
from tuning.pool import Pool, Vector


@dataclass(frozen=True, eq=False)
class Replicas:
    """The runs of a method, and what they have in common. Scores are on the pool, 0 to 1."""

    # In the order of the seeds.
    tuned: tuple[Tuned, ...]
    mean: float
    # Of the sample, divided by runs - 1; 0 for a single run.
    deviation: float
    lowest: float
    highest: float
    # The mean of the weights, (features,), and its own score.
    average: Vector
    average_score: float


def summarise(tuned: Sequence[Tuned], pool: Pool, metric: Metric) -> Replicas:
    """Return what runs on a pool have in common; their weights are of one scale."""
    scores = np.array([run.score for run in tuned])
    average = np.mean([run.weights for run in tuned], axis=0)
    return Replicas(
        tuned=tuple(tuned),
        mean=float(scores.mean()),
        deviation=float(scores.std(ddof=1)) if len(scores) > 1 else 0.0,
        lowest=float(scores.min()),
        highest=float(scores.max()),
        average=average,
        average_score=pool.score(metric, average),
    )
