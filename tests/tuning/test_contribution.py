"""What features contribute, by hand."""

import numpy as np
import pytest

from phrasescore.records import FeatureLabel
from tests.random_pools import random_pool
from tuning.bleu import CorpusBleu
from tuning.contribution import Retuning, measure_contributions
from tuning.methods import Found, keep_promises, load_method
from tuning.pool import Pool
from tuning.settings import TuneSettings

METRIC = CorpusBleu()


def test_contributions_by_hand() -> None:
    # Inside segments the first feature is 1 or 3: deviation 1; the second 0 or 8: deviation 4, and
    # its mean differs between segments, which does not count.
    features = np.array([[1.0, 100], [3, 108], [3, 0], [1, 8]])
    good, bad = [4.0, 3, 2, 1, 4, 3, 2, 1, 4], [2.0, 1, 0, 0, 4, 3, 2, 1, 4]
    stats = np.array([bad, good, good, bad])
    labels = (FeatureLabel("LM", 0), FeatureLabel("TM", 0))
    pool = Pool(labels, features, stats, np.array([0, 2, 4]))
    first, second = measure_contributions(pool, METRIC, np.array([2.0, -0.5]))
    assert [each.contribution for each in (first, second)] == [2.0, -2.0]
    assert [each.share for each in (first, second)] == [0.5, 0.5]
    # The second alone chooses bad and good: 6/8, 4/6, 2/4, 1/2 of the n-grams match.
    assert first.score_without == pytest.approx((6 / 8 * 4 / 6 * 2 / 4 * 1 / 2) ** 0.25)
    assert second.score_without == 1.0
    assert first.score_retuned is None


def test_a_pool_knows_the_deviations_of_its_features() -> None:
    pool = random_pool(1)
    parts = pool.features.reshape(12, 15, 3)
    wanted = np.sqrt(((parts - parts.mean(axis=1, keepdims=True)) ** 2).mean(axis=(0, 1)))
    assert pool.deviations() == pytest.approx(wanted)


def test_tuning_again_is_at_least_as_good_as_leaving_out() -> None:
    pool = random_pool(1)
    retuning = Retuning(load_method("xbleu"), TuneSettings(), seed=1)
    found = measure_contributions(pool, METRIC, np.array([0.2, 0.5, 0.3]), retuning=retuning)
    for each in found:
        assert each.score_retuned is not None
        assert each.score_retuned >= each.score_without


def test_a_feature_that_is_fixed_is_left_out_all_the_same() -> None:
    pool = random_pool(1)
    settings = TuneSettings(fixed=(pool.labels[0],))
    keep = keep_promises("keep", lambda problem: Found(problem.start, 0))
    retuning = Retuning(keep, settings, seed=1)
    found = measure_contributions(pool, METRIC, np.array([0.2, 0.5, 0.3]), retuning=retuning)
    assert found[0].score_retuned == found[0].score_without


def test_the_only_weight_that_is_not_zero_cannot_be_left_out() -> None:
    retuning = Retuning(load_method("xbleu"), TuneSettings(), seed=1)
    weights = np.array([0.0, 1.0, 0.0])
    found = measure_contributions(random_pool(1), METRIC, weights, retuning=retuning)
    assert found[1].share == 1.0
    assert found[1].score_retuned is None
