"""PRO: sentence scores by hand, the loss against finite differences, pairs by their rules."""

import math

import numpy as np
import pytest

from phrasescore.records import FeatureLabel
from tests.random_pools import random_pool
from tuning.bleu import CorpusBleu
from tuning.methods import Problem
from tuning.pool import Pool
from tuning.pro import draw_pairs, logistic_loss, search_pro, sentence_scores
from tuning.settings import TuneSettings

BLEU = CorpusBleu()


def _problem(pool: Pool, settings: TuneSettings, free: tuple[bool, ...] | None = None) -> Problem:
    count = pool.num_features
    mask = np.array(free or [True] * count)
    return Problem(pool, BLEU, np.ones(count), mask, settings, 1, lambda _line: None)


def test_sentence_scores_are_smoothed_by_hand() -> None:
    # 3 words, 2 bigrams, 1 trigram; 2, 1, 0, 0 match; the reference has 4 words:
    # precisions 3/4, 2/3, 1/2, 1/1, their product 1/4; brevity exp(1 - 5/3).
    stats = np.array([[2.0, 1, 0, 0, 3, 2, 1, 0, 4]])
    assert sentence_scores(BLEU, stats) == pytest.approx([0.25**0.25 * math.exp(-2 / 3)])


def test_an_empty_hypothesis_scores_zero() -> None:
    assert sentence_scores(BLEU, np.array([[0.0] * 8 + [4]])).tolist() == [0.0]


def test_the_gradient_of_the_loss_is_that_of_finite_differences() -> None:
    random = np.random.default_rng(1)
    differences, weights, prior = random.normal(size=(50, 4)), random.normal(size=4), np.ones(4)
    wanted = [
        (
            logistic_loss(weights + shift, differences, prior).value
            - logistic_loss(weights - shift, differences, prior).value
        )
        / 2e-6
        for shift in 1e-6 * np.eye(4)
    ]
    found = logistic_loss(weights, differences, prior)
    assert found.gradient == pytest.approx(wanted, rel=1e-6)


def test_the_loss_of_one_pair_by_hand() -> None:
    # log(1 + exp(-2)) + 3 / 2 * 1.
    loss = logistic_loss(np.array([1.0]), np.array([[2.0]]), np.array([3.0]))
    assert loss.value == pytest.approx(math.log1p(math.exp(-2)) + 1.5)
    assert loss.gradient == pytest.approx([3 - 2 / (1 + math.exp(2))])


def test_a_hopeless_pair_overflows_nothing() -> None:
    loss = logistic_loss(np.array([1e4]), np.array([[-1.0], [1.0]]), np.zeros(1))
    assert loss.value == pytest.approx(1e4)
    assert loss.gradient == pytest.approx([1.0])


def test_pairs_are_of_one_segment_better_first_and_differ_enough() -> None:
    pool = random_pool(3)
    settings = TuneSettings(candidates=200, pairs=7, least_difference=0.1)
    better, worse = draw_pairs(_problem(pool, settings), np.random.default_rng(1))
    scores = sentence_scores(BLEU, pool.stats)
    assert (pool.segments[better] == pool.segments[worse]).all()
    assert (scores[better] - scores[worse] >= 0.1).all()
    assert np.bincount(pool.segments[better]).max() == 7


def test_a_planted_vector_is_found() -> None:
    planted = np.array([0.2, 1.0, -0.6])
    pool = random_pool(5, num_segments=100, size=30)
    found = search_pro(_problem(pool, TuneSettings(candidates=500))).weights
    assert found @ planted / np.linalg.norm(found) / np.linalg.norm(planted) > 0.98


def test_without_a_difference_the_start_stays() -> None:
    stats = np.tile([4.0, 3, 2, 1, 4, 3, 2, 1, 4], (4, 1))
    pool = Pool((FeatureLabel("LM", 0),), np.arange(4.0)[:, None], stats, np.array([0, 2, 4]))
    found = search_pro(_problem(pool, TuneSettings()))
    assert found.weights.tolist() == [1.0]
    assert found.notes == ("no two hypotheses differ enough to learn from",)


def test_the_share_mixes_new_weights_with_the_start() -> None:
    pool = random_pool(5)
    new = search_pro(_problem(pool, TuneSettings(candidates=100))).weights
    mixed = search_pro(_problem(pool, TuneSettings(candidates=100, share=0.1))).weights
    assert mixed == pytest.approx(0.1 * new + 0.9, rel=1e-12)


def test_misleading_fixed_features_are_outweighed() -> None:
    # The third feature's planted weight is -0.6, and it is fixed at 1.
    pool = random_pool(5, num_segments=50)
    problem = _problem(pool, TuneSettings(candidates=100), (True, True, False))
    found = search_pro(problem).weights
    assert found[2] == 1.0
    assert pool.score(BLEU, found) > pool.score(BLEU, problem.start)
