"""Expected BLEU against enumeration and finite differences."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.random_pools import random_pool
from tuning.bleu import CorpusBleu, bleu
from tuning.chrf import Chrf
from tuning.expected_bleu import expected_score
from tuning.methods import load_method
from tuning.pool import Pool, Vector
from tuning.settings import TuneSettings

BLEU = CorpusBleu()
WEIGHTS = np.array([0.5, -0.2, 0.3])


def _plain_expected_score(pool: Pool, weights: Vector, scale: float) -> float:
    sums = np.zeros(pool.stats.shape[1])
    for begin, end in itertools.pairwise(pool.starts):
        odds = np.exp(scale * (pool.features[begin:end] @ weights))
        sums += odds / odds.sum() @ pool.stats[begin:end]
    return float(bleu(sums))


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_the_score_is_that_of_the_statistics_under_the_softmax(scale: float) -> None:
    pool = random_pool(1)
    found = expected_score(pool, BLEU, WEIGHTS, scale)
    assert found.score == pytest.approx(_plain_expected_score(pool, WEIGHTS, scale), rel=1e-12)
    assert found.best_score == pool.score(BLEU, WEIGHTS)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_that_of_finite_differences(seed: int, scale: float) -> None:
    pool = random_pool(seed)
    step = 1e-6
    wanted = [
        (
            _plain_expected_score(pool, WEIGHTS + shift, scale)
            - _plain_expected_score(pool, WEIGHTS - shift, scale)
        )
        / (2 * step)
        for shift in step * np.eye(3)
    ]
    assert expected_score(pool, BLEU, WEIGHTS, scale).gradient == pytest.approx(
        wanted, rel=1e-6, abs=1e-9
    )


def test_with_a_large_scale_it_is_the_score_of_the_best_hypotheses() -> None:
    pool = random_pool(1)
    found = expected_score(pool, BLEU, WEIGHTS, 1e6)
    assert found.score == pytest.approx(pool.score(BLEU, WEIGHTS), rel=1e-12)


def test_huge_model_scores_do_not_overflow() -> None:
    pool = random_pool(1)
    found = expected_score(replace(pool, features=pool.features + 1e5), BLEU, WEIGHTS * 1e3, 1.0)
    assert np.isfinite(found.gradient).all()
    assert 0 < found.score < 1


def test_a_score_of_zero_has_no_slope() -> None:
    pool = random_pool(1)
    stats = pool.stats.copy()
    stats[:, 3] = 0.0  # no 4-gram matches
    found = expected_score(replace(pool, stats=stats), BLEU, WEIGHTS, 1.0)
    assert found.score == 0
    assert not found.gradient.any()


def test_threads_change_no_bit() -> None:
    pool = random_pool(1, num_segments=30)
    one, two = (expected_score(pool, BLEU, WEIGHTS, 2.0, threads=threads) for threads in (1, 2))
    assert one.gradient.tobytes() == two.gradient.tobytes()
    assert one.score == two.score


def _chrf_pool() -> tuple[Pool, Chrf]:
    """Return hypotheses whose first feature is how many of the four words are right."""
    words = ["the", "small", "house", "stands"]
    metric = Chrf([[words] * 3])
    made = [[*words[:count], *["xyz"] * (4 - count)] for count in (0, 1, 2, 3)] * 3
    features = np.array([[count, count % 2, 1.0] for count in (0, 1, 2, 3)] * 3)
    features += np.random.default_rng(1).normal(size=features.shape) / 4
    stats = metric.statistics(made, list(np.repeat(range(3), 4)))
    labels = random_pool(1).labels
    return Pool(labels, features, stats, np.array([0, 4, 8, 12])), metric


def test_the_gradient_of_another_metric_is_that_of_finite_differences() -> None:
    pool, metric = _chrf_pool()
    wanted = [
        (
            expected_score(pool, metric, WEIGHTS + shift, 1.0).score
            - expected_score(pool, metric, WEIGHTS - shift, 1.0).score
        )
        / 2e-6
        for shift in 1e-6 * np.eye(3)
    ]
    assert expected_score(pool, metric, WEIGHTS, 1.0).gradient == pytest.approx(
        wanted, rel=1e-5, abs=1e-8
    )


@pytest.mark.parametrize("name", ["pro", "mira", "xbleu"])
def test_methods_find_the_best_of_another_metric(name: str) -> None:
    pool, metric = _chrf_pool()
    start = np.array([-0.5, 0.2, 0.3])
    found = load_method(name)(pool, metric, start, TuneSettings(candidates=50), seed=1)
    # The last hypothesis of each segment has most words right.
    assert pool.model_best(found.weights).tolist() == [3, 7, 11]


def test_a_planted_vector_is_found() -> None:
    planted = np.array([0.2, 1.0, -0.6])
    pool = random_pool(5, num_segments=100, size=30)
    found = load_method("xbleu")(pool, BLEU, np.ones(3), TuneSettings(), seed=1).weights
    assert found @ planted / np.linalg.norm(found) / np.linalg.norm(planted) > 0.95


def test_a_penalty_keeps_the_direction_near_the_start() -> None:
    pool, start = random_pool(5, num_segments=50), np.ones(3)
    near, far = (
        load_method("xbleu")(pool, BLEU, start, TuneSettings(penalty=penalty), seed=1).weights
        for penalty in (1.0, 0.0)
    )
    assert near @ start / np.linalg.norm(near) > far @ start / np.linalg.norm(far) + 0.2
