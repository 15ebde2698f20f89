"""The confidence is the probability that the chosen hypothesis has no better one in its list."""

import math
from dataclasses import replace

import numpy as np
import pytest

from phrasescore.records import ConfidenceCurve
from tests.random_pools import random_pool
from tuning.confidence import (
    calibrate,
    calibrate_weights,
    confidence,
    held_out_scores,
    logistic_loss,
    sentence_scores,
)
from tuning.methods import optimise
from tuning.metrics import CorpusBleu
from tuning.pool import Pool, Vector
from tuning.settings import TuneSettings


def test_the_confidence_is_a_logistic_function_of_the_share() -> None:
    scores = np.log([0.1, 0.6, 0.3]) + 7
    assert confidence(scores, 1, ConfidenceCurve()) == pytest.approx(0.6)
    # softmax(2 * score) is 0.36 / 0.46; the logit is ln 3.6.
    assert confidence(scores, 1, ConfidenceCurve(2.0)) == pytest.approx(0.36 / 0.46)
    expected = 1 / (1 + math.exp(-(1.5 * math.log(3.6) - 0.5)))
    assert confidence(scores, 1, ConfidenceCurve(2.0, 1.5, -0.5)) == pytest.approx(expected)


def test_no_other_hypothesis_is_better_than_the_only_one() -> None:
    assert confidence(np.array([-3.0]), 0, ConfidenceCurve(1.0, 0.1, -5.0)) == 1


def test_large_differences_are_no_overflow() -> None:
    assert confidence(np.array([1e5, 0.0]), 0, ConfidenceCurve()) == 1
    assert confidence(np.array([1e5, 0.0]), 1, ConfidenceCurve()) == 0


