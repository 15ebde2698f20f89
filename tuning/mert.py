"""Minimum error rate training: weights by exact line searches on the corpus metric.

Och (2003), Minimum Error Rate Training in Statistical Machine Translation. From each of several
starts, lines are searched one after the other: along the gradient of the expected metric and along
every axis, and at the end along random directions; each time the best step is taken at once. The
metric has very many local optima, so starts matter more than thoroughness: all starts get a round,
the better half of them another, and so on. Then starts near the best weights so far are searched in
the same way, again and again: near good weights there are mostly better ones.

Weights are searched in units of the features' deviations, with length 1: only their direction
matters.
"""

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from phrasescore.io.kernel_cache import kept_njit
from tuning.expected_bleu import expected_score
from tuning.line_search import best_step, metric_along
from tuning.methods import Found, Problem, Report, StopTuning
from tuning.pool import Mask, Matrix, Vector

# Steps go so far at most, where the weights have length 1: beyond, all but one direction is
# forgotten, and weights like 2.9e-39 come out.
LIMIT = 100.0
# How sharp the softmax of the expected metric is, in one round and in the next: a scale that sees
# the whole list, and one that sees the best few.
SCALES = (1.0, 10.0)
# The number of starts that are never given up.
LEAST_ALIVE = 3
# Every ANY_SIGNth random start has random signs.
ANY_SIGN = 4
# How often starts are drawn near the best weights, and how far away; the weights have length 1.
GENERATIONS = 4
NEAR = 0.25
# Small pools are soon searched, and one start more or less decides. There starts are drawn on until
# IDLE times in turn nothing better was found, but MOST_GENERATIONS times at most, and in pools of
# more than a tenth of SMALL hypotheses not as often.
IDLE = 10
MOST_GENERATIONS = 40
SMALL = 80_000
# A rise of the metric that counts: less is rounding.
_RISE = 1e-9
# Rows whose scores are summed up at a time: they stay in the processor's cache.
_ROWS = 1024


@dataclass(eq=False)
class _CoordinateWalk:
    """Where the search from one start is."""

    # (features,), length 1; the weights are these times `length`, in units of deviations.
    weights: Vector
    length: float
    scores: Vector
    metric: float
    random: np.random.Generator
    searches: int = 0
    rounds: int = 0
    # Whether a whole round has changed nothing.
    done: bool = False


def search_mert(problem: Problem) -> Found:
    """Return the best weights found: a `tuning.methods.Search`.

    Random starts are drawn in units of the features' deviations, see `_random_start`; Moses draws
    each weight from 0 to 1 in the features' own units.
    """
    search = _MertSearch(problem)
    given = problem.start * search.units
    walks = [search.begin(given, np.random.default_rng(problem.seed))]
    with contextlib.suppress(StopTuning):
        _walk_everywhere(walks, search, problem)
    best = max(walks, key=_metric)
    searches = sum(walk.searches for walk in walks)
    return Found(best.weights * best.length / search.units, searches)


def _walk_everywhere(walks: list[_CoordinateWalk], search: "_MertSearch", problem: Problem) -> None:
    """Go on with the walk from the weights given, and add others, random ones and near ones."""
    first, free, settings = walks[0], problem.free, problem.settings
    given, random = first.weights * first.length, np.random.default_rng([problem.seed, 1])
    with ThreadPoolExecutor(settings.threads) as threads:

        def race(starts: list[Vector], others: list[_CoordinateWalk]) -> _CoordinateWalk:
            added = list(threads.map(search.begin, starts, random.spawn(len(starts))))
            walks.extend(added)
            _race(others + added, search, threads.map, problem)
            best = max(walks, key=_metric)
            for walk in walks:
                if walk is not best:  # it is over
                    walk.scores = walk.scores[:0].copy()
            return best

        starts = [
            _random_start(given, free, random, any_sign=number % ANY_SIGN == 0)
            for number in range(1, settings.starts + 1)
        ]
        try:
            best, idle = race(starts, [first]), 0
            for _ in range(_generations(problem)):
                before, near = best.metric, best.weights * best.length
                near_starts = [_near_start(near, free, random) for _ in range(settings.near_starts)]
                best = race(near_starts, [])
                idle = 0 if best.metric > before + _RISE else idle + 1
                if idle == IDLE:
                    break
        except StopTuning:
            threads.shutdown(cancel_futures=True)  # or walks that wait would be gone on with
            raise
    best_walk = max(walks, key=_metric)
    search.finish(best_walk, problem.report)
    problem.report(f"random directions: {problem.metric.name} {100 * best_walk.metric:.2f}")


def _generations(problem: Problem) -> int:
    """Return how often starts are drawn near the best weights, at most."""
    if not problem.settings.near_starts:
        return 0
    affordable = GENERATIONS * SMALL // len(problem.pool.stats)
    return max(GENERATIONS, min(MOST_GENERATIONS, affordable))


def _metric(walk: _CoordinateWalk) -> float:
    return walk.metric


