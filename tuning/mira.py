"""MIRA on n-best lists: weights move so that good hypotheses beat bad ones by their difference.

Cherry and Foster (2012), Batch Tuning Strategies for Statistical Machine Translation, section 2.3
and figure 1. Segment by segment, the hope (much model score and much gain) is held against the fear
(much model score, little gain), and the weights take the smallest step after which the
hope's model score is higher by as much as its gain is, but no step is too large. The gain of a
hypothesis is the score that it adds to that of a pseudo-corpus: the hopes of earlier segments,
which fade.
"""

from typing import Any, NamedTuple

import numpy as np

from phrasescore.io.kernel_cache import kept_njit
from tuning.methods import Found, Problem, StopTuning
from tuning.metric import Metric, Statistics
from tuning.ngrams import Integers
from tuning.pool import Pool, Vector

# Gains are a segment's share of the score times this. Moses' kbmira has the words of the references
# in its place (Chiang et al., 2008), which a metric need not know; its step limits fit this size.
_GAIN = 10.0
# The standard deviation of model scores inside segments at the start, in units of gains.
_SPREAD = 3.0
# Segments to go through, at least: steps are short, and a few segments are soon gone through.
_LEAST_VISITS = 2000
# The number of times that model scores are halved at most: to a millionth.
_MOST_HALVINGS = 20


class _Groups(NamedTuple):
    """The hypotheses of each segment by their statistics: equals gain the same."""

    # (hypotheses,): the place of each one's group among those of its segment.
    places: Integers
    # (groups, num_stats), and where those of each segment start: (segments + 1,).
    stats: Statistics
    starts: Integers


class _Corpus:
    """The pseudo-corpus: statistics of the hopes so far, the older the fewer."""

    def __init__(self, pool: Pool, metric: Metric, decay: float) -> None:
        # One segment to begin with, with the average statistics of hypotheses.
        self._sums = pool.stats.mean(axis=0)
        self._size = 1.0
        self._metric = metric
        self._decay = decay

    def gains(self, stats: Statistics) -> Vector:
        """Return the gain of each hypothesis of a segment, up to a constant."""
        return np.asarray(self._metric.score(self._sums + stats) * ((self._size + 1) * _GAIN))

    def add(self, stats: Statistics) -> None:
        """Let the corpus fade and add a segment."""
        self._sums = self._sums * self._decay + stats
        self._size = self._size * self._decay + 1


class _Mira:
    """Weights that learn from one segment after the other."""

    def __init__(self, problem: Problem, scale: float) -> None:
        """Start from the problem's weights, times a scale."""
        self._problem = problem
        self._scale = scale
        self._units = problem.pool.deviations()
        self._groups = _group(problem.pool)
        self._corpus = _Corpus(problem.pool, problem.metric, problem.settings.decay)
        self._weights = problem.start * scale * self._units
        self._total = np.zeros(len(self._weights))
        self._count = 0

    def average(self) -> Vector:
        """Return the average of the weights after each segment so far.

        Also of those that moved nothing: so that it comes to rest where the weights do. Moses'
        kbmira averages over steps only.
        """
        return np.asarray(self._total / self._count / self._units / self._scale)

    def halve(self) -> None:
        """Give gains more influence on hopes, and begin a new average.

        Where model scores differ by more than gains, hope and fear are both the model's best,
        however bad it is, and nothing moves (kbmira has --safe-hope against it). In large pools
        some segment always moves something.
        """
        self._weights = self._weights / 2
        self._scale /= 2
        self._total = np.zeros(len(self._weights))
        self._count = 0

    def learn(self, segments: Integers) -> bool:
        """Go through segments in the order given, and return whether any moved the weights."""
        pool, groups = self._problem.pool, self._groups
        moved = False
        for segment in segments:
            stats = groups.stats[groups.starts[segment] : groups.starts[segment + 1]]
            gains = self._corpus.gains(stats)
            first, end = pool.starts[segment], pool.starts[segment + 1]
            raw = self._weights / self._units
            hope, fear = _hope_and_fear(pool.features, first, end, raw, groups.places, gains)
            gain = gains[groups.places[hope]] - gains[groups.places[fear]]
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
        step = min(self._problem.settings.step_limit, loss / length)
        self._weights = self._weights + step * difference
        return True


def search_mira(problem: Problem) -> Found:
    """Return the average weights after the epoch whose average does best on the pool.

    Segments come in an order drawn anew in each epoch. Features are in units of their deviations.
    After an epoch that moved nothing, model scores are halved, and gains count for more. Pools of
    a few segments get more epochs than they are told.
    """
    pool, settings = problem.pool, problem.settings
    mira = _Mira(problem, _SPREAD / (pool.score_deviation(problem.start) or _SPREAD))
    best, best_score = problem.start, pool.score(problem.metric, problem.start)
    random = np.random.default_rng(problem.seed)
    epochs = max(settings.epochs, -(-_LEAST_VISITS // pool.num_segments))
    epoch = halvings = 0
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
    return Found(best, epoch)


def _group(pool: Pool) -> _Groups:
    places, firsts, starts = _group_rows(pool.stats, pool.starts)
    return _Groups(places, pool.stats[firsts], starts)


_KERNEL = kept_njit()


@_KERNEL
def _group_rows(stats: Any, starts: Any) -> Any:
    """Return of each row the place of its group in the segment; first rows; starts of segments."""
    places = np.empty(len(stats), np.int64)
    firsts = np.empty(len(stats), np.int64)
    keys = np.empty(len(stats))
    ends = np.zeros(len(starts), np.int64)
    size = 0
    for segment in range(len(starts) - 1):
        base = size
        for row in range(starts[segment], starts[segment + 1]):
            key = 0.0  # seldom the same for different statistics, and then they are compared
            for column in range(stats.shape[1]):
                key = key * 1.618033988749895 + stats[row, column]
            found = size
            for group in range(base, size):
                if keys[group] == key and (stats[firsts[group]] == stats[row]).all():
                    found = group
                    break
            if found == size:
                keys[size], firsts[size] = key, row
                size += 1
            places[row] = found - base
        ends[segment + 1] = size
    return places, firsts[:size].copy(), ends


@_KERNEL
def _hope_and_fear(
    features: Any, first: int, end: int, weights: Any, places: Any, gains: Any
) -> Any:
    """Return the rows of the highest score plus gain, and less gain; of equals the first."""
    hope = fear = first
    highest = lowest = -np.inf
    for row in range(first, end):
        score = 0.0
        for column in range(len(weights)):
            score += features[row, column] * weights[column]
        gain = gains[places[row]]
        if score + gain > highest:
            highest, hope = score + gain, row
        if score - gain > lowest:
            lowest, fear = score - gain, row
    return hope, fear