def drawn(
    num_lists: int, size: int = 8, *, scale: float = 0.25, seed: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw lists in which the best hypothesis is right with a known probability."""
    random = np.random.default_rng(seed)
    scores = random.normal(0, 2 / scale, (num_lists, size))
    chosen = scores.argmax(axis=1)
    shares = np.exp(scale * (scores - scores.max(axis=1, keepdims=True)))
    logits = -np.log(shares.sum(axis=1) - 1)
    probabilities = 1 / (1 + np.exp(-(0.7 * logits - 0.4)))
    right = random.random(num_lists) < probabilities
    # A tie with the best is right; else another hypothesis is better.
    gains = np.where(right[:, None], 0.5, 0.25) * np.ones((1, size))
    wrong = np.flatnonzero(~right)
    gains[wrong, (chosen[wrong] + 1) % size] = 0.5
    starts = np.arange(num_lists + 1) * size
    return scores.ravel(), gains.ravel(), starts, chosen + starts[:-1], probabilities


def test_the_curve_that_lists_were_drawn_with_is_found() -> None:
    scores, gains, starts, chosen, expected = drawn(4000)
    curve, held_out = calibrate(scores, gains, starts, chosen)
    found = [
        confidence(scores[begin : begin + 8], row - begin, curve)
        for begin, row in zip(starts[:-1], chosen, strict=True)
    ]
    assert np.abs(np.array(found) - expected).mean() < 0.02
    assert np.abs(held_out - expected).mean() < 0.02


def test_slope_and_offset_are_the_likeliest() -> None:
    scores, gains, starts, chosen, _ = drawn(200, seed=2)
    curve, _ = calibrate(scores, gains, starts, chosen)
    logits = []
    for begin, row in zip(starts[:-1], chosen, strict=True):
        others = [curve.scale * (s - scores[row]) for s in scores[begin : begin + 8]]
        logits.append(-math.log(sum(map(math.exp, others)) - 1))
    right = gains[chosen] >= gains.reshape(-1, 8).max(axis=1)
    unit = float(np.std(logits))

    def loss(slope: float, offset: float) -> float:
        total = ((slope * unit) ** 2 + offset**2) / 2
        for logit, is_right in zip(logits, right, strict=True):
            sure = 1 / (1 + math.exp(-(slope * logit + offset)))
            total -= math.log(sure if is_right else 1 - sure)
        return total

    least = loss(curve.slope, curve.offset)
    for slope, offset in ((0.01, 0), (-0.01, 0), (0, 0.01), (0, -0.01)):
        assert loss(curve.slope + slope, curve.offset + offset) > least


def test_what_is_output_counts_and_not_what_scores_best() -> None:
    # The decoder's output, the first one, has the lower total as n-best lists show it.
    scores, starts = np.tile([1.0, 1.001], 20), np.arange(0, 41, 2)
    gains = np.tile([0.5, 0.25], 20)
    first, second = (calibrate(scores, gains, starts, starts[:-1] + place)[1] for place in (0, 1))
    assert first.min() > 0.8
    assert second.max() < 0.2


def test_no_curve_is_judged_by_sentences_that_it_was_fitted_to() -> None:
    # Of five equal lists only the first is wrong: the curve of the others does not know it.
    scores, starts = np.tile([1.0, 0.0], 5), np.arange(0, 11, 2)
    gains = np.array([0, 1.0, *[1, 0] * 4])
    _, (wrong, *others) = calibrate(scores, gains, starts, starts[:-1])
    assert wrong > 0.1 + max(others)


@pytest.mark.parametrize("gains", [[1, 0, 1], [0, 1, 1], [1, 1, 1]])
@pytest.mark.parametrize("scores", [[2, 1, 5], [1, 1, 5], [1, 2, 5]])
def test_lists_without_information_have_a_finite_curve(
    scores: list[float], gains: list[float]
) -> None:
    """All lists are right, or wrong; scores are equal, or contrary; a list has one hypothesis."""
    starts = np.array([0, 2, 3, 5, 6])
    curve, held_out = calibrate(
        np.array(scores * 2, float), np.array(gains * 2, float), starts, starts[:-1]
    )
    assert np.isfinite([curve.scale, curve.slope, curve.offset]).all()
    assert curve.slope > 0
    assert len(held_out) == 4
    assert 0 < confidence(np.array(scores[:2], float), 0, curve) < 1
    calibrate(np.array([1.0]), np.array([1.0]), np.array([0, 1]), np.array([0]))


def test_scores_are_of_weights_that_know_no_reference_of_their_sentence() -> None:
    pool = random_pool(7, num_segments=20)
    weights = np.ones(len(pool.labels))

    def scores(pool: Pool) -> Vector:
        return held_out_scores(pool, CorpusBleu(), weights, TuneSettings(), seed=1)

    stats = pool.stats.copy()
    changed = pool.segments % 5 == 2
    stats[changed] = stats[changed][::-1]
    before, after = scores(pool), scores(replace(pool, stats=stats))
    assert np.array_equal(before[changed], after[changed])
    assert not np.isclose(before[~changed], after[~changed]).any()


def test_scores_of_each_fold_deviate_as_those_of_the_tuned_weights() -> None:
    # Each fold has the same lists, and so the same weights.
    pool = random_pool(7, num_segments=4).subset(np.repeat(np.arange(4), 5))
    weights = np.array([3.0, 1.0, 2.0])
    scores = held_out_scores(pool, CorpusBleu(), weights, TuneSettings(), seed=1)
    of_lists = scores.reshape(pool.num_segments, -1)
    deviation = np.square(of_lists - of_lists.mean(axis=1, keepdims=True)).mean() ** 0.5
    assert deviation == pytest.approx(pool.score_deviation(weights))


def test_the_mean_confidence_is_that_of_sentences_that_the_weights_have_not_seen() -> None:
    # Ten features are noise: tuned weights select better translations of their own sentences.
    pool = random_pool(3, num_segments=60, quality=(1.0, *[0.0] * 10))
    metric, settings = CorpusBleu(), TuneSettings()
    start = np.ones(len(pool.labels))
    weights = optimise("xbleu", pool, metric, start, settings, seed=1).weights
    gains = sentence_scores(metric, pool.stats)
    curve = calibrate_weights(pool, metric, weights, settings, seed=1)
    scores, best = pool.model_scores(weights), np.maximum.reduceat(gains, pool.starts[:-1])
    chosen = pool.highest(scores)
    mean = np.mean([
        confidence(scores[begin : begin + 15], row - begin, curve)
        for begin, row in zip(pool.starts[:-1], chosen, strict=True)
    ])  # fmt: skip
    scores = held_out_scores(pool, metric, weights, settings, seed=1)
    unseen = pool.highest(scores)
    assert mean == pytest.approx(calibrate(scores, gains, pool.starts, unseen)[1].mean())
    assert (gains[unseen] >= best).mean() < (gains[chosen] >= best).mean() - 0.05


def test_sentence_scores_are_smoothed_by_hand() -> None:
    # 3 words, 2 bigrams, 1 trigram; 2, 1, 0, 0 match; the reference has 4 words:
    # precisions 3/4, 2/3, 1/2, 1/1, their product 1/4; brevity exp(1 - 5/3).
    stats = np.array([[2.0, 1, 0, 0, 3, 2, 1, 0, 4]])
    assert sentence_scores(CorpusBleu(), stats) == pytest.approx([0.25**0.25 * math.exp(-2 / 3)])


def test_an_empty_hypothesis_scores_zero() -> None:
    assert sentence_scores(CorpusBleu(), np.array([[0.0] * 8 + [4]])).tolist() == [0.0]


def test_the_gradient_of_the_loss_is_that_of_finite_differences() -> None:
    random = np.random.default_rng(1)
    differences, weights = random.normal(size=(50, 4)), random.normal(size=4)
    wanted = [
        (
            logistic_loss(weights + shift, differences)[0]
            - logistic_loss(weights - shift, differences)[0]
        )
        / 2e-6
        for shift in 1e-6 * np.eye(4)
    ]
    _, gradient = logistic_loss(weights, differences)
    assert gradient == pytest.approx(wanted, rel=1e-6)


def test_the_loss_of_one_pair_by_hand() -> None:
    # log(1 + exp(-2)) + 1 / 2.
    loss, gradient = logistic_loss(np.array([1.0]), np.array([[2.0]]))
    assert loss == pytest.approx(math.log1p(math.exp(-2)) + 0.5)
    assert gradient == pytest.approx([1 - 2 / (1 + math.exp(2))])


def test_a_hopeless_pair_overflows_nothing() -> None:
    loss, gradient = logistic_loss(np.array([1e4]), np.array([[-1.0], [1.0]]))
    assert loss == pytest.approx(1e4 + 5e7)
    assert gradient == pytest.approx([1.0 + 1e4])
