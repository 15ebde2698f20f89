"""The oracle is as good as trying all choices; cross-validation tunes on other sentences."""

import itertools
import random

import numpy as np
import pytest

from phrasescore.errors import PhrasescoreError
from tests.random_pools import random_pool
from tuning.methods import Optimise, Problem, Solution, cross_validate, load_method, split_segments
from tuning.metrics import Bleu, BleuScore, CorpusBleu
from tuning.oracle import oracle_rows
from tuning.settings import TuneSettings


def _corpus(seed: int, sentences: int, hypotheses: int) -> tuple[np.ndarray, np.ndarray]:
    """Return statistics and segments: references with words replaced at random."""
    numbers = random.Random(seed)
    references = [numbers.choices("abcdef", k=numbers.randint(4, 9)) for _ in range(sentences)]
    lists = [
        [word if numbers.random() < 0.75 else numbers.choice("abcdefg") for word in reference][
            : numbers.randint(3, 9)
        ]
        for reference in references
        for _ in range(hypotheses)
    ]
    segments = np.repeat(np.arange(sentences), hypotheses)
    return Bleu([references]).statistics(lists, segments), segments


def _bleu(statistics: np.ndarray, rows: np.ndarray) -> float:
    return BleuScore.of(statistics[rows].sum(axis=0)).bleu


def _best_of_all(statistics: np.ndarray, segments: np.ndarray) -> float:
    places = [np.flatnonzero(segments == segment) for segment in np.unique(segments)]
    return max(_bleu(statistics, np.array(choice)) for choice in itertools.product(*places))


def test_the_climb_reaches_the_best_of_all_choices_or_nearly() -> None:
    reached = []
    for seed in range(30):
        statistics, segments = _corpus(seed, sentences=4, hypotheses=5)
        oracle = oracle_rows(statistics, segments)
        assert segments[oracle].tolist() == [0, 1, 2, 3]
        best = _best_of_all(statistics, segments)
        score = _bleu(statistics, oracle)
        assert score <= best + 1e-12
        reached.append(score / best if best else 1.0)
    assert np.mean(np.array(reached) > 1 - 1e-9) >= 0.9
    assert min(reached) > 0.95


def test_lists_may_be_of_any_length_and_ids_may_have_gaps() -> None:
    statistics, _ = _corpus(1, sentences=3, hypotheses=4)
    segments = np.array([2, 2, 2, 2, 5, 5, 5, 5, 9, 9, 9, 9])
    uneven = np.array([0, 4, 5, 6, 8, 9])
    oracle = oracle_rows(statistics[uneven], segments[uneven])
    assert segments[uneven][oracle].tolist() == [2, 5, 9]
    reached = _bleu(statistics[uneven], oracle)
    assert reached == pytest.approx(_best_of_all(statistics[uneven], segments[uneven]))


def test_a_climb_leaves_bleu_0_one_step_at_a_time() -> None:
    # Only both second hypotheses together have a matching 4-gram and more than one match.
    references = [["a", "b", "c", "d"], ["e"]]
    statistics = Bleu([references]).statistics(
        [["x"], ["a", "b", "c", "d"], ["x"], ["e"]], [0, 0, 1, 1]
    )
    oracle = oracle_rows(statistics, np.array([0, 0, 1, 1]))
    assert oracle.tolist() == [1, 3]
    assert _bleu(statistics, oracle) == pytest.approx(1.0)


def test_of_equally_good_hypotheses_the_earliest_is_taken() -> None:
    statistics = Bleu([[list("abcd")]]).statistics([list("abcd")] * 3, [0, 0, 0])
    assert oracle_rows(statistics, np.zeros(3, np.int64)).tolist() == [0]


def test_where_nothing_matches_the_oracle_is_0() -> None:
    statistics = Bleu([[["a"]]]).statistics([["x"], []], [0, 0])
    assert _bleu(statistics, oracle_rows(statistics, np.zeros(2, np.int64))) == 0.0


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
    with pytest.raises(
        PhrasescoreError, match=f"expected 2 to 4 parts for 4 segments, got {folds}"
    ):
        split_segments(4, folds, seed=1)


def test_a_method_that_keeps_the_start_scores_as_the_start_does() -> None:
    pool = random_pool(1)
    keep = Optimise("keep", lambda problem: Solution(problem.start, 0))
    found = cross_validate({"k": keep}, pool, METRIC, START, TuneSettings(), num_folds=3, seed=1)
    assert found["k"].score == pool.score(METRIC, START)


def test_what_is_held_out_is_not_tuned_on() -> None:
    pool = random_pool(1, num_segments=6)
    seen: list[np.ndarray] = []

    def search(problem: Problem) -> Solution:
        seen.append(problem.pool.features)
        return Solution(problem.start, 0)

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
