"""The rows of a report of tuning that come from a pool of hypotheses."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from phrasescore.report.tuning import FeatureRow
from tuning.metric import Metric
from tuning.pool import Pool, Vector


def feature_rows(
    pool: Pool, start: Vector, found: Vector, search: Sequence[float | None] | None = None
) -> tuple[FeatureRow, ...]:
    """Return the row of each feature value of a pool.

    :param search: the weight of each that decodes, where there are two sets of weights.
    """
    names = [str(label) for label in pool.labels]
    rows = zip(names, start.tolist(), found.tolist(), search or [None] * len(names), strict=True)
    return tuple(FeatureRow(*row) for row in rows)


def with_contributions(
    rows: Sequence[FeatureRow], pool: Pool, metric: Metric, found: Vector
) -> tuple[FeatureRow, ...]:
    """Return the rows with the contribution of each feature value, which takes time."""
    amounts = found * pool.deviations()
    total = float(np.abs(amounts).sum()) or 1.0
    made = []
    for place, (row, amount) in enumerate(zip(rows, amounts.tolist(), strict=True)):
        others = found.copy()
        others[place] = 0.0
        left_out = 100 * pool.score(metric, others)
        made.append(replace(row, contribution=amount, share=abs(amount) / total, left_out=left_out))
    return tuple(made)
