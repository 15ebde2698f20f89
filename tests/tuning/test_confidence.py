"""The scale with which posteriors of lists are probabilities of having chosen the best."""

import itertools

import numpy as np
import pytest

from tuning.choices import calibrated_scale, posterior


def test_the_scale_maximises_the_likelihood_of_the_best_hypotheses() -> None:
    random = np.random.default_rng(1)
    starts = np.array([0, 3, 4, 9, 14])
    scores, gains = random.normal(0, 5, 14), random.integers(0, 4, 14) / 3
    found = calibrated_scale(scores, gains, starts)

    def likelihood(scale: float) -> float:
        total = 0.0
        for begin, end in itertools.pairwise(starts):
            shares = posterior(scores[begin:end], scale)
            best = gains[begin:end] == gains[begin:end].max()
            with np.errstate(divide="ignore"):
                total += float(np.log(shares[best].sum()))
        return total

    grid = np.exp(np.linspace(-12, 12, 2401))
    best = grid[np.argmax([likelihood(scale) for scale in grid])]
    assert found == pytest.approx(best, rel=0.02)
    assert 1e-4 < found < 1e4  # not one of the limits


def test_true_scores_get_the_scale_that_they_were_drawn_with() -> None:
    random = np.random.default_rng(2)
    scores = random.normal(0, 4, (4000, 5))
    chosen = (0.25 * scores + random.gumbel(size=scores.shape)).argmax(axis=1)
    gains = np.eye(5)[chosen]
    starts = np.arange(0, 5 * 4000 + 1, 5)
    assert calibrated_scale(scores.ravel(), gains.ravel(), starts) == pytest.approx(0.25, rel=0.06)


def test_lists_without_differences_say_nothing() -> None:
    starts = np.array([0, 2, 4])
    assert calibrated_scale(np.array([1.0, 2, 3, 4]), np.ones(4), starts) == 1
    assert calibrated_scale(np.ones(4), np.array([1.0, 0, 1, 0]), starts) == 1
