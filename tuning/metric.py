"""Metrics as functions of statistics that add up over a corpus."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Statistics = NDArray[np.float64]


class Metric(Protocol):
    """A function of summed statistics that tuning maximises."""

    @property
    def name(self) -> str:
        """The name in reports, such as ``BLEU``."""

    @property
    def num_stats(self) -> int:
        """The number of statistics per hypothesis."""

    def score(self, sums: Statistics) -> Statistics:
        """Return the score of sums (..., num_stats), 0 to 1, higher is better: (...)."""


class ReferenceMetric(Metric, Protocol):
    """A metric that knows the references, and so computes the statistics of hypotheses."""

    def statistics(
        self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int]
    ) -> Statistics:
        """Return the statistics of each hypothesis: (hypotheses, num_stats).

        :param segments: the 0-based segment of each hypothesis, in any order.
        """


class Interpolated:
    """A weighted mean of metrics, with their statistics side by side.

    :param weights: one per metric, above 0; only their ratios matter.
    """

    def __init__(self, metrics: Sequence[ReferenceMetric], weights: Sequence[float]) -> None:
        shares = np.array(weights, np.float64)
        self._metrics = tuple(metrics)
        self._shares = shares / shares.sum()
        self._ends = np.cumsum([metric.num_stats for metric in metrics])

    @property
    def name(self) -> str:
        """The metrics with their shares: ``0.5 BLEU + 0.5 chrF2``."""
        parts = zip(self._shares, self._metrics, strict=True)
        return " + ".join(f"{share:.3g} {metric.name}" for share, metric in parts)

    @property
    def num_stats(self) -> int:
        """See `Metric.num_stats`."""
        return int(self._ends[-1])

    def statistics(
        self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int]
    ) -> Statistics:
        """See `ReferenceMetric.statistics`."""
        stats = [metric.statistics(hypotheses, segments) for metric in self._metrics]
        return np.concatenate(stats, axis=1)

    def score(self, sums: Statistics) -> Statistics:
        """See `Metric.score`."""
        parts = np.split(sums, self._ends[:-1], axis=-1)
        total = np.zeros(sums.shape[:-1])
        for share, metric, part in zip(self._shares, self._metrics, parts, strict=True):
            total += share * metric.score(part)
        return total
