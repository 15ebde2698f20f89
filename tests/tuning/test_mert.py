"""MERT and its line search: as good as brute force, and tie cases."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.extracted_lists import read_extracted, read_start
from tests.random_pools import random_pool
from tuning import mert
from tuning.line_search import REACH, Profile, best_step, metric_along
from tuning.methods import optimise
from tuning.metrics import CorpusBleu, Metric
from tuning.pool import Pool
from tuning.settings import TuneSettings

METRIC = CorpusBleu()


class Words:
    """The share of matching words: another metric than BLEU, and of the same statistics."""

    name = "words"
    num_stats = 9

    def score(self, sums: np.ndarray) -> np.ndarray:
        return np.asarray(sums[..., 0] / sums[..., 4])


def differences(pool: Pool) -> list[np.ndarray]:
    return [
        pool.features[one] - pool.features[other]
        for begin, end in itertools.pairwise(pool.starts)
        for one, other in itertools.combinations(range(begin, end), 2)
    ]


def directions_of_two(pool: Pool) -> Iterator[np.ndarray]:
    angles = [np.arctan2(normal[0], -normal[1]) % np.pi for normal in differences(pool)]
    rising = np.sort([*angles, *(angle + np.pi for angle in angles)])
    for low, high in itertools.pairwise([*rising, rising[0] + 2 * np.pi]):
        middle = (low + high) / 2
        yield np.array([np.cos(middle), np.sin(middle)])


def directions_of_three(pool: Pool) -> Iterator[np.ndarray]:
    """Yield a direction in each of the four cells around every corner of the arrangement.

    The planes cut the sphere into cells; each has a corner, where two planes meet.
    """
    for one, other in itertools.combinations(differences(pool), 2):
        corner = np.cross(one, other)
        corner /= np.linalg.norm(corner)
        base = np.stack([one, other, corner])
        for signs in itertools.product((-1e-4, 1e-4), repeat=2):
            inward = np.linalg.solve(base, [*signs, 0.0])
            yield corner + inward
            yield -corner + inward


def check_optimum(pool: Pool, metric: Metric, directions: Iterator[np.ndarray], seed: int) -> None:
    best = max(pool.score(metric, direction) for direction in directions)
    start = np.random.default_rng(seed).normal(size=len(pool.labels))
    found = optimise("mert", pool, metric, start, TuneSettings(), seed=seed)
    assert found.score == best


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 40), marks=pytest.mark.slow)])
@pytest.mark.parametrize("metric", [METRIC, Words()], ids=["bleu", "words"])
def test_of_two_features_the_best_of_all_directions_is_found(metric: Metric, seeds: range) -> None:
    for seed in seeds:
        pool = random_pool(seed, num_segments=5, size=6, quality=(0.3, -0.2))
        check_optimum(pool, metric, directions_of_two(pool), seed)


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 25), marks=pytest.mark.slow)])
def test_of_three_features_the_best_of_all_directions_is_found(seeds: range) -> None:
    for seed in seeds:
        pool = random_pool(seed, num_segments=4, size=4, quality=(0.3, -0.2, 0.1))
        check_optimum(pool, METRIC, directions_of_three(pool), seed)


def test_without_random_starts_it_climbs_from_the_weights_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"NEAR_STARTS": 0, "DIRECTIONS": 0, "MOST_ROUNDS": 1}.items():
        monkeypatch.setattr(mert, name, value)
    start, settings = np.array([1.0, 0.1, 0.1]), TuneSettings(starts=0)
    found = optimise("mert", random_pool(4), METRIC, start, settings, seed=1)
    assert found.score > found.start_score


@pytest.mark.parametrize(("small", "expected"), [(90, 4), (180, 4), (900, 20), (9000, 40)])
def test_the_smaller_a_pool_the_more_often_starts_are_drawn_near_the_best(
    monkeypatch: pytest.MonkeyPatch, small: int, expected: int
) -> None:
    monkeypatch.setattr(mert, "SMALL", small)
    assert mert._generations(180) == expected


def test_features_may_have_any_scale() -> None:
    pool = random_pool(5)
    scales = np.array([1e-6, 1.0, 1e6])
    wide = Pool(pool.labels, pool.features * scales, pool.stats, pool.starts)
    start = np.array([0.5, 0.5, 0.5])
    one = optimise("mert", pool, METRIC, start, TuneSettings(), seed=1)
    other = optimise("mert", wide, METRIC, start / scales, TuneSettings(), seed=1)
    assert other.score == one.score
    assert other.weights * scales / other.weights[1] == pytest.approx(
        one.weights / one.weights[1], rel=1e-6
    )


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
    for trial in range(40):
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


def test_the_gain_is_measured_from_where_the_search_stands() -> None:
    found = best_step(profile_of([-9, -1, 1, 9], [0.7, 0.5, 0.1]))
    assert found.gain == pytest.approx(0.2)
    assert best_step(profile_of([-9, -1, 1, 9], [0.1, 0.5, 0.1])) == (0.0, 0.5, 0.0)


def test_each_step_reports_the_best_so_far() -> None:
    lines: list[str] = []
    pool = random_pool(3)
    optimise("mert", pool, METRIC, np.ones(3), TuneSettings(), seed=1, report=lines.append)
    ends = [at for at, line in enumerate(lines) if " starts: BLEU " in line]
    assert ends
    for at in ends:
        assert lines[at - 1].startswith(f"best so far {lines[at].rpartition(' ')[2]}, start ")


@pytest.mark.slow
def test_real_lists_reach_more_than_with_moses_mert(shared_data: Path) -> None:
    # shared/data/README.md: Moses' mert, from the same start with 20 random starts, reached 56.95.
    names = ("features.dat.gz", "scores.dat.gz", "init.default.opt")
    features, scores, start = (str(shared_data / "mert" / name) for name in names)
    pool, settings = read_extracted(features, scores), TuneSettings(starts=3, threads=2)
    found = optimise("mert", pool, METRIC, read_start(start), settings, seed=1)
    assert found.score >= 0.5695
