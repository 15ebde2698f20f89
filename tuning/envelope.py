"""Upper envelopes of lines: the best hypotheses along a direction.

Along a direction in weight space the model score of a hypothesis is a line in the step: the
intercept is the score at the origin, the slope is features @ direction. The best hypothesis of a
segment is the highest line, so it changes at the breakpoints of the upper envelope (Och, 2003,
Minimum Error Rate Training in Statistical Machine Translation, section 5).

An envelope has few lines, a list has many. So lines are not sorted by slope. The highest lines at
both ends are found, and the highest at their intersection. If that is a third line, it lies between
them, and both of its sides are searched in the same way (as in quickhull). For an envelope of k
lines, all lines are evaluated at most 2k times, each time in one vectorised pass.
"""

from typing import Any, NamedTuple

import numpy as np

from phrasescore.io.kernel_cache import kept_njit
from tuning.ngrams import Integers
from tuning.pool import Vector

_KERNEL = kept_njit()

# Maxima are computed in this many lanes, so that the compiler can vectorise the loop (64 measured
# fastest, 5 times as fast as a plain loop).
_LANES = 64


class Envelopes(NamedTuple):
    """The concatenated upper envelopes of all segments."""

    # (segments + 1,): the envelope of segment s is starts[s] to starts[s + 1].
    starts: Integers
    # The hypotheses in order of their slopes, as rows of the pool.
    rows: Integers
    # The step from which each is the highest: ``low`` first in each segment, never falling.
    begins: Vector


def upper_envelopes(
    slopes: Vector, intercepts: Vector, starts: Integers, low: float, high: float
) -> Envelopes:
    """Return the upper envelope of each segment's lines between two steps.

    The earliest of equal lines is taken. A line that touches the envelope in a single point is not
    part of it, except by rounding: its interval is then about 1e-16 wide, or empty.

    :param slopes: (hypotheses,), finite, as are the intercepts.
    :param starts: (segments + 1,), from the pool.
    :param low: finite, below ``high``.
    """
    counts = np.zeros(len(starts), np.int64)
    rows = np.empty(len(slopes), np.int64)
    begins = np.empty(len(slopes))
    size = _fill_envelopes(slopes, intercepts, starts, low, high, counts, rows, begins)
    return Envelopes(np.cumsum(counts), rows[:size].copy(), begins[:size].copy())


@_KERNEL
def _highest(slopes: Any, intercepts: Any, first: int, end: int, step: float, lanes: Any) -> Any:
    """Return the first of the highest lines at a step, and its height."""
    lanes[:] = -np.inf
    for begin in range(first, end, _LANES):
        slope, intercept = slopes[begin : begin + _LANES], intercepts[begin : begin + _LANES]
        for lane in range(min(_LANES, end - begin)):
            height = slope[lane] * step + intercept[lane]
            lanes[lane] = height if height > lanes[lane] else lanes[lane]
    best = lanes.max()
    best_row = end
    for lane in range(_LANES):
        if lanes[lane] == best:
            for row in range(first + lane, best_row, _LANES):
                if slopes[row] * step + intercepts[row] == best:
                    best_row = row
                    break
    return best_row, best


@_KERNEL
def _fill_envelopes(
    slopes: Any,
    intercepts: Any,
    starts: Any,
    low: float,
    high: float,
    counts: Any,
    rows: Any,
    begins: Any,
) -> Any:
    size = 0
    lanes = np.empty(_LANES)
    pending = np.empty(len(rows), np.int64)  # lines right of the current one, the nearest last
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
