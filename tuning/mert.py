"""Minimum error rate training (Och, 2003): weights by exact line searches on the corpus metric.

From each of several starts, lines are searched in turn: along the gradient of the expected metric,
along every axis, and finally along random directions. Each best step is taken immediately. All
starts get a round, the better half of them a second round, and so on. Starts near the best weights
are then searched several times, because there are usually better weights nearby.

Only the direction of the weights matters: they have length 1, in units of standard deviations.
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
from tuning.methods import Problem, StopTuning
from tuning.pool import Mask, Matrix, Vector

# The maximum step length, for weights of length 1. With longer steps the old weights nearly vanish,
# and the result has weights such as 2.9e-39.
LIMIT = 100.0
# Scales of the softmax in the expected metric, for alternate rounds: with the first, all hypotheses
# have an influence; with the second, only the best few.
SCALES = (1.0, 10.0)
LEAST_ALIVE = 3  # the minimum number of starts that a race keeps
ANY_SIGN = 4  # every ANY_SIGNth random start has random signs
# How many times starts near the best weights are drawn, how many at a time, and their distance from
# these weights.
GENERATIONS = 4
NEAR_STARTS = 6
NEAR = 0.25
# In a small pool, which is searched quickly, single starts matter. Starts are then drawn until IDLE
# consecutive draws bring no improvement, or MOST_GENERATIONS times. Pools with more than a tenth of
# SMALL hypotheses get fewer draws.
IDLE = 10
MOST_GENERATIONS = 40
SMALL = 80_000
DIRECTIONS = 20  # random directions from the best weights in the last rounds
MOST_ROUNDS = 100  # for a start that does not converge
_RISE = 1e-9  # smaller improvements of the metric are treated as rounding errors
_ROWS = 1024  # number of rows to sum at a time, so that the scores stay in the processor's cache


@dataclass(eq=False)
class _CoordinateWalk:
    # (features,): normalised to length 1; multiply by `length` to get weights in units of standard
    # deviations.
    weights: Vector
    length: float
    scores: Vector
    metric: float
    random: np.random.Generator
    rounds: int = 0
    done: bool = False  # whether a round changed nothing or reached the limit on rounds


def search_mert(problem: Problem) -> Vector:
    """Return the best weights among all walks."""
    search = _MertSearch(problem)
    start = problem.start * search.units
    walks = [search.begin(start, np.random.default_rng(problem.seed))]
    with contextlib.suppress(StopTuning):
        _walk_everywhere(walks, search)
    best = max(walks, key=attrgetter("metric"))
    return best.weights * best.length / search.units


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
                if walk is not best:  # this walk is not continued; free its memory
                    walk.scores = walk.scores[:0].copy()
            return best

        starts = [
            _random_start(start, free, random, any_sign=number % ANY_SIGN == 0)
            for number in range(1, settings.starts + 1)
        ]
        try:
            best, idle = race(starts, [first]), 0
            for _ in range(_generations(len(problem.pool.stats))):
                before, near = best.metric, best.weights * best.length
                near_starts = [_near_start(near, free, random) for _ in range(NEAR_STARTS)]
                best = race(near_starts, [])
                idle = 0 if best.metric > before + _RISE else idle + 1
                if idle == IDLE:
                    break
        except StopTuning:
            threads.shutdown(cancel_futures=True)  # otherwise pending walks would continue
            raise
    best_walk = max(walks, key=attrgetter("metric"))
    search.finish(best_walk)
    problem.report(f"random directions: {problem.metric.name} {100 * best_walk.metric:.2f}")


def _generations(num_hypotheses: int) -> int:
    affordable = GENERATIONS * SMALL // num_hypotheses
    return max(GENERATIONS, min(MOST_GENERATIONS, affordable))


def _random_start(
    start: Vector, free: Mask, random: np.random.Generator, *, any_sign: bool
) -> Vector:
    """Return weights with random sizes, and with the signs of the start weights or random signs."""
    # Often only the signs of the start weights are right. (Moses draws weights from 0 to 1.)
    drawn = random.normal(size=len(start))
    if not any_sign:
        drawn = np.where(start != 0, np.abs(drawn) * np.sign(start), drawn)
    drawn *= np.linalg.norm(start) / np.linalg.norm(drawn)
    return np.where(free, drawn, start)


def _near_start(best: Vector, free: Mask, random: np.random.Generator) -> Vector:
    """Return the weights after a random step whose length is NEAR times the weights' length."""
    step = np.where(free, random.normal(size=len(best)), 0.0)
    return np.asarray(best + step * (NEAR * np.linalg.norm(best) / np.linalg.norm(step)))


