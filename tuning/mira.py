"""MIRA on n-best lists: update the weights so that good hypotheses outscore bad ones by a margin.

See Cherry and Foster (2012), Batch Tuning Strategies for Statistical Machine Translation, section
2.3 and figure 1. For each segment, the hope (high model score, high gain) is compared with the fear
(high model score, low gain). The weights take the smallest step after which the hope's model score
exceeds the fear's by at least the difference in gains, up to a limit. A gain is the score that a
hypothesis adds to a pseudo-corpus: the hopes of earlier segments, with exponential decay.
"""

from typing import Any

import numpy as np

from phrasescore.io.kernel_cache import kept_njit
from tuning.methods import Problem, StopTuning
from tuning.metrics import Integers, Metric, Statistics
from tuning.pool import Pool, Vector, number_equals

# The factor for a segment's contribution to the score. Moses' kbmira uses the length of the
# references instead (Chiang et al., 2008), which is not available for all metrics. With 10, its
# step limits are suitable.
_GAIN = 10.0
_EPOCHS = 60  # passes over the segments; small pools get more (kbmira -J)
# The maximum factor for a feature difference in an update. Features are in units of their standard
# deviations (kbmira -C, which does not scale features).
_STEP_LIMIT = 0.1
_DECAY = 0.999  # the fraction of the pseudo-corpus that remains after each segment (kbmira -D)
_SPREAD = 3.0  # of model scores within segments at the start, in units of gains
_LEAST_VISITS = 2000  # the fewest segments to visit: steps are short and pools may be small
_MOST_HALVINGS = 20  # times that model scores are halved, at most: down to a millionth


class _Corpus:
    def __init__(self, pool: Pool, metric: Metric) -> None:
        # Start with one segment that has the mean statistics over all hypotheses.
        self._sums, self._size, self._metric = pool.stats.mean(axis=0), 1.0, metric

    def gains(self, stats: Statistics) -> Vector:
        """Return the gain of each hypothesis in a segment, up to a constant."""
        return np.asarray(self._metric.score(self._sums + stats) * ((self._size + 1) * _GAIN))

    def add(self, stats: Statistics) -> None:
        self._sums = self._sums * _DECAY + stats
        self._size = self._size * _DECAY + 1


class _Mira:
    def __init__(self, problem: Problem, scale: float) -> None:
        self._problem, self._scale = problem, scale
        self._units = problem.pool.deviations()
        # The group of each hypothesis within its segment, the statistics of each group, and where
        # each segment's groups begin. The hypotheses of a group have equal statistics.
        pool = problem.pool
        firsts, groups = number_equals(pool.segments, pool.stats)
        self._starts = np.searchsorted(firsts, pool.starts)
        self._groups = groups - np.repeat(self._starts[:-1], np.diff(pool.starts))
        self._stats = pool.stats[firsts]
        self._corpus = _Corpus(problem.pool, problem.metric)
        self._weights = problem.start * scale * self._units
        self._restart_average()

    def average(self) -> Vector:
        """Return the average of the weights after each segment so far."""
        # Moses' kbmira averages only over segments with an update. Here all segments are included,
        # so that the average converges to the weights.
        return np.asarray(self._total / self._count / self._units / self._scale)

    def halve(self) -> None:
        """Halve model scores, so that gains have more influence on hopes; restart the average."""
        # If model scores differ by more than gains, hope and fear are both the model's best
        # hypothesis, and there are no updates, even if it is bad (kbmira has --safe-hope for this).
        # In large pools there is always an update for at least one segment.
        self._weights = self._weights / 2
        self._scale /= 2
        self._restart_average()

    def _restart_average(self) -> None:
        self._total = np.zeros(len(self._weights))
        self._count = 0

    def learn(self, segments: Integers) -> bool:
        """Visit the segments in the given order; return whether the weights were updated."""
        pool, groups, starts = self._problem.pool, self._groups, self._starts
        moved = False
        for segment in segments:
            gains = self._corpus.gains(self._stats[starts[segment] : starts[segment + 1]])
            first, end = pool.starts[segment], pool.starts[segment + 1]
            raw = self._weights / self._units
            hope, fear = _hope_and_fear(pool.features, first, end, raw, groups, gains)
            gain = gains[groups[hope]] - gains[groups[fear]]
            if gain > 0:
                moved |= self._step(pool.features[hope] - pool.features[fear], float(gain))
                self._corpus.add(pool.stats[hope])
            self._total += self._weights
            self._count += 1
        return moved

    def _step(self, raw_difference: Vector, gain: float) -> bool:
        difference = raw_difference / self._units
        loss = gain - float(self._weights @ difference)
        difference = np.where(self._problem.free, difference, 0.0)
        length = float(difference @ difference)
        if loss <= 0 or length == 0:
            return False
        step = min(_STEP_LIMIT, loss / length)
        self._weights = self._weights + step * difference
        return True


def search_mira(problem: Problem) -> Vector:
    """Return the average weights from the epoch whose average scores best on the pool.

    Each epoch shuffles the segments. Features are in units of their standard deviations.
    """
    pool = problem.pool
    mira = _Mira(problem, _SPREAD / (pool.score_deviation(problem.start) or _SPREAD))
    best, best_score = problem.start, pool.score(problem.metric, problem.start)
    random = np.random.default_rng(problem.seed)
    epochs = max(_EPOCHS, -(-_LEAST_VISITS // pool.num_segments))
    halvings = 0
    try:
        for epoch in range(1, epochs + 1):
            moved = mira.learn(random.permutation(pool.num_segments))
            weights = mira.average()
            score = pool.score(problem.metric, weights)
            if score > best_score:
                best, best_score = weights, score
            problem.report(
                f"epoch {epoch}: {problem.metric.name} {100 * score:.2f},"
                f" best so far {100 * best_score:.2f}"
            )
            if not moved and halvings < _MOST_HALVINGS:
                mira.halve()
                halvings += 1
    except StopTuning:
        pass
    return best


@kept_njit()
def _hope_and_fear(
    features: Any, first: int, end: int, weights: Any, indices: Any, gains: Any
) -> Any:
    """Return the rows of the hope (score + gain) and the fear (score - gain); the first on ties."""
    hope = fear = first
    highest = lowest = -np.inf
    for row in range(first, end):
        score = 0.0
        for column in range(len(weights)):
            score += features[row, column] * weights[column]
        gain = gains[indices[row]]
        if score + gain > highest:
            highest, hope = score + gain, row
        if score - gain > lowest:
            lowest, fear = score - gain, row
    return hope, fear
