"""The methods of tuning, and the promises that all of them keep.

A method is a search: it gets a pool, a metric and weights to start from, and returns weights. The
promises of every method are kept once, here: `Optimise` wraps a search so that its result is
never worse than the start, never zero, never NaN, and leaves alone the weights that cannot or may
not be tuned, and says so.

Adding a method: a function of the type `Search`, and in `tuning.settings` a line in METHODS and its
settings. The contract test runs over METHODS.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from phrasescore.errors import PhrasescoreError
from tuning.metric import Metric
from tuning.pool import Mask, Pool, Vector
from tuning.settings import METHODS, TuneSettings

# The largest of the start weights is between these: squares of model scores are numbers.
_SIZES = (1e-60, 1e60)

# Takes a line that says how far a search is. It may raise StopTuning.
Report = Callable[[str], None]


class StopTuning(Exception):  # noqa: N818 nothing is wrong
    """Raised by a report where the user wants no more: a search returns its best so far."""


@dataclass(frozen=True)
class Problem:
    """The problem that a search solves.

    The pool has no constant feature. The weights of some of its features may be fixed: a search
    leaves those as they are in `start`.
    """

    pool: Pool
    metric: Metric
    # (features,): not all zero.
    start: Vector
    # (features,): whose weights may change; one at least.
    free: Mask
    settings: TuneSettings
    seed: int
    # May raise StopTuning, as often as it is called.
    report: Report


class Found(NamedTuple):
    """The result of a search. It need not be better than the start: see `Optimise`."""

    # (features,), of any scale, unless some are fixed.
    weights: Vector
    # The number of steps it took; a step is what the method calls one.
    steps: int
    # Notes for the user, a sentence each.
    notes: tuple[str, ...] = ()


Search = Callable[[Problem], Found]


@dataclass(frozen=True, eq=False)
class Tuned:
    """Weights, and how good they are on the pool."""

    # (features,); the sum of their absolute values is that of the start.
    weights: Vector
    # The metric of the hypotheses that the weights choose, 0 to 1; and that the start chose.
    score: float
    start_score: float
    method: str
    seed: int
    steps: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Optimise:
    """A method as its users call it: a search whose result keeps the promises of all methods."""

    method: str
    search: Search

    def __call__(
        self,
        pool: Pool,
        metric: Metric,
        start: Vector,
        settings: TuneSettings,
        *,
        seed: int,
        report: Report = lambda _line: None,
    ) -> Tuned:
        """Return weights that are at least as good on the pool as the start.

        The same seed gives the same bits, with any number of threads. Constant features and those
        that settings fix keep their weight; if none is fixed, the others are scaled so that the
        sum of absolute weights is that of the start. Where there is nothing to tune (one segment,
        hypotheses all alike, a score of 0 whatever the weights) the start is returned and the
        notes say why.

        :param start: (features,), finite, not all zero, the largest from 1e-60 to 1e60.
        :raises PhrasescoreError: if the start is not usable, or a fixed feature is not there.
        """
        start = np.array(start, np.float64)
        constant = pool.constant_features()
        _check_start(pool, start, constant)
        fixed = _fixed_features(pool, settings)
        notes = _constant_notes(pool, constant)
        start_score = pool.score(metric, start)

        def tuned(weights: Vector, score: float, steps: int, why: tuple[str, ...]) -> Tuned:
            said = notes + why
            return Tuned(weights, score, start_score, self.method, seed, steps, said)

        nothing = _nothing_to_tune(pool, constant, fixed)
        if nothing:
            return tuned(start, start_score, 0, (nothing,))
        varying = ~constant
        small = pool if varying.all() else pool.with_features(varying)
        free = ~fixed[varying]
        problem = Problem(small, metric, start[varying], free, settings, seed, report)
        try:
            found = self.search(problem)
        except StopTuning:  # before there was anything to return
            return tuned(start, start_score, 0, ("stopped: the weights stay as they were",))
        weights = start.copy()
        weights[varying] = _scaled(found.weights, start[varying], free)
        score = pool.score(metric, weights) if np.isfinite(weights).all() else -1.0
        if score > start_score:
            return tuned(weights, score, found.steps, found.notes)
        why = _why_start(metric, start_score, score)
        return tuned(start, start_score, found.steps, (*found.notes, why))


def load_method(name: str) -> Optimise:
    """Return the method of that name in METHODS."""
    module, function = METHODS[name].split(":")
    return Optimise(name, getattr(importlib.import_module(module), function))


def _check_start(pool: Pool, start: Vector, constant: Mask) -> None:
    if start.shape != (pool.num_features,):
        raise PhrasescoreError(f"expected {pool.num_features} start weights, got {start.size}")
    if not np.isfinite(start).all():
        name = pool.labels[int(np.flatnonzero(~np.isfinite(start))[0])]
        raise PhrasescoreError(f"start weight of {name}: expected a finite number")
    varying = start if constant.all() else start[~constant]
    size = float(np.abs(varying).max(initial=0.0))
    if not start.any() or size == 0:
        raise PhrasescoreError("expected start weights that are not all zero")
    if not _SIZES[0] <= size <= _SIZES[1]:
        wanted = f"from {_SIZES[0]:g} to {_SIZES[1]:g}"
        raise PhrasescoreError(
            f"expected start weights the largest of which is {wanted}, got {size}"
        )


def _fixed_features(pool: Pool, settings: TuneSettings) -> Mask:
    unknown = [label for label in settings.fixed if label not in pool.labels]
    if unknown:
        names = " ".join(map(str, pool.labels))
        raise PhrasescoreError(f"fixed feature {unknown[0]}: expected one of {names}")
    return np.array([label in settings.fixed for label in pool.labels], np.bool_)


def _constant_notes(pool: Pool, constant: Mask) -> tuple[str, ...]:
    names = [str(label) for label, each in zip(pool.labels, constant, strict=True) if each]
    if not names:
        return ()
    return (f"constant in every list, so their weights stay: {' '.join(names)}",)


def _nothing_to_tune(pool: Pool, constant: Mask, fixed: Mask) -> str:
    if pool.num_segments == 1:
        return "only one segment: the weights stay as they were"
    if constant.all():
        return "the hypotheses of every segment are all alike: the weights stay as they were"
    if (constant | fixed).all():
        return "every feature that varies is fixed: the weights stay as they were"
    return ""


def _scaled(weights: Vector, start: Vector, free: Mask) -> Vector:
    if not free.all():
        return np.where(free, weights, start)
    size = np.abs(weights).sum()
    return weights * (np.abs(start).sum() / size) if size > 0 else np.full_like(start, np.nan)


def _why_start(metric: Metric, start_score: float, score: float) -> str:
    if start_score == 0 and score <= 0:
        return f"{metric.name} is 0 with all weights tried: the weights stay as they were"
    return f"no weights were found that raise {metric.name}: they stay as they were"
