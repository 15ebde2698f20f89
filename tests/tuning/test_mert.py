"""Promises of tuning.mert: the best of all directions, where all can be tried."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.random_pools import random_pool
from tuning import mert
from tuning.bleu import CorpusBleu
from tuning.methods import Problem, load_method
from tuning.metric import Metric
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
    """Return the normals of all planes on which two hypotheses of a segment score the same."""
    return [
        pool.features[one] - pool.features[other]
        for begin, end in itertools.pairwise(pool.starts)
        for one, other in itertools.combinations(range(begin, end), 2)
    ]


def directions_of_two(pool: Pool) -> Iterator[np.ndarray]:
    """Yield a direction between every two neighbouring angles at which a choice changes."""
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
    start = np.random.default_rng(seed).normal(size=pool.num_features)
    found = load_method("mert")(pool, metric, start, TuneSettings(), seed=seed)
    assert found.score == best


@pytest.mark.parametrize("metric", [METRIC, Words()], ids=["bleu", "words"])
def test_of_two_features_the_best_of_all_directions_is_found(metric: Metric) -> None:
    for seed in range(40):
        pool = random_pool(seed, num_segments=5, size=6, quality=(0.3, -0.2))
        check_optimum(pool, metric, directions_of_two(pool), seed)


def test_of_three_features_the_best_of_all_directions_is_found() -> None:
    for seed in range(25):
        pool = random_pool(seed, num_segments=4, size=4, quality=(0.3, -0.2, 0.1))
        check_optimum(pool, METRIC, directions_of_three(pool), seed)


def test_smoothing_is_heard() -> None:
    pool = random_pool(3)
    start = np.array([1.0, 0.1, 0.1])
    sharp, smooth = (
        load_method("mert")(pool, METRIC, start, TuneSettings(neighbours=neighbours), seed=1)
        for neighbours in (0, 5)
    )
    assert sharp.score > smooth.score > smooth.start_score


def test_without_random_starts_it_climbs_from_the_weights_given() -> None:
    pool = random_pool(4)
    settings = TuneSettings(starts=0, near_starts=0, directions=0, rounds=1)
    found = load_method("mert")(pool, METRIC, np.array([1.0, 0.1, 0.1]), settings, seed=1)
    assert found.score > found.start_score
    assert found.steps == 1 + 3  # along the gradient and the axes


@pytest.mark.parametrize(("small", "expected"), [(90, 4), (180, 4), (900, 20), (9000, 40)])
def test_the_smaller_a_pool_the_more_often_starts_are_drawn_near_the_best(
    monkeypatch: pytest.MonkeyPatch, small: int, expected: int
) -> None:
    monkeypatch.setattr(mert, "SMALL", small)
    pool = random_pool(6)  # 180 hypotheses
    free, settings = np.ones(3, np.bool_), TuneSettings()
    problem = Problem(pool, METRIC, np.ones(3), free, settings, 1, lambda _line: None)
    assert mert._generations(problem) == expected
    none = replace(problem, settings=TuneSettings(near_starts=0))
    assert mert._generations(none) == 0


def test_features_may_have_any_scale() -> None:
    pool = random_pool(5)
    scales = np.array([1e-6, 1.0, 1e6])
    wide = Pool(pool.labels, pool.features * scales, pool.stats, pool.starts)
    start = np.array([0.5, 0.5, 0.5])
    one = load_method("mert")(pool, METRIC, start, TuneSettings(), seed=1)
    other = load_method("mert")(wide, METRIC, start / scales, TuneSettings(), seed=1)
    assert other.score == one.score
    assert other.weights * scales / other.weights[1] == pytest.approx(
        one.weights / one.weights[1], rel=1e-6
    )
