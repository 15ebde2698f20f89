"""Metrics from other packages (plug-ins), with checks of their return values."""

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from phrasescore.arguments import MetricName
from phrasescore.errors import ArgumentError, PluginError
from phrasescore.plugins import Plugin, find_plugin, find_plugins, shown_error

Values = NDArray[np.float64]

_logger = logging.getLogger(__name__)

OURS: tuple[str, ...] = get_args(MetricName)  # phrasescore's, for `tune` and `evaluate`
# How far scores may be outside 0 to 1, because the numerical gradient of xbleu uses statistics that
# no corpus can have.
_TOLERANCE = 0.01


class CheckedMetric:
    """A metric for tuning whose class is checked against the contract for plug-ins.

    The class is called with tokenised references, indexed by file, then by segment. It must have
    ``num_stats``, ``statistics(hypotheses, segments)`` and ``score(sums)``; see
    :class:`tuning.metrics.ReferenceMetric`.

    :param name: the metric's name in reports; ``title`` is the name in messages.
    :raises PluginError: if the class violates the contract; also raised by both methods.
    """

    def __init__(
        self,
        name: str,
        title: str,
        build: Callable[[Any], Any],
        references: Sequence[Sequence[Sequence[str]]],
    ) -> None:
        self.name = name
        self._title = title
        self._metric = self._call("cannot be built with references", build, references)
        size = self._call("num_stats", getattr, self._metric, "num_stats")
        if not isinstance(size, int) or size < 1:
            raise PluginError(title, f"num_stats: expected a positive integer, got {size!r}")
        self.num_stats = size

    def statistics(self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int]) -> Values:
        """Return the statistics of each hypothesis: (hypotheses, num_stats)."""
        shape = (len(hypotheses), self.num_stats)
        return self._array("statistics", shape, self._metric.statistics, hypotheses, segments)

    def score(self, sums: Values) -> Values:
        """Return the score, 0 to 1, for each sum of statistics."""
        scores = self._array("score", sums.shape[:-1], self._metric.score, sums)
        wrong = scores[(scores < -_TOLERANCE) | (scores > 1 + _TOLERANCE)]
        if wrong.size:
            raise PluginError(self._title, f"score: expected 0 to 1, got {wrong[0]:g}")
        return scores

    def _array(
        self, name: str, shape: tuple[int, ...], method: Callable[..., Any], *arguments: Any
    ) -> Values:
        values: Values = self._call(name, lambda: np.asarray(method(*arguments), np.float64))
        if values.shape != shape:
            problem = f"{name}: expected an array of the shape {shape}, got {values.shape}"
            raise PluginError(self._title, problem)
        wrong = values[~np.isfinite(values)]
        if wrong.size:
            raise PluginError(self._title, f"{name}: expected finite numbers, got {wrong[0]:g}")
        return values

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (Exception, SystemExit) as error:
            raise PluginError(self._title, f"{name}: {shown_error(error)}") from error


def build_metric(
    plugin: Plugin,
    references: Sequence[Sequence[Sequence[str]]],
    sources: Sequence[Sequence[str]] | None,
) -> CheckedMetric:
    """Return a plug-in's metric; if its class has a parameter ``sources``, it gets the sources.

    :param sources: the words of each source sentence, if they are known.
    """
    extra = source_argument(plugin.load(), sources, plugin.title)
    return CheckedMetric(plugin.text, plugin.title, partial(plugin.create, **extra), references)


def source_argument(
    make: Callable[..., Any], sources: Sequence[Sequence[str]] | None, title: str
) -> dict[str, Any]:
    """Return the sources as a keyword argument for a metric's class, if it has the parameter."""
    try:
        wanted = inspect.signature(make).parameters.get("sources")
    except (TypeError, ValueError):  # a class of compiled code
        wanted = None
    if wanted is not None and wanted.default is wanted.empty and sources is None:
        raise ArgumentError(f"{title} reads the source: give --source")
    return {} if wanted is None or sources is None else {"sources": sources}


def find_metric(name: str) -> Plugin | None:
    """Return the plug-in that provides a metric, or None if the metric is built in or unknown."""
    if name not in OURS:
        return find_plugin("metric", name, OURS)
    for plugin in find_plugins("metric", OURS):
        if plugin.name == name:
            _logger.warning("%s is not used: %s", plugin.title, plugin.problem)
    return None


def known_metrics(own: Sequence[str]) -> list[str]:
    """Return the names ``own`` followed by the names of metrics from other packages."""
    plugins = find_plugins("metric", OURS)
    return [*own, *(plugin.name for plugin in plugins if plugin.problem is None)]


def metric_packages(names: Iterable[str]) -> list[str]:
    """Return the package, version and arguments of each metric from another package."""
    return [plugin.fingerprint for name in names if (plugin := find_metric(name)) is not None]
