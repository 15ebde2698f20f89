"""Minimum error rate training (Och, 2003): weights by exact line searches on the corpus metric.

From each of several starts, lines are searched in turn: along the gradient of the expected metric,
along every axis, and at the end along random directions. Each best step is taken at once. The
metric has very many local optima, so many starts matter more than thorough searches: all starts get
a round, the better half of them another, and so on. Then starts near the best weights are searched
several times, because near good weights there are usually better ones.

Weights have length 1 in units of the features' deviations: only their direction matters.
"""

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from phrasescore.io.kernel_cache import kept_njit
from tuning.expected_bleu import expected_score
from tuning.line_search import best_step, metric_along
from tuning.methods import Problem, Solution, StopTuning
from tuning.pool import Mask, Matrix, Vector

# The longest step, for weights of length 1. Beyond it the old weights nearly vanish, and the result
# has weights like 2.9e-39.
LIMIT = 100.0
# Scales of the softmax in the expected metric, for alternate rounds: the whole list counts with the
# first, the best few hypotheses with the second.
SCALES = (1.0, 10.0)
# The least number of starts that a race keeps.
LEAST_ALIVE = 3
# Every ANY_SIGNth random start has random signs.
ANY_SIGN = 4
# Number of draws of starts near the best weights, and their distance from weights of length 1.
GENERATIONS = 4
NEAR = 0.25
# In a small pool, which is searched quickly, single starts matter. There, starts are drawn until
# IDLE draws in a row find nothing better, at most MOST_GENERATIONS times. Pools of more than a
# tenth of SMALL hypotheses get fewer draws.
IDLE = 10
MOST_GENERATIONS = 40
SMALL = 80_000
# Smaller rises of the metric are rounding errors.
_RISE = 1e-9
# Rows whose scores are summed at a time, so that they stay in the processor's cache.
_ROWS = 1024


@dataclass(eq=False)
class _CoordinateWalk:
    # (features,), length 1; the weights are these times `length`, in units of deviations.
    weights: Vector
    length: float
    scores: Vector
    metric: float
    random: np.random.Generator
    searches: int = 0
    rounds: int = 0
    # Whether a round changed nothing, or was the last one.
    done: bool = False


def search_mert(problem: Problem) -> Solution:
    """Return the best weights of all walks.

    Random starts are drawn in units of the features' deviations, see `_random_start`; Moses draws
    each weight from 0 to 1 in the features' own units.
    """
    search = _MertSearch(problem)
    start = problem.start * search.units
    walks = [search.begin(start, np.random.default_rng(problem.seed))]
    with contextlib.suppress(StopTuning):
        _walk_everywhere(walks, search)
    best = max(walks, key=attrgetter("metric"))
    searches = sum(walk.searches for walk in walks)
    return Solution(best.weights * best.length / search.units, searches)


