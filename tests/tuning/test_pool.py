"""Promises of tuning.pool: what is the best, what is the same, what does not vary."""

from dataclasses import replace

import numpy as np
import pytest

import tuning.pool
from phrasescore.records import FeatureLabel
from tests.random_pools import random_pool
from tuning.pool import Pool, union

LABELS = (FeatureLabel("LM", 0), FeatureLabel("TM", 0))


def make_pool(lists: list[list[tuple[float, float, float]]]) -> Pool:
    """Return a pool of two features and one statistic: a tuple a hypothesis."""
    rows = np.array([row for rows in lists for row in rows], np.float64).reshape(-1, 3)
    starts = np.cumsum([0, *map(len, lists)])
    return Pool(LABELS, rows[:, :2].copy(), rows[:, 2:].copy(), starts)


def lists_of(pool: Pool) -> list[list[tuple[float, ...]]]:
    rows = [tuple(row) for row in np.concatenate([pool.features, pool.stats], axis=1).tolist()]
    return [rows[begin:end] for begin, end in zip(pool.starts, pool.starts[1:], strict=False)]


def test_the_best_is_the_one_of_the_highest_sum_and_of_equals_the_first() -> None:
    pool = make_pool([[(1, 0, 0), (0, 3, 0), (0, 3, 1)], [(2, 2, 0)], [(0, 0, 0), (5, -1, 0)]])
    assert pool.model_best(np.array([1.0, 1.0])).tolist() == [1, 3, 5]
    assert pool.model_best(np.array([1.0, 0.0])).tolist() == [0, 3, 5]
    assert pool.model_best(np.array([0.0, 0.0])).tolist() == [0, 3, 4]


def test_equal_features_have_equal_scores_wherever_they_stand() -> None:
    row = np.random.default_rng(1).normal(size=(1, 7))
    labels = tuple(FeatureLabel("TM", place) for place in range(7))
    pool = Pool(labels, np.repeat(row, 101, axis=0), np.zeros((101, 1)), np.array([0, 101]))
    assert len(set(pool.model_scores(row[0]).tolist())) == 1


def test_equal_hypotheses_of_a_segment_are_kept_once_and_in_order() -> None:
    one, two, other = (1.0, 2.0, 3.0), (0.0, 2.0, 3.0), (1.0, 2.0, 4.0)
    zero, minus = (0.0, 0.0, 1.0), (-0.0, 0.0, 1.0)
    pool = make_pool([[two, one, two, other, one], [one, zero, minus, one]]).distinct()
    assert lists_of(pool) == [[two, one, other], [one, zero]]


def test_distinct_hypotheses_are_those_of_a_set() -> None:
    random = np.random.default_rng(2)
    for _ in range(50):
        lists = [
            [tuple(row) for row in random.integers(0, 3, (size, 3)).astype(float).tolist()]
            for size in random.integers(1, 30, 5)
        ]
        expected = [list(dict.fromkeys(rows)) for rows in lists]
        assert lists_of(make_pool(lists).distinct()) == expected


def test_rows_whose_hashes_collide_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def collide(_table: np.ndarray, hashes: np.ndarray) -> None:
        hashes[:] = 0

    monkeypatch.setattr(tuning.pool, "_hash_rows", collide)
    a, b = (1.0, 2.0, 3.0), (3.0, 2.0, 1.0)
    assert lists_of(make_pool([[a, b, a, b], [b, a, a]]).distinct()) == [[a, b], [b, a]]


def test_pooled_lists_hold_each_hypothesis_once_the_earlier_round_first() -> None:
    a, b, c = (1.0, 0.0, 0.0), (2.0, 0.0, 0.0), (3.0, 0.0, 0.0)
    pools = [make_pool([[b, a], [c]]), make_pool([[c, a], [a, c, b]])]
    assert lists_of(union(pools)) == [[b, a, c], [c, a, b]]


def test_a_feature_that_a_pool_lacks_is_0_there() -> None:
    sparse = FeatureLabel("S_x", 0)
    one = make_pool([[(3, 0, 0), (1, 3, 1)], [(3, 0, 0), (1, 3, 1)]])
    other = replace(make_pool([[(7, 5, 1)], [(8, 0, 1)]]), labels=(LABELS[1], sparse))
    found = union([one, other])
    assert found.labels == (*LABELS, sparse)
    lists = [[3, 0, 0], [1, 3, 0], [0, 7, 5]], [[3, 0, 0], [1, 3, 0], [0, 8, 0]]
    assert found.features.tolist() == [row for rows in lists for row in rows]


def test_a_subset_may_hold_a_segment_twice() -> None:
    a, b, c = (1.0, 0.0, 0.0), (2.0, 0.0, 0.0), (3.0, 0.0, 0.0)
    pool = make_pool([[a], [b, c], [c]])
    assert lists_of(pool.subset([2, 1, 1])) == [[c], [b, c], [b, c]]


def test_a_feature_is_constant_that_differs_between_segments_only() -> None:
    pool = make_pool([[(1, 5, 0), (1, 6, 0)], [(2, 7, 0)]])
    assert pool.constant_features().tolist() == [True, False]
    assert pool.with_features(~pool.constant_features()).labels == LABELS[1:]


def test_deviations_are_those_inside_segments() -> None:
    pool = random_pool(3)
    shifted = replace(pool, features=pool.features + 100.0 * pool.segments[:, None])
    parts = np.split(pool.features, pool.starts[1:-1])
    expected = np.sqrt(np.concatenate([(part - part.mean(axis=0)) ** 2 for part in parts]).mean(0))
    assert pool.deviations() == pytest.approx(expected, rel=1e-12)
    assert shifted.deviations() == pytest.approx(expected, rel=1e-9)
