"""Metrics of other packages (plug-ins), whose return values are checked."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from phrasescore.arguments import MetricName
from phrasescore.errors import PluginError
from phrasescore.plugins import Plugin, find_plugin, find_plugins, shown_error

Values = NDArray[np.float64]

_logger = logging.getLogger(__name__)

# Names of phrasescore's own metrics, for `tune` and `evaluate`.
OURS: tuple[str, ...] = get_args(MetricName)
# Tolerance for scores below 0 and above 1: the numerical gradient of xbleu uses statistics slightly
# outside of what a corpus can have.
_ROOM = 0.01


class CheckedMetric:
    """A metric for tuning whose class is checked against the contract of plug-ins.

    The class is called with references, tokenised, by file and segment. It has ``num_stats``,
    ``statistics(hypotheses, segments)`` and ``score(sums)``: see :class:`tuning.metrics.Metric`.

    :param name: the metric's name in reports; ``title`` is its name in messages.
    :raises PluginError: if the class breaks its contract; also raised by both methods.
    """

    def __init__(
        self,
        name: str,
        title: str,
        made: Callable[[Any], Any],
        references: Sequence[Sequence[Sequence[str]]],
    ) -> None:
        self.name = name
        self._title = title
        self._metric = self._call("it cannot be made with references", made, references)
        found = self._call("num_stats", getattr, self._metric, "num_stats")
        if not isinstance(found, int) or found < 1:
            raise PluginError(title, f"num_stats: expected a whole number from 1, got {found!r}")
        self.num_stats = found

    def statistics(self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int]) -> Values:
        """Return the statistics of each hypothesis: (hypotheses, num_stats)."""
        shape = (len(hypotheses), self.num_stats)
        return self._array("statistics", shape, self._metric.statistics, hypotheses, segments)

    def score(self, sums: Values) -> Values:
        """Return the score, 0 to 1, of each sum of statistics."""
        found = self._array("score", sums.shape[:-1], self._metric.score, sums)
        if found.size and not -_ROOM <= found.min() <= found.max() <= 1 + _ROOM:
            wrong = found.min() if found.min() < -_ROOM else found.max()
            raise PluginError(self._title, f"score: expected 0 to 1, got {wrong:g}")
        return found

    def _array(
        self, name: str, shape: tuple[int, ...], method: Callable[..., Any], *arguments: Any
    ) -> Values:
        """Return the numbers that a method returns, after checks of their shape and range."""
        found: Values = self._call(name, lambda: np.asarray(method(*arguments), np.float64))
        if found.shape != shape:
            raise PluginError(
                self._title, f"{name}: expected an array of the shape {shape}, got {found.shape}"
            )
        if not np.isfinite(found).all():
            wrong = found[~np.isfinite(found)].flat[0]
            raise PluginError(self._title, f"{name}: expected finite numbers, got {wrong:g}")
        return found

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (Exception, SystemExit) as error:
            raise PluginError(self._title, f"{name}: {shown_error(error)}") from error


class PluginMetric(CheckedMetric):
    """A metric of another package, with the package's name and version."""

    def __init__(self, plugin: Plugin, references: Sequence[Sequence[Sequence[str]]]) -> None:
        super().__init__(plugin.name, plugin.title, plugin.load(), references)
        self.package = plugin.package


def find_metric(name: str) -> Plugin | None:
    """Return the plug-in's metric with this name, or None if the metric is ours or unknown.

    A plug-in cannot replace a metric of ours; one with the same name is ignored with a warning.
    """
    if name not in OURS:
        return find_plugin("metric", name, OURS)
    for plugin in find_plugins("metric", OURS):
        if plugin.name == name:
            _logger.warning("%s is not used: %s", plugin.title, plugin.problem)
    return None


def known_metrics(own: Sequence[str]) -> list[str]:
    """Return the given names, and the names of the metrics of other packages."""
    plugins = find_plugins("metric", OURS)
    return [*own, *(plugin.name for plugin in plugins if plugin.problem is None)]


def metric_packages(names: Iterable[str]) -> list[str]:
    """Return the package and version of each metric of another package."""
    return [plugin.package for name in names if (plugin := find_metric(name)) is not None]