def _random_start(
    given: Vector, free: Mask, random: np.random.Generator, *, any_sign: bool
) -> Vector:
    """Return weights of random sizes with the signs of the given ones, or with any.

    Mostly only the sign of a good weight is known, and a direction drawn from all is hardly ever
    near a good one where there are many features. But the signs may be wrong.
    """
    drawn = random.normal(size=len(given))
    if not any_sign:
        drawn = np.where(given != 0, np.abs(drawn) * np.sign(given), drawn)
    drawn *= np.linalg.norm(given) / np.linalg.norm(drawn)
    return np.where(free, drawn, given)


def _near_start(best: Vector, free: Mask, random: np.random.Generator) -> Vector:
    """Return the weights and a step of NEAR times their length in a random direction."""
    step = np.where(free, random.normal(size=len(best)), 0.0)
    return np.asarray(best + step * (NEAR * np.linalg.norm(best) / np.linalg.norm(step)))


def _race(
    walks: list[_CoordinateWalk],
    search: "_MertSearch",
    run: Callable[[Callable[[_CoordinateWalk], None], Iterable[_CoordinateWalk]], Iterable[None]],
    problem: Problem,
) -> None:
    """Go on with all walks, then with the better half, and so on, until no good one changes."""
    ranked = walks
    while walks:
        for place, _ in enumerate(run(search.go_on, walks), start=1):  # changes the walks
            problem.report(f"start {place} of {len(walks)}")
        ranked = sorted(ranked, key=lambda walk: -walk.metric)  # of equals the earlier start
        best = 100 * ranked[0].metric
        problem.report(f"{len(walks)} starts: {problem.metric.name} {best:.2f}")
        alive = max(LEAST_ALIVE, len(walks) // 2)
        walks = [walk for walk in ranked[:alive] if not walk.done]


class _MertSearch:
    """Line searches for weights in units of the features' deviations inside the segments.

    So a step of 1 along any axis changes choices about as much.
    """

    def __init__(self, problem: Problem) -> None:
        self._pool, self._metric, self._free = problem.pool, problem.metric, problem.free
        self._axes = np.eye(len(problem.free))[problem.free]
        self._settings = problem.settings
        # (features,): the deviation of each feature; above 0.
        self.units: Vector = problem.pool.deviations()
        # (features, hypotheses): a search along an axis reads one feature of all hypotheses.
        self._columns: Matrix = _standardise(problem.pool.features, self.units)

    def _scores(self, weights: Vector) -> Vector:
        """Return the model scores: (hypotheses,); along an axis the feature itself, not copied."""
        (used,) = np.nonzero(weights)
        if len(used) == 1 and weights[used[0]] == 1.0:
            return np.asarray(self._columns[used[0]])
        found: Vector = _combine(self._columns, weights)
        return found

    def begin(self, weights: Vector, random: np.random.Generator) -> _CoordinateWalk:
        """Return a walk that is still at its start."""
        length = float(np.linalg.norm(weights))
        weights = weights / length
        scores = self._scores(weights)
        best = self._pool.highest(scores)
        metric = float(self._metric.score(self._pool.stats[best].sum(axis=0)))
        return _CoordinateWalk(weights, length, scores, metric, random)

    def go_on(self, walk: _CoordinateWalk) -> None:
        """Take a round, and note if it changes nothing."""
        walk.rounds += 1
        walk.done = not self._round(walk) or walk.rounds >= self._settings.rounds

    def finish(self, walk: _CoordinateWalk, report: Report) -> None:
        """Search along random directions, too, until nothing improves."""
        if not self._settings.directions:
            return
        while walk.rounds < self._settings.rounds:
            walk.rounds += 1
            before = walk.metric
            self._round(walk)
            for _ in range(self._settings.directions):
                two = walk.random.permutation(len(self._axes))[:2]
                self._search(walk, walk.random.normal(size=len(two)) @ self._axes[two])
            report(f"round {walk.rounds}: {100 * walk.metric:.2f}")
            if walk.metric <= before + _RISE:
                break

    def _round(self, walk: _CoordinateWalk) -> bool:
        """Search along the gradient and every axis, and return whether the metric has risen."""
        before = walk.metric
        scale = SCALES[walk.rounds % len(SCALES)]
        weights = walk.weights / self.units
        slope = expected_score(self._pool, self._metric, weights, scale).gradient / self.units
        self._search(walk, slope - (slope @ walk.weights) * walk.weights)
        for direction in walk.random.permutation(self._axes):
            self._search(walk, direction)
        return walk.metric > before + _RISE

    def _search(self, walk: _CoordinateWalk, direction: Vector) -> None:
        """Move to the best step along a direction; nowhere if it is 0."""
        direction = np.where(self._free, direction, 0.0)
        size = float(np.linalg.norm(direction))
        if not size > 0:
            return
        direction = direction / size
        slopes, pool = self._scores(direction), self._pool
        profile = metric_along(slopes, walk.scores, pool.stats, pool.starts, self._metric, LIMIT)
        step = best_step(profile, neighbours=self._settings.neighbours)
        walk.searches += 1
        if step.gain > _RISE:
            weights = walk.weights + step.step * direction
            size = float(np.linalg.norm(weights))
            walk.weights, walk.length = weights / size, walk.length * size
            walk.scores = (walk.scores + step.step * slopes) / size
            walk.metric = step.score


_KERNEL = kept_njit()


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
