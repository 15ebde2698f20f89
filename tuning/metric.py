"""Metrics as the tuner sees them: a function of statistics that add up over a corpus."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Statistics = NDArray[np.float64]


class Metric(Protocol):
    """A function of summed statistics that a method of tuning raises.

    Adding one: a class with these three names, and `statistics` for `ReferenceMetric`.
    """

    @property
    def name(self) -> str:
        """As a report names it: ``BLEU``."""
        ...

    @property
    def num_stats(self) -> int:
        """The number of statistics of a hypothesis."""
        ...

    def score(self, sums: Statistics) -> Statistics:
        """Return the score of a corpus, 0 to 1, more is better, of each sum of statistics.

        :param sums: (..., num_stats).
        :return: (...).
        """
        ...


class ReferenceMetric(Metric, Protocol):
    """A metric that knows the references, and so makes the statistics of hypotheses."""

    def statistics(
        self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int]
    ) -> Statistics:
        """Return the statistics of each hypothesis: (hypotheses, num_stats).

        :param hypotheses: words.
        :param segments: the number of each one's segment, from 0 on, in any order.
        """
        ...


class Interpolated:
    """A weighted mean of metrics, itself a metric: their statistics side by side.

    :param metrics: one at least.
    :param weights: of each, above 0; only their ratios count.
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
        """The sum of those of the metrics."""
        return int(self._ends[-1])

    def statistics(
        self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int]
    ) -> Statistics:
        """Return the statistics of all metrics side by side: (hypotheses, num_stats)."""
        found = [metric.statistics(hypotheses, segments) for metric in self._metrics]
        return np.concatenate(found, axis=1)

    def score(self, sums: Statistics) -> Statistics:
        """Return the weighted mean of the metrics' scores."""
        parts = np.split(sums, self._ends[:-1], axis=-1)
        total = np.zeros(sums.shape[:-1])
        for share, metric, part in zip(self._shares, self._metrics, parts, strict=True):
            total += share * metric.score(part)
        return total
