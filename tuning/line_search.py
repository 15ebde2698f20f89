"""Exact search along a line in weight space: the metric as a function of the step.

The model score of a hypothesis is a linear function of the step. The best hypothesis for a segment
is the highest line, so it changes at the breakpoints of the upper envelope. Between adjacent
breakpoints of all segments the metric is constant, and it is computed for all intervals at once
(Och, 2003, Minimum Error Rate Training in Statistical Machine Translation, section 5).

An envelope has few lines and a list has many, so lines are not sorted by slope. Instead, the
highest lines at both ends are computed, then the highest line at their intersection. If this is a
third line, both of its sides are searched in the same way (as in quickhull).
"""

from typing import Any, NamedTuple

import numpy as np

from phrasescore.io.kernel_cache import kept_njit
from tuning.metrics import Integers, Metric, Statistics
from tuning.pool import Vector

# The minimum width of an optimum, in steps, for weights of length 1. Weights within a narrower
# optimum would need more digits than Moses' files have.
MIN_WIDTH = 1e-6
REACH = 0.1  # the maximum step into an interval that extends to the end of the search range


class Profile(NamedTuple):
    """The metric along a line: constant in each interval, different in adjacent intervals."""

    # (intervals + 1,): in ascending order; the first and last are the ends of the search range.
    edges: Vector
    scores: Vector  # (intervals,): the metric in each interval


class LineStep(NamedTuple):
    """A step along a line, with the metric at its end, and the gain over step 0."""

    step: float
    score: float
    gain: float


def metric_along(
    slopes: Vector,
    intercepts: Vector,
    stats: Statistics,
    starts: Integers,
    metric: Metric,
    limit: float,
) -> Profile:
    """Return the metric along a line, for steps from -limit to limit."""
    envelopes = upper_envelopes(slopes, intercepts, starts, -limit, limit)
    firsts = envelopes.starts[:-1]
    is_change = np.ones(len(envelopes.rows), np.bool_)
    is_change[firsts] = False
    after = np.flatnonzero(is_change)
    changes = stats[envelopes.rows[after]] - stats[envelopes.rows[after - 1]]
    visible = np.flatnonzero(changes.any(axis=1))  # many hypotheses have the same text
    steps = envelopes.begins[after[visible]]
    order = np.argsort(steps, kind="stable")
    base = stats[envelopes.rows[firsts]].sum(axis=0)
    sums = np.cumsum(np.concatenate([base[None], changes[visible[order]]]), axis=0)
    edges = np.concatenate([[-limit], steps[order], [limit]])
    # Drop empty intervals, and merge adjacent intervals with equal scores.
    wide = np.flatnonzero(edges[1:] > edges[:-1])
    begins, scores = edges[wide], metric.score(sums)[wide]
    new = np.concatenate([[True], scores[1:] != scores[:-1]])
    return Profile(np.append(begins[new], edges[-1]), scores[new])


def best_step(profile: Profile) -> LineStep:
    """Return the step to the middle of the best interval, or 0 if no interval is wide enough.

    Ties are resolved in favour of the widest interval, then the one nearest to 0, then the one with
    the smallest steps. Intervals narrower than MIN_WIDTH are ignored.
    """
    edges, scores = profile
    here = int(np.searchsorted(edges[1:-1], 0.0, side="right"))
    wide = np.flatnonzero(np.diff(edges) >= MIN_WIDTH)
    if not len(wide):
        return LineStep(0.0, float(scores[here]), 0.0)
    lows, highs = edges[wide], edges[wide + 1]
    middles = (lows + highs) / 2
    if wide[0] == 0:
        middles[0] = max(middles[0], highs[0] - REACH)
    if wide[-1] == len(scores) - 1:
        middles[-1] = min(middles[-1], lows[-1] + REACH)
    if len(scores) == 1:
        middles[0] = 0.0
    chosen = np.lexsort((middles, np.abs(middles), lows - highs, -scores[wide]))[0]
    best = wide[chosen]
    return LineStep(float(middles[chosen]), float(scores[best]), float(scores[best] - scores[here]))


_KERNEL = kept_njit()

# Number of lanes for computing maxima, so that the compiler can vectorise the loop. In
# measurements 64 was best, 5 times as fast as a plain loop.
_LANES = 64


class Envelopes(NamedTuple):
    """The concatenated upper envelopes of all segments."""

    starts: Integers  # (segments + 1,): the envelope of segment s is starts[s] to starts[s + 1]
    rows: Integers  # the hypotheses in ascending order of slope, as rows of the pool
    begins: Vector  # where each hypothesis becomes highest; ``low`` for a segment's first


def upper_envelopes(
    slopes: Vector, intercepts: Vector, starts: Integers, low: float, high: float
) -> Envelopes:
    """Return the upper envelope of each segment's lines between two steps.

    Among equal lines, the earliest is used. A line that only touches the envelope at a point is not
    part of it, except through rounding: its interval is then about 1e-16 wide, or empty.
    """
    counts = np.zeros(len(starts), np.int64)
    rows = np.empty(len(slopes), np.int64)
    begins = np.empty(len(slopes))
    size = _fill_envelopes(slopes, intercepts, starts, low, high, counts, rows, begins)
    return Envelopes(np.cumsum(counts), rows[:size].copy(), begins[:size].copy())


@_KERNEL
def _highest(slopes: Any, intercepts: Any, first: int, end: int, step: float, lanes: Any) -> Any:
    """Return the highest line at a step, the first on ties, and its height."""
    lanes[:] = -np.inf
    for begin in range(first, end, _LANES):
        slope, intercept = slopes[begin : begin + _LANES], intercepts[begin : begin + _LANES]
        for lane in range(min(_LANES, end - begin)):
            height = slope[lane] * step + intercept[lane]
            lanes[lane] = height if height > lanes[lane] else lanes[lane]
    best = -np.inf
    for height in lanes:
        best = max(best, height)
    best_row = end
    for lane in range(_LANES):
        if lanes[lane] == best:
            for row in range(first + lane, best_row, _LANES):
                if slopes[row] * step + intercepts[row] == best:
                    best_row = row
                    break
    return best_row, best


@_KERNEL
def _fill_envelopes(slopes, intercepts, starts, low, high, counts, rows, begins):  # type: ignore[no-untyped-def]
    size = 0
    lanes = np.empty(_LANES)
    pending = np.empty(len(rows), np.int64)  # lines to the right of the current one, nearest last
    for segment in range(len(starts) - 1):
        first, end = starts[segment], starts[segment + 1]
        current, _ = _highest(slopes, intercepts, first, end, low, lanes)
        pending[0], _ = _highest(slopes, intercepts, first, end, high, lanes)
        depth, begin, before = 1, low, size
        rows[size], begins[size] = current, begin
        size += 1
        while depth > 0:
            right = pending[depth - 1]
            rise = slopes[right] - slopes[current]
            if rise <= 0.0:  # the same line, up to rounding
                depth -= 1
                continue
            step = (intercepts[current] - intercepts[right]) / rise
            step = min(max(step, begin), high)
            between, height = _highest(slopes, intercepts, first, end, step, lanes)
            if (
                slopes[current] < slopes[between] < slopes[right]
                and height > slopes[current] * step + intercepts[current]
                and height > slopes[right] * step + intercepts[right]
            ):
                pending[depth] = between
                depth += 1
            else:
                current, begin = right, step
                rows[size], begins[size] = current, begin
                size += 1
                depth -= 1
        counts[segment + 1] = size - before
    return size