def _walk_everywhere(walks: list[_CoordinateWalk], search: "_MertSearch") -> None:
    """Continue the walk from the start weights, and add walks from random and nearby weights."""
    first, problem = walks[0], search.problem
    free, settings = problem.free, problem.settings
    start, random = first.weights * first.length, np.random.default_rng([problem.seed, 1])
    with ThreadPoolExecutor(settings.threads) as threads:

        def race(starts: list[Vector], others: list[_CoordinateWalk]) -> _CoordinateWalk:
            added = list(threads.map(search.begin, starts, random.spawn(len(starts))))
            walks.extend(added)
            _race(others + added, search, threads.map)
            best = max(walks, key=attrgetter("metric"))
            for walk in walks:
                if walk is not best:  # it is not continued; free its memory
                    walk.scores = walk.scores[:0].copy()
            return best

        starts = [
            _random_start(start, free, random, any_sign=number % ANY_SIGN == 0)
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
            threads.shutdown(cancel_futures=True)  # or pending walks would continue
            raise
    best_walk = max(walks, key=attrgetter("metric"))
    search.finish(best_walk)
    problem.report(f"random directions: {problem.metric.name} {100 * best_walk.metric:.2f}")


def _generations(problem: Problem) -> int:
    if not problem.settings.near_starts:
        return 0
    affordable = GENERATIONS * SMALL // len(problem.pool.stats)
    return max(GENERATIONS, min(MOST_GENERATIONS, affordable))


def _random_start(
    start: Vector, free: Mask, random: np.random.Generator, *, any_sign: bool
) -> Vector:
    """Return weights of random sizes, with the signs of the start weights or with random signs.

    Often the start weights are right only in their signs, and with many features a random direction
    is hardly ever near a good one. But the signs may be wrong, too.
    """
    drawn = random.normal(size=len(start))
    if not any_sign:
        drawn = np.where(start != 0, np.abs(drawn) * np.sign(start), drawn)
    drawn *= np.linalg.norm(start) / np.linalg.norm(drawn)
    return np.where(free, drawn, start)


def _near_start(best: Vector, free: Mask, random: np.random.Generator) -> Vector:
    """Return the weights plus a step in a random direction, NEAR times as long as the weights."""
    step = np.where(free, random.normal(size=len(best)), 0.0)
    return np.asarray(best + step * (NEAR * np.linalg.norm(best) / np.linalg.norm(step)))


def _race(
    walks: list[_CoordinateWalk],
    search: "_MertSearch",
    run: Callable[[Callable[[_CoordinateWalk], None], Iterable[_CoordinateWalk]], Iterable[None]],
) -> None:
    """Continue all walks, then the better half, and so on, until no good walk changes."""
    ranked, report = walks, search.problem.report
    while walks:
        for number, _ in enumerate(run(search.advance, walks), start=1):  # modifies the walks
            report(f"start {number} of {len(walks)}")
        ranked = sorted(ranked, key=lambda walk: -walk.metric)  # earlier starts first among equals
        name, best = search.problem.metric.name, 100 * ranked[0].metric
        report(f"{len(walks)} starts: {name} {best:.2f}")
        alive = max(LEAST_ALIVE, len(walks) // 2)
        walks = [walk for walk in ranked[:alive] if not walk.done]


class _MertSearch:
    """Line searches for weights in units of the features' deviations within the segments.

    In these units, steps of 1 along different axes change about equally many choices.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self._pool, self._metric = problem, problem.pool, problem.metric
        self._axes = np.eye(len(problem.free))[problem.free]
        self._settings = problem.settings
        # (features,): the deviation of each feature; above 0.
        self.units: Vector = problem.pool.deviations()
        # (features, hypotheses): a search along an axis reads one contiguous row.
        self._columns: Matrix = _standardise(problem.pool.features, self.units)

    def _scores(self, weights: Vector) -> Vector:
        """Return the model scores; along an axis, this is the feature's own array."""
        (used,) = np.nonzero(weights)
        if len(used) == 1 and weights[used[0]] == 1.0:
            return np.asarray(self._columns[used[0]])
        return np.asarray(_combine(self._columns, weights))

    def begin(self, weights: Vector, random: np.random.Generator) -> _CoordinateWalk:
        length = float(np.linalg.norm(weights))
        weights = weights / length
        scores = self._scores(weights)
        best = self._pool.highest(scores)
        metric = float(self._metric.score(self._pool.stats[best].sum(axis=0)))
        return _CoordinateWalk(weights, length, scores, metric, random)

    def advance(self, walk: _CoordinateWalk) -> None:
        walk.rounds += 1
        walk.done = not self._round(walk) or walk.rounds >= self._settings.rounds

    def finish(self, walk: _CoordinateWalk) -> None:
        """Search also along random directions until nothing improves."""
        if not self._settings.directions:
            return
        while walk.rounds < self._settings.rounds:
            walk.rounds += 1
            before = walk.metric
            self._round(walk)
            for _ in range(self._settings.directions):
                two = walk.random.permutation(len(self._axes))[:2]
                self._search(walk, walk.random.normal(size=len(two)) @ self._axes[two])
            self.problem.report(f"round {walk.rounds}: {100 * walk.metric:.2f}")
            if walk.metric <= before + _RISE:
                break

    def _round(self, walk: _CoordinateWalk) -> bool:
        """Search along the gradient and every axis; return whether the metric rose."""
        before = walk.metric
        scale = SCALES[walk.rounds % len(SCALES)]
        weights = walk.weights / self.units
        slope = expected_score(self._pool, self._metric, weights, scale).gradient / self.units
        self._search(walk, slope - (slope @ walk.weights) * walk.weights)
        for direction in walk.random.permutation(self._axes):
            self._search(walk, direction)
        return walk.metric > before + _RISE

    def _search(self, walk: _CoordinateWalk, direction: Vector) -> None:
        """Move to the best step along a direction, unless that is 0."""
        direction = np.where(self.problem.free, direction, 0.0)
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
    """Return weights @ columns; every number is summed in the same order."""
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
