"""Expected BLEU: the metric applied to expected statistics, maximised with L-BFGS.

Each hypothesis has a probability within its segment: softmax(scale * model score). The metric of
the expected statistics, summed over segments, is a smooth function of the weights (Rosti et al.,
2010, BBN System Description for WMT10, section 3). With a small scale the function has few local
maxima; with a large one it approaches the metric of the best hypotheses. The scale is therefore
increased in stages, each of which starts from the weights of the previous one.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from phrasescore.io.kernel_cache import kept_njit
from tuning.methods import Problem, StopTuning
from tuning.metrics import Integers, Metric, Statistics
from tuning.pool import Pool, Vector

# The scales, relative to model scores that have standard deviation 1 within segments at the start.
_SCALES = (1.0, 4.0, 16.0)
# The relative step for numerical differentiation of a metric: the cube root of the float64
# precision, at which the rounding error and the truncation error are about equal.
_DIFFERENCE = 6e-6
_PARTS = 8  # of the pool, always as many: results do not depend on the threads
# Smaller probabilities are ignored; the total for a list of 1,000 changes by at most 1e-15.
_NEGLIGIBLE = 1e-18
# The penalty for a squared distance of 1 from the start, in units of the metric (0 to 1). Weights
# are in units of the features' standard deviations.
_PENALTY = 1e-5
_ITERATIONS = 30  # maximum number of L-BFGS iterations at each scale


class Expected(NamedTuple):
    """The expected metric with its gradient, and the metric of the most likely hypotheses."""

    score: float
    gradient: Vector
    best_score: float


def expected_score(
    pool: Pool, metric: Metric, weights: Vector, scale: float, *, threads: int = 1
) -> Expected:
    """Return the metric of the expected statistics, and its gradient with respect to the weights.

    The derivative with respect to the statistics uses central differences, so that any metric can
    be used. Its relative error is about 1e-10; where it does not exist, it is set to 0. All other
    derivatives are exact, except that hypotheses with a probability below 1e-18 are ignored. The
    number of threads does not affect the result.
    """
    ends = np.linspace(0, pool.num_segments, _PARTS + 1).astype(np.int64)
    parts = [pool.starts[begin : end + 1] for begin, end in pairwise(ends)]
    chances = np.empty(len(pool.stats))

    def expect(part: Integers) -> Statistics:
        rows = slice(part[0], part[-1])
        scores = pool.model_scores(weights * scale, rows)
        highest = np.maximum.reduceat(scores, part[:-1] - part[0])
        scores -= np.repeat(highest, np.diff(part))  # so that exp cannot overflow
        np.exp(scores, out=chances[rows])  # vectorised, much faster than in the kernel
        sums: Statistics = _expect(pool.stats, part, chances)
        return sums

    expected, best = _sum_of(expect, parts, threads)
    steps = _DIFFERENCE * np.where(expected == 0, 1.0, np.abs(expected))
    shifts = np.diag(steps)
    derivative = (metric.score(expected + shifts) - metric.score(expected - shifts)) / (2 * steps)
    derivative = np.where(np.isfinite(derivative), derivative, 0.0)

    def climb(part: Integers) -> Vector:
        slopes: Vector = _climb(pool.features, pool.stats, part, chances, derivative)
        return slopes

    slopes = _sum_of(climb, parts, threads) * scale
    return Expected(float(metric.score(expected)), slopes, float(metric.score(best)))


def search_expected_score(problem: Problem) -> Vector:
    """Maximise the expected metric with L-BFGS at increasing scales of the softmax.

    The result is the best-scoring weight vector on the pool among all that L-BFGS visits.
    """
    pool = problem.pool
    units = pool.deviations()
    spread = pool.score_deviation(problem.start) or 1.0
    start = problem.start * units / spread
    best, best_score = start, pool.score(problem.metric, problem.start)
    current = start

    def loss(free: Vector, scale: float) -> tuple[float, Vector]:
        nonlocal best, best_score
        weights = start.copy()
        weights[problem.free] = free
        expected = expected_score(
            pool, problem.metric, weights / units, scale, threads=problem.settings.threads
        )
        if expected.best_score > best_score:
            best, best_score = weights, expected.best_score
        distance = free - start[problem.free]
        penalty = _PENALTY * float(distance @ distance)
        slopes = (expected.gradient / units)[problem.free] - 2 * _PENALTY * distance
        return penalty - expected.score, -slopes

    def report_iteration(_free: Vector) -> None:
        problem.report(f"best so far {100 * best_score:.2f}")

    try:
        for scale in _SCALES:
            optimum = minimize(
                loss,
                current[problem.free],
                args=(scale,),
                jac=True,
                method="L-BFGS-B",
                callback=report_iteration,
                options={"maxiter": _ITERATIONS, "ftol": 1e-7, "gtol": 1e-6},
            )
            current = start.copy()
            current[problem.free] = optimum.x
            problem.report(
                f"scale {scale:g}: expected {problem.metric.name} {-100 * optimum.fun:.2f},"
                f" best so far {100 * best_score:.2f}, {optimum.nit} iterations"
            )
    except StopTuning:
        pass
    return best / units * spread


def _sum_of(function: Callable[[Integers], Vector], parts: list[Integers], threads: int) -> Vector:
    """Apply a function to all parts and return the sum of the results, added in order."""
    with ThreadPoolExecutor(threads) as workers:
        results = workers.map(function, parts) if threads > 1 else map(function, parts)
        return np.asarray(np.sum(list(results), axis=0))


_KERNEL = kept_njit()


@_KERNEL
def _expect(stats: Any, starts: Any, chances: Any) -> Any:
    """Return sums of the expected statistics and of the most likely ones: (2, num_stats).

    :param chances: unnormalised probabilities, which are normalised in place; the most likely
        hypotheses in each segment have 1.
    """
    sums = np.zeros((2, stats.shape[1]))
    for segment in range(len(starts) - 1):
        first, end = starts[segment], starts[segment + 1]
        total = 0.0
        best = end
        for row in range(end - 1, first - 1, -1):
            total += chances[row]
            if chances[row] == 1.0:
                best = row
        for column in range(stats.shape[1]):
            sums[1, column] += stats[best, column]
        for row in range(first, end):
            chances[row] /= total
            if chances[row] >= _NEGLIGIBLE:
                for column in range(stats.shape[1]):
                    sums[0, column] += chances[row] * stats[row, column]
    return sums


@_KERNEL
def _climb(features: Any, stats: Any, starts: Any, chances: Any, derivative: Any) -> Any:
    slopes = np.zeros(features.shape[1])
    for segment in range(len(starts) - 1):
        first, end = starts[segment], starts[segment + 1]
        gains = np.zeros(end - first)
        expected = 0.0
        for row in range(first, end):
            if chances[row] >= _NEGLIGIBLE:
                for column in range(len(derivative)):
                    gains[row - first] += stats[row, column] * derivative[column]
                expected += chances[row] * gains[row - first]
        for row in range(first, end):
            if chances[row] >= _NEGLIGIBLE:
                share = chances[row] * (gains[row - first] - expected)
                for column in range(len(slopes)):
                    slopes[column] += share * features[row, column]
    return slopes
