"""Cross-validation: folds part the segments, and nobody is tuned on what is held out."""

import numpy as np
import pytest

from phrasescore.errors import PhrasescoreError
from tests.random_pools import random_pool
from tuning.methods import Found, Optimise, Problem, cross_validate, load_method, split_segments
from tuning.metrics import CorpusBleu
from tuning.settings import TuneSettings

METRIC = CorpusBleu()
START = np.array([0.5, -0.2, 0.3])


@pytest.mark.parametrize(("segments", "folds"), [(2, 2), (10, 3), (101, 10), (7, 7)])
def test_folds_part_the_segments_evenly(segments: int, folds: int) -> None:
    found = split_segments(segments, folds, seed=1)
    assert sorted(np.concatenate(found).tolist()) == list(range(segments))
    sizes = [len(fold) for fold in found]
    assert len(sizes) == folds
    assert max(sizes) - min(sizes) <= 1


def test_the_seed_decides_the_folds() -> None:
    first, again, other = (split_segments(50, 5, seed=seed) for seed in (1, 1, 2))
    assert [fold.tolist() for fold in first] == [fold.tolist() for fold in again]
    assert [fold.tolist() for fold in first] != [fold.tolist() for fold in other]


@pytest.mark.parametrize("folds", [0, 1, 5])
def test_too_few_or_too_many_folds_are_refused(folds: int) -> None:
    with pytest.raises(PhrasescoreError, match=f"expected 2 to 4 parts of 4 segments, got {folds}"):
        split_segments(4, folds, seed=1)


def test_a_method_that_keeps_the_start_scores_as_the_start_does() -> None:
    pool = random_pool(1)
    keep = Optimise("keep", lambda problem: Found(problem.start, 0))
    found = cross_validate({"k": keep}, pool, METRIC, START, TuneSettings(), num_folds=3, seed=1)
    assert found["k"].score == pool.score(METRIC, START)


def test_what_is_held_out_is_not_tuned_on() -> None:
    pool = random_pool(1, num_segments=6)
    seen: list[np.ndarray] = []

    def search(problem: Problem) -> Found:
        seen.append(problem.pool.features)
        return Found(problem.start, 0)

    methods = {"spy": Optimise("spy", search)}
    cross_validate(methods, pool, METRIC, START, TuneSettings(), num_folds=3, seed=1)
    for fold, features in zip(split_segments(6, 3, seed=1), seen, strict=True):
        rest = np.setdiff1d(np.arange(6), fold)
        assert features.tolist() == pool.subset(rest).features.tolist()


def test_tuning_helps_on_segments_that_are_held_out() -> None:
    pool = random_pool(1, num_segments=60)
    found = cross_validate(
        {"xbleu": load_method("xbleu")}, pool, METRIC, START, TuneSettings(), num_folds=3, seed=1
    )
    assert found["xbleu"].score > pool.score(METRIC, START) + 0.05
