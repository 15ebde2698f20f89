"""Promises of tuning.line_search: the metric at every step, by brute force, and the choice."""

import numpy as np
import pytest

from tuning.bleu import CorpusBleu
from tuning.line_search import REACH, Profile, best_step, metric_along

LIMIT = 5.0


class Share:
    """The share of a first statistic in a second: a metric that can be worked out by hand."""

    name = "share"
    num_stats = 2

    def score(self, sums: np.ndarray) -> np.ndarray:
        return np.asarray(sums[..., 0] / sums[..., 1])


def random_bleu_statistics(random: np.random.Generator, how_many: int) -> np.ndarray:
    totals = np.array([8, 7, 6, 5]) + random.integers(0, 3, (how_many, 1))
    matches = random.integers(1, totals - 1)
    return np.concatenate([matches, totals, np.full((how_many, 1), 9)], axis=1).astype(np.float64)


def test_the_metric_is_that_of_brute_force_at_thousands_of_steps() -> None:
    random = np.random.default_rng(2)
    metric = CorpusBleu()
    for trial in range(150):
        counts = random.integers(1, 9, random.integers(1, 8))
        starts = np.concatenate([[0], np.cumsum(counts)])
        stats = random_bleu_statistics(random, starts[-1])
        slopes, intercepts = random.normal(size=(2, starts[-1]))
        if trial % 2:
            slopes, intercepts = np.round(2 * slopes), np.round(2 * intercepts)
        profile = metric_along(slopes, intercepts, stats, starts, metric, LIMIT)
        assert profile.edges[0] == -LIMIT
        assert profile.edges[-1] == LIMIT
        assert (np.diff(profile.edges) > 0).all()
        assert (np.diff(profile.scores) != 0).all()
        middles = (profile.edges[1:] + profile.edges[:-1]) / 2
        # No multiple of 1/97 is a crossing of lines of whole numbers, but 0 and -5 and 5.
        for step in [*middles, *(np.arange(1, 970, 13) / 97 - LIMIT)]:
            heights = np.split(slopes * step + intercepts, starts[1:-1])
            # Along a tie, to the last digit, either may have been taken.
            if any(gap(part) < 1e-9 for part in heights):
                continue
            best = starts[:-1] + [int(part.argmax()) for part in heights]
            place = np.searchsorted(profile.edges, step, side="right") - 1
            assert profile.scores[place] == float(metric.score(stats[best].sum(axis=0)))


def gap(heights: np.ndarray) -> float:
    """Return by how much the highest is above the next one that differs from it."""
    others = heights[heights < heights.max()]
    return float(heights.max() - others.max()) if len(others) else np.inf


def test_a_line_search_by_hand() -> None:
    # Segment 0: hypothesis 1 above 0 from step 1 on. Segment 1: 3 above 2 from step 2 on.
    slopes = np.array([0.0, 1.0, 0.0, 1.0])
    intercepts = np.array([1.0, 0.0, 2.0, 0.0])
    stats = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    profile = metric_along(slopes, intercepts, stats, np.array([0, 2, 4]), Share(), LIMIT)
    assert profile.edges.tolist() == [-LIMIT, 1, 2, LIMIT]
    assert profile.scores.tolist() == [0.5, 1.0, 0.5]
    assert best_step(profile) == (1.5, 1.0, 0.5)


def test_hypotheses_with_the_same_statistics_make_no_interval() -> None:
    slopes, intercepts = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    stats = np.array([[1.0, 2.0], [1.0, 2.0]])
    profile = metric_along(slopes, intercepts, stats, np.array([0, 2]), Share(), LIMIT)
    assert profile.edges.tolist() == [-LIMIT, LIMIT]
    assert best_step(profile) == (0.0, 0.5, 0.0)


def test_two_segments_that_change_at_one_step_change_together() -> None:
    slopes, intercepts = np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 0.0, 1.0, 0.0])
    stats = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    profile = metric_along(slopes, intercepts, stats, np.array([0, 2, 4]), Share(), LIMIT)
    assert profile.edges.tolist() == [-LIMIT, 1, LIMIT]
    assert profile.scores.tolist() == [0.0, 1.0]


def profile_of(edges: list[float], scores: list[float]) -> Profile:
    return Profile(np.array(edges), np.array(scores))


def test_of_equally_good_intervals_the_widest_is_taken() -> None:
    found = best_step(profile_of([-9, 1, 2, 3, 5, 9], [0.1, 0.5, 0.2, 0.5, 0.1]))
    assert (found.step, found.score) == (4.0, 0.5)


def test_of_equally_wide_ones_the_nearest_is_taken_and_then_the_lowest() -> None:
    scores = [0.1, 0.5, 0.2, 0.5, 0.1]
    assert best_step(profile_of([-9, -4, -2, 1, 3, 9], scores)).step == 2.0
    assert best_step(profile_of([-9, -3, -1, 1, 3, 9], scores)).step == -2.0


def test_a_needle_is_not_taken() -> None:
    found = best_step(profile_of([-9, 1, 1 + 1e-7, 2, 3, 9], [0.1, 0.9, 0.2, 0.5, 0.1]))
    assert (found.step, found.score, found.gain) == (2.5, 0.5, 0.4)
    assert best_step(profile_of([-1e-7, 0.0, 1e-7], [0.1, 0.9])) == (0.0, 0.9, 0.0)


def test_a_step_into_an_open_end_is_short() -> None:
    assert best_step(profile_of([-9, 1, 9], [0.1, 0.5])).step == 1 + REACH
    assert best_step(profile_of([-9, 1, 9], [0.5, 0.1])).step == 1 - REACH
    assert best_step(profile_of([-9, 8.9, 9], [0.1, 0.5])).step == pytest.approx(8.95)


def test_smoothing_prefers_a_plateau_to_a_peak_among_pits() -> None:
    profile = profile_of([-9, 1, 2, 3, 4, 5, 6, 9], [0.1, 0.9, 0.1, 0.6, 0.7, 0.6, 0.1])
    assert best_step(profile).step == 1.5
    # Worst of three: 0.1 around the peak of 0.9, 0.6 around 0.7; step 0 has min(0.1, 0.9).
    found = best_step(profile, neighbours=1)
    assert (found.step, found.score, found.gain) == (4.5, 0.7, 0.5)


def test_the_gain_is_measured_from_where_the_search_stands() -> None:
    found = best_step(profile_of([-9, -1, 1, 9], [0.7, 0.5, 0.1]))
    assert found.gain == pytest.approx(0.2)
    assert best_step(profile_of([-9, -1, 1, 9], [0.1, 0.5, 0.1])) == (0.0, 0.5, 0.0)
