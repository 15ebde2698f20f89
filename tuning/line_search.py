"""Exact search along a line: the metric as a function of the step, and the best step.

The metric of the hypotheses chosen changes only where the best hypothesis of some segment does. So
all breakpoints of all segments, sorted, cut the line into intervals; going through them the summed
statistics change by one hypothesis' statistics at a time, and the metric of all intervals is
computed at once (Och, 2003, section 5).
"""

from typing import NamedTuple

import numpy as np

from tuning.envelope import upper_envelopes
from tuning.metric import Metric, Statistics
from tuning.ngrams import Integers
from tuning.pool import Vector

# An optimum narrower than this is not taken: the weights around it would have to be exact to more
# digits than Moses' files have. In steps, where the weights searched from have length 1.
MIN_WIDTH = 1e-6
# In an interval that only the end of the search closes, this far from its other edge at most.
REACH = 0.1


class Profile(NamedTuple):
    """The metric along a line: constant in each interval, and different in the next one."""

    # (intervals + 1,): rising; the first and last are the ends of the search.
    edges: Vector
    # (intervals,), 0 to 1.
    scores: Vector


class LineStep(NamedTuple):
    """A place on the line."""

    step: float
    # The metric there.
    score: float
    # By how much the value is higher than at step 0: that of the metric, or, with smoothing, of
    # the worst of the neighbourhood.
    gain: float


def metric_along(
    slopes: Vector,
    intercepts: Vector,
    stats: Statistics,
    starts: Integers,
    metric: Metric,
    limit: float,
) -> Profile:
    """Return the metric for every step from -limit to limit.

    :param slopes: (hypotheses,), features times the direction.
    :param intercepts: (hypotheses,), model scores where the step is 0.
    :param stats: (hypotheses, num_stats).
    :param starts: (segments + 1,), as a pool has them.
    :param limit: above 0.
    """
    found = upper_envelopes(slopes, intercepts, starts, -limit, limit)
    firsts = found.starts[:-1]
    is_change = np.ones(len(found.rows), np.bool_)
    is_change[firsts] = False
    after = np.flatnonzero(is_change)
    changes = stats[found.rows[after]] - stats[found.rows[after - 1]]
    seen = np.flatnonzero(changes.any(axis=1))  # one sentence is often built in several ways
    steps = found.begins[after[seen]]
    order = np.argsort(steps, kind="stable")
    base = stats[found.rows[firsts]].sum(axis=0)
    sums = np.cumsum(np.concatenate([base[None], changes[seen[order]]]), axis=0)
    edges = np.concatenate([[-limit], steps[order], [limit]])
    return _join(edges, metric.score(sums))


def _join(edges: Vector, scores: Vector) -> Profile:
    """Return intervals without empty ones, and with neighbours of one score as one."""
    wide = np.flatnonzero(edges[1:] > edges[:-1])
    begins, scores = edges[wide], scores[wide]
    new = np.concatenate([[True], scores[1:] != scores[:-1]])
    return Profile(np.append(begins[new], edges[-1]), scores[new])


def best_step(profile: Profile, *, neighbours: int = 0, min_width: float = MIN_WIDTH) -> LineStep:
    """Return the step to the middle of the best interval.

    Of equally good intervals the widest is taken, then the one nearest to 0, then the lowest. If
    no interval is wide enough, the step is 0.

    :param neighbours: the number of intervals on each side that count: the value of an interval is
        the worst metric among itself and them (Cer et al., 2008, Regularization and Search for
        Minimum Error Rate Training, section 3.2, "max-min"). With 0 it is its own.
    :param min_width: narrower intervals are not taken, and are nobody's neighbours.
    """
    edges, scores = profile
    here = int(np.searchsorted(edges[1:-1], 0.0, side="right"))
    wide = np.flatnonzero(np.diff(edges) >= min_width)
    if not len(wide):
        return LineStep(0.0, float(scores[here]), 0.0)
    values = scores.copy()
    values[wide] = _worst_around(scores[wide], neighbours)
    lows, highs = edges[wide], edges[wide + 1]
    places = (lows + highs) / 2
    if wide[0] == 0:
        places[0] = max(places[0], highs[0] - REACH)
    if wide[-1] == len(scores) - 1:
        places[-1] = min(places[-1], lows[-1] + REACH)
    if len(scores) == 1:
        places[0] = 0.0
    chosen = np.lexsort((places, np.abs(places), lows - highs, -values[wide]))[0]
    best = wide[chosen]
    return LineStep(float(places[chosen]), float(scores[best]), float(values[best] - values[here]))


def _worst_around(scores: Vector, neighbours: int) -> Vector:
    worst = scores.copy()
    for shift in range(1, min(neighbours, len(scores) - 1) + 1):
        worst[shift:] = np.minimum(worst[shift:], scores[:-shift])
        worst[:-shift] = np.minimum(worst[:-shift], scores[shift:])
    return worst
