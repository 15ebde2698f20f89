"""Tuning methods, and the guarantees that hold for all of them.

A method searches for weights that solve a `Problem`. `optimise` calls it so that the result is
never worse than the start, never zero and never NaN. Weights that cannot or must not be tuned are
left unchanged, and the result has a note about them.

To add a method, write a function of type `Search` and add it to METHODS in `tuning.settings`,
together with its settings. The contract test covers all METHODS.
"""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from phrasescore.errors import PhrasescoreError
from tuning.metrics import Metric
from tuning.pool import Mask, Pool, Vector
from tuning.settings import METHODS, MethodName, TuneSettings

Report = Callable[[str], None]  # called with a line about progress; may raise StopTuning


class StopTuning(Exception):  # noqa: N818 nothing is wrong
    """Raised by a report to stop a search, which then returns its best result so far."""


@dataclass(frozen=True)
class Problem:
    """The input of a search. The pool has no constant features; a report may raise StopTuning."""

    pool: Pool
    metric: Metric
    start: Vector  # (features,): the start weights, not all zero
    free: Mask  # (features,): whether a weight may change; at least one may
    settings: TuneSettings
    seed: int
    report: Report


# Returns weights, (features,), at any scale unless some of them are fixed. They need not be better
# than the start.
Search = Callable[[Problem], Vector]


@dataclass(frozen=True, eq=False)
class Tuned:
    """Tuned weights, and their score on the pool."""

    # (features,): unless some are fixed, their absolute values have the same sum as the absolute
    # values of the start weights.
    weights: Vector
    # The metric, 0 to 1, of the hypotheses that the weights and the start weights select.
    score: float
    start_score: float
    notes: tuple[str, ...]  # messages for the user


def optimise(
    method: MethodName,
    pool: Pool,
    metric: Metric,
    start: Vector,
    settings: TuneSettings,
    *,
    seed: int,
    report: Report = lambda _line: None,
) -> Tuned:
    """Return weights that score at least as well on the pool as the start weights.

    The result depends on the seed but not on the number of threads. Constant and fixed features
    keep their weights. If no feature is fixed, the other weights are scaled so that the sum of
    absolute weights does not change. If nothing can be tuned, the notes explain why.

    :param start: (features,): finite, and of a size that leaves squares of scores finite.
    """
    search: Search = pkgutil.resolve_name(METHODS[method])
    start = np.array(start, np.float64)
    constant = pool.constant_features()
    if not start[~constant | constant.all()].any():
        raise PhrasescoreError("expected start weights that are not all zero")
    fixed = np.array([label in settings.fixed for label in pool.labels], np.bool_)
    names = " ".join(str(pool.labels[column]) for column in np.flatnonzero(constant))
    notes = (f"constant in every list, so their weights do not change: {names}",) if names else ()
    start_score = pool.score(metric, start)

    def tuned(weights: Vector, score: float, *more: str) -> Tuned:
        return Tuned(weights, score, start_score, notes + more)

    if reason := _nothing_to_tune(pool, constant, fixed):
        return tuned(start, start_score, f"{reason}: keeping the start weights")
    varying = ~constant
    small = pool if varying.all() else pool.with_features(varying)
    free = ~fixed[varying]
    problem = Problem(small, metric, start[varying], free, settings, seed, report)
    try:
        found = search(problem)
    except StopTuning:  # before the first result
        return tuned(start, start_score, "stopped: keeping the start weights")
    weights = start.copy()
    weights[varying] = _scaled(found, start[varying], free)
    score = pool.score(metric, weights) if np.isfinite(weights).all() else -1.0
    if score > start_score:
        return tuned(weights, score)
    reason = f"found no weights that improve {metric.name}"
    if start_score == 0 and score <= 0:
        reason = f"{metric.name} is 0 for all weights tried"
    return tuned(start, start_score, f"{reason}: keeping the start weights")


def _nothing_to_tune(pool: Pool, constant: Mask, fixed: Mask) -> str:
    if pool.num_segments == 1:
        return "only one segment"
    if constant.all():
        return "in every segment, all hypotheses are equal"
    if (constant | fixed).all():
        return "all features that vary are fixed"
    return ""


def _scaled(weights: Vector, start: Vector, free: Mask) -> Vector:
    if not free.all():
        return np.where(free, weights, start)
    size = np.abs(weights).sum()
    return weights * (np.abs(start).sum() / size) if size > 0 else np.full_like(start, np.nan)
