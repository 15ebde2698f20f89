"""Exact search along a line: the metric as a function of the step, and the best step.

The metric changes only where the best hypothesis of some segment changes. So the sorted breakpoints
of all segments divide the line into intervals. From one to the next, the summed statistics change
by one hypothesis, and the metric of all intervals is computed at once (Och, 2003, section 5).
"""

from typing import NamedTuple

import numpy as np

from tuning.envelope import upper_envelopes
from tuning.metric import Metric, Statistics
from tuning.ngrams import Integers
from tuning.pool import Vector

# The narrowest optimum that is taken. The weights of a narrower one would need more digits than
# Moses' files have. In steps, for weights of length 1.
MIN_WIDTH = 1e-6
# The largest step into an interval that is only closed by the end of the search.
REACH = 0.1


class Profile(NamedTuple):
    """The metric along a line: constant in each interval, different in neighbouring ones."""

    # (intervals + 1,): rising; the first and the last are the ends of the search.
    edges: Vector
    # (intervals,), 0 to 1.
    scores: Vector


class LineStep(NamedTuple):
    """A point on the line."""

    step: float
    # The metric at this step.
    score: float
    # The rise compared to step 0 of the metric or, with smoothing, of the worst neighbour.
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

    :param slopes: (hypotheses,), features @ direction.
    :param intercepts: (hypotheses,), model scores at step 0.
    """
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
    return _join(edges, metric.score(sums))


def _join(edges: Vector, scores: Vector) -> Profile:
    """Return a profile without empty intervals, joining neighbours of equal score."""
    wide = np.flatnonzero(edges[1:] > edges[:-1])
    begins, scores = edges[wide], scores[wide]
    new = np.concatenate([[True], scores[1:] != scores[:-1]])
    return Profile(np.append(begins[new], edges[-1]), scores[new])


def best_step(profile: Profile, *, neighbours: int = 0, min_width: float = MIN_WIDTH) -> LineStep:
    """Return the step to the middle of the best interval.

    The widest of equally good intervals is taken, then the one nearest to 0, then the lowest. If no
    interval is wide enough, the step is 0.

    :param neighbours: how many intervals on each side are included: the value of an interval is the
        worst metric among them (Cer et al., 2008, Regularization and Search for Minimum Error Rate
        Training, section 3.2, "max-min").
    :param min_width: narrower intervals are ignored, also as neighbours.
    """
    edges, scores = profile
    here = int(np.searchsorted(edges[1:-1], 0.0, side="right"))
    wide = np.flatnonzero(np.diff(edges) >= min_width)
    if not len(wide):
        return LineStep(0.0, float(scores[here]), 0.0)
    values = scores.copy()
    values[wide] = _worst_around(scores[wide], neighbours)
    lows, highs = edges[wide], edges[wide + 1]
    middles = (lows + highs) / 2
    if wide[0] == 0:
        middles[0] = max(middles[0], highs[0] - REACH)
    if wide[-1] == len(scores) - 1:
        middles[-1] = min(middles[-1], lows[-1] + REACH)
    if len(scores) == 1:
        middles[0] = 0.0
    chosen = np.lexsort((middles, np.abs(middles), lows - highs, -values[wide]))[0]
    best = wide[chosen]
    return LineStep(float(middles[chosen]), float(scores[best]), float(values[best] - values[here]))


def _worst_around(scores: Vector, neighbours: int) -> Vector:
    worst = scores.copy()
    for shift in range(1, min(neighbours, len(scores) - 1) + 1):
        worst[shift:] = np.minimum(worst[shift:], scores[:-shift])
        worst[:-shift] = np.minimum(worst[:-shift], scores[shift:])
    return worst
