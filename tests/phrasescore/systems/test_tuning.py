"""The contribution of each feature in the report of tuning."""

import numpy as np
import pytest

from phrasescore.evaluation.tune_report import FeatureRow
from phrasescore.records import FeatureLabel
from phrasescore.systems.tuning import feature_rows
from tests.random_pools import random_pool
from tuning.metrics import CorpusBleu
from tuning.pool import Pool, Vector

METRIC = CorpusBleu()


def contributions(pool: Pool, weights: Vector) -> tuple[FeatureRow, ...]:
    return feature_rows(pool, weights, weights, metric=METRIC)


def test_contributions_by_hand() -> None:
    # Inside segments the first feature is 1 or 3: deviation 1; the second 0 or 8: deviation 4, and
    # its mean differs between segments, which does not count.
    features = np.array([[1.0, 100], [3, 108], [3, 0], [1, 8]])
    good, bad = [4.0, 3, 2, 1, 4, 3, 2, 1, 4], [2.0, 1, 0, 0, 4, 3, 2, 1, 4]
    stats = np.array([bad, good, good, bad])
    labels = (FeatureLabel("LM", 0), FeatureLabel("TM", 0))
    pool = Pool(labels, features, stats, np.array([0, 2, 4]))
    first, second = contributions(pool, np.array([2.0, -0.5]))
    assert [each.contribution for each in (first, second)] == [2.0, -2.0]
    assert [each.share for each in (first, second)] == [0.5, 0.5]
    # The second alone chooses bad and good: 6/8, 4/6, 2/4, 1/2 of the n-grams match.
    assert first.left_out == pytest.approx(100 * (6 / 8 * 4 / 6 * 2 / 4 * 1 / 2) ** 0.25)
    assert second.left_out == 100


def test_nothing_contributes_where_all_weights_are_zero() -> None:
    for each in contributions(random_pool(1), np.zeros(3)):
        assert (each.contribution, each.share) == (0, 0)
