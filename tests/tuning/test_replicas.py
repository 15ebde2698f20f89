"""Means, spreads and averages of replicas, by hand."""

import numpy as np
import pytest

from tests.random_pools import random_pool
from tuning.bleu import CorpusBleu
from tuning.methods import Found, Problem, Tuned, keep_promises
from tuning.replicas import run_replicas, summarise
from tuning.settings import TuneSettings

METRIC = CorpusBleu()
START = np.array([0.5, -0.2, 0.3])


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


def test_each_seed_is_run_once_in_order() -> None:
    def search(problem: Problem) -> Found:
        return Found(np.random.default_rng(problem.seed).normal(size=3), 1)

    method = keep_promises("random", search)
    pool = random_pool(1)
    found = run_replicas(method, pool, METRIC, START, TuneSettings(), seeds=[4, 2])
    assert [run.seed for run in found.tuned] == [4, 2]


def test_no_seed_is_refused() -> None:
    method = keep_promises("none", lambda problem: Found(problem.start, 0))
    with pytest.raises(ValueError, match="at least one seed"):
        run_replicas(method, random_pool(1), METRIC, START, TuneSettings(), seeds=[])
