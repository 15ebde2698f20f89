"""Means, spreads and averages of replicas, by hand."""

import numpy as np
import pytest

from tests.random_pools import random_pool
from tuning.bleu import CorpusBleu
from tuning.methods import Tuned
from tuning.replicas import summarise

METRIC = CorpusBleu()


def _tuned(weights: list[float], score: float) -> Tuned:
    return Tuned(np.array(weights), score, 0.1, "hand", 1, 1, ())


def test_mean_spread_and_average_by_hand() -> None:
    pool = random_pool(1)
    runs = [_tuned([1.0, 0, 0], 0.2), _tuned([0.0, 1, 0], 0.4), _tuned([0.0, 0, -1], 0.6)]
    found = summarise(runs, pool, METRIC)
    # Squared distances 0.04, 0, 0.04, divided by 2.
    assert (found.mean, found.deviation) == pytest.approx((0.4, 0.2))
    assert (found.lowest, found.highest) == (0.2, 0.6)
    assert found.average == pytest.approx([1 / 3, 1 / 3, -1 / 3])
    assert found.average_score == pool.score(METRIC, found.average)


def test_a_single_run_has_no_spread() -> None:
    found = summarise([_tuned([1.0, 0, 0], 0.2)], random_pool(1), METRIC)
    assert (found.mean, found.deviation) == (0.2, 0.0)
