"""Tune weights on arrays of features and statistics, without files."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phrasescore.errors import ArgumentError
from phrasescore.records import FeatureLabel
from tuning.methods import Tuned, load_method
from tuning.metrics import CorpusBleu, Metric
from tuning.pool import Pool
from tuning.settings import METHODS, MethodName, TuneSettings


def tune_arrays(
    features: ArrayLike,
    statistics: ArrayLike,
    segments: ArrayLike,
    start: ArrayLike,
    *,
    metric: Metric = CorpusBleu(),
    names: Sequence[str] | None = None,
    method: MethodName = "mert",
    settings: TuneSettings = TuneSettings(),
    seed: int = 1,
) -> Tuned:
    """Return weights whose best hypotheses score at least as well as with the start weights.

    The hypotheses of a segment are translations of one sentence; ties are in their order.
    `phrasescore.tune` finds the same weights for the same hypotheses in files.

    :param features: shape ``(hypotheses, features)``; a model score is ``features @ weights``.
    :param statistics: shape ``(hypotheses, num_stats)``, as ``metric.statistics`` returns them.
    :param segments: shape ``(hypotheses,)``: the 0-based segment of each hypothesis.
    :param start: shape ``(features,)``: the start weights.
    :param metric: the function of the summed statistics to maximise, such as
        `tuning.metrics.Chrf`; by default BLEU.
    :param names: the name of each column's feature, for notes and for ``settings.fixed``.
    :raises ArgumentError: if shapes do not fit together, or a segment has no hypothesis.
    """
    if method not in METHODS:
        raise ArgumentError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")
    table = _numbers("features", features, None, None)
    size, width = table.shape
    weights = _numbers("start", start, width)
    stats = _numbers("statistics", statistics, size, metric.num_stats)
    owners = _numbers("segments", segments, size)
    numbers, counts = np.unique(owners, return_counts=True)
    if size == 0 or (numbers != np.arange(len(numbers))).any():
        raise ArgumentError("segments: expected whole numbers from 0, without a gap")
    columns = [f"F{column}" for column in range(width)] if names is None else list(names)
    if len(columns) != width:
        raise ArgumentError(f"names: expected {width}, one per column, got {len(columns)}")
    order = np.argsort(owners, kind="stable")
    pool = Pool(
        tuple(FeatureLabel(name, columns[:at].count(name)) for at, name in enumerate(columns)),
        np.ascontiguousarray(table[order]),
        np.ascontiguousarray(stats[order]),
        np.concatenate([[0], np.cumsum(counts)]),
    )
    return load_method(method)(pool.distinct(), metric, weights, settings, seed=seed)


def _numbers(name: str, values: ArrayLike, *shape: int | None) -> NDArray[np.float64]:
    """Return an array of finite numbers with the given shape, in which None is any length."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{name}: expected an array of numbers: {error}") from error
    fits = (wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=False))
    if array.ndim != len(shape) or not all(fits):
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise ArgumentError(f"{name}: expected the shape ({wanted}), got {array.shape}")
    if not np.isfinite(array).all():
        raise ArgumentError(f"{name}: expected finite numbers")
    return array