def _race(
    walks: list[_CoordinateWalk],
    search: "_MertSearch",
    run: Callable[[Callable[[_CoordinateWalk], None], Iterable[_CoordinateWalk]], Iterable[None]],
) -> None:
    ranked, report = walks, search.problem.report
    while walks:
        for number, _ in enumerate(run(search.advance, walks), start=1):  # modifies the walks
            best = 100 * max(walk.metric for walk in ranked)
            report(f"best so far {best:.2f}, start {number} of {len(walks)}")
        ranked = sorted(ranked, key=lambda walk: -walk.metric)  # earlier starts first on ties
        name, best = search.problem.metric.name, 100 * ranked[0].metric
        report(f"{len(walks)} starts: {name} {best:.2f}")
        alive = max(LEAST_ALIVE, len(walks) // 2)
        walks = [walk for walk in ranked[:alive] if not walk.done]


class _MertSearch:
    """Line searches on weights in units of the features' standard deviations within segments."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self._pool, self._metric = problem, problem.pool, problem.metric
        self._axes = np.eye(len(problem.free))[problem.free]
        # (features,): the standard deviation of each feature; above 0.
        self.units: Vector = problem.pool.deviations()
        # (features, hypotheses): a search along an axis reads one contiguous row.
        self._columns: Matrix = np.divide(problem.pool.features.T, self.units[:, None], order="C")

    def _scores(self, weights: Vector) -> Vector:
        """Return model scores; for a weight vector along an axis, the feature's column itself."""
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
        walk.done = not self._round(walk) or walk.rounds >= MOST_ROUNDS

    def finish(self, walk: _CoordinateWalk) -> None:
        """Continue a walk, also along random directions, until a round brings no improvement."""
        while walk.rounds < MOST_ROUNDS:
            walk.rounds += 1
            before = walk.metric
            self._round(walk)
            for _ in range(DIRECTIONS):
                two = walk.random.permutation(len(self._axes))[:2]
                self._search(walk, walk.random.normal(size=len(two)) @ self._axes[two])
            self.problem.report(f"round {walk.rounds}: {100 * walk.metric:.2f}")
            if walk.metric <= before + _RISE:
                break

    def _round(self, walk: _CoordinateWalk) -> bool:
        before = walk.metric
        scale = SCALES[walk.rounds % len(SCALES)]
        weights = walk.weights / self.units
        slope = expected_score(self._pool, self._metric, weights, scale).gradient / self.units
        self._search(walk, slope - (slope @ walk.weights) * walk.weights)
        for direction in walk.random.permutation(self._axes):
            self._search(walk, direction)
        return walk.metric > before + _RISE

    def _search(self, walk: _CoordinateWalk, direction: Vector) -> None:
        direction = np.where(self.problem.free, direction, 0.0)
        size = float(np.linalg.norm(direction))
        if not size > 0:
            return
        direction = direction / size
        slopes, pool = self._scores(direction), self._pool
        profile = metric_along(slopes, walk.scores, pool.stats, pool.starts, self._metric, LIMIT)
        step = best_step(profile)
        if step.gain > _RISE:
            weights = walk.weights + step.step * direction
            size = float(np.linalg.norm(weights))
            walk.weights, walk.length = weights / size, walk.length * size
            walk.scores = (walk.scores + step.step * slopes) / size
            walk.metric = step.score


_KERNEL = kept_njit()


@_KERNEL
def _combine(columns: Any, weights: Any) -> Any:
    """Return weights @ columns, with a fixed order of summation."""
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
