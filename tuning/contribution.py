"""How each feature contributes to the choice of hypotheses."""

from typing import NamedTuple

import numpy as np

from tuning.metric import Metric
from tuning.pool import Pool, Vector


class Contribution(NamedTuple):
    """The contribution of a feature value on a pool."""

    # Weight times standard deviation inside segments: how much it moves model scores; signed.
    contribution: float
    # Its size in parts of the sum of all features'; 0 if nothing contributes.
    share: float
    # The metric with this weight at 0 and all others as they are, 0 to 1.
    score_without: float


def measure_contributions(pool: Pool, metric: Metric, weights: Vector) -> tuple[Contribution, ...]:
    """Return each feature's contribution, in the order of the pool.

    Where the score without a feature is higher than with it, its weight does harm.
    """
    amounts = weights * pool.deviations()
    total = float(np.abs(amounts).sum()) or 1.0
    found = []
    for place, amount in enumerate(amounts.tolist()):
        others = weights.copy()
        others[place] = 0.0
        found.append(Contribution(amount, abs(amount) / total, pool.score(metric, others)))
    return tuple(found)
