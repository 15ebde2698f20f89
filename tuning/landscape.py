"""A pool as the search of weights sees it: standardised features, and the metric over them.

A feature's unit is its standard deviation inside the segments, so that a step of 1 along any axis
changes choices about as much. Weights in these units are the user's times the deviations.
"""

from typing import Any

import numba
import numpy as np

from tuning.line_search import Profile, metric_along
from tuning.metric import Metric
from tuning.pool import Matrix, Pool, Vector

# Rows whose scores are summed up at a time: so many stay in the processor's cache.
_ROWS = 1024


class Landscape:
    """Model scores, and the metric along lines, for weights in units of the features' deviations.

    :ivar units: (features,): the deviation of each feature; above 0.
    """

    def __init__(self, pool: Pool, metric: Metric) -> None:
        self.pool = pool
        self.metric = metric
        self.units: Vector = pool.deviations()
        # (features, hypotheses): a search along an axis reads one feature of all hypotheses.
        self._columns: Matrix = _standardise(pool.features, self.units)

    def scores(self, weights: Vector) -> Vector:
        """Return the model scores: (hypotheses,).

        Along an axis they are the feature itself, which is not copied.
        """
        (used,) = np.nonzero(weights)
        if len(used) == 1 and weights[used[0]] == 1.0:
            return np.asarray(self._columns[used[0]])
        found: Vector = _combine(self._columns, weights)
        return found

    def metric_along(self, scores: Vector, slopes: Vector, limit: float) -> Profile:
        """Return the metric along a line: see `tuning.line_search`."""
        pool = self.pool
        return metric_along(slopes, scores, pool.stats, pool.starts, self.metric, limit)

    def metric_at(self, scores: Vector) -> float:
        """Return the metric of the hypotheses with the highest scores."""
        best = self.pool.highest(scores)
        return float(self.metric.score(self.pool.stats[best].sum(axis=0)))


_KERNEL = numba.njit(nogil=True, cache=True, error_model="numpy")


@_KERNEL
def _standardise(features: Any, units: Any) -> Any:
    """Return features / units, turned on their side."""
    columns = np.empty((len(units), len(features)))
    for begin in range(0, len(features), _ROWS):
        part = features[begin : begin + _ROWS]
        for feature in range(len(units)):
            column = columns[feature, begin : begin + _ROWS]
            for row in range(len(column)):
                column[row] = part[row, feature] / units[feature]
    return columns


@_KERNEL
def _combine(columns: Any, weights: Any) -> Any:
    """Return weights @ columns, each number summed in the same order."""
    scores = np.zeros(columns.shape[1])
    for begin in range(0, len(scores), _ROWS):
        part = scores[begin : begin + _ROWS]
        for feature in range(len(weights)):
            weight = weights[feature]
            if weight != 0.0:
                column = columns[feature, begin : begin + _ROWS]
                for row in range(len(part)):
                    part[row] += weight * column[row]
    return scores
