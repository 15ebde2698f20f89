"""The promises that every method of tuning keeps. A new method is one more line in METHODS."""

from dataclasses import replace

import numpy as np
import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.records import FeatureLabel
from tests.random_pools import random_pool
from tuning import mert
from tuning.methods import Problem, StopTuning, optimise
from tuning.metrics import CorpusBleu
from tuning.settings import METHODS, MethodName, TuneSettings

START = np.array([0.5, -0.2, 0.3])
SETTINGS = TuneSettings(starts=4)
METRIC = CorpusBleu()


@pytest.fixture(autouse=True)
def quick_mert(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw fewer starts and directions, which are enough for a small pool."""
    monkeypatch.setattr(mert, "NEAR_STARTS", 2)
    monkeypatch.setattr(mert, "DIRECTIONS", 4)


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> MethodName:
    chosen: MethodName = request.param
    return chosen


def test_a_method_raises_the_metric_and_says_by_how_much(method: MethodName) -> None:
    pool = random_pool(1)
    lines: list[str] = []
    found = optimise(method, pool, METRIC, START, SETTINGS, seed=1, report=lines.append)
    assert found.start_score == pool.score(METRIC, START)
    assert found.score == pool.score(METRIC, found.weights) > found.start_score + 0.01
    assert lines
    assert np.abs(found.weights).sum() == pytest.approx(1.0, rel=1e-12)
    assert START.tolist() == [0.5, -0.2, 0.3]  # as it was


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 8), marks=pytest.mark.slow)])
def test_no_result_is_worse_than_its_start(method: MethodName, seeds: range) -> None:
    for seed in seeds:
        pool = random_pool(seed, num_segments=3, size=4)
        tuned = START
        for _ in range(3):  # mostly nothing is better than what was found before
            found = optimise(method, pool, METRIC, tuned, SETTINGS, seed=seed)
            assert found.score == pool.score(METRIC, found.weights) >= pool.score(METRIC, tuned)
            assert np.isfinite(found.weights).all()
            assert found.weights.any()
            tuned = found.weights


def test_the_same_seed_gives_the_same_bits_with_any_number_of_threads(method: MethodName) -> None:
    pool = random_pool(2)
    runs = [
        optimise(method, pool, METRIC, START, replace(SETTINGS, threads=threads), seed=3)
        for threads in (1, 2, 2)
    ]
    assert len({run.weights.tobytes() for run in runs}) == 1


def test_constant_features_keep_their_weight_and_are_named(method: MethodName) -> None:
    pool = random_pool(1)
    features = pool.features.copy()
    features[:, 1] = pool.segments  # differs between segments, not inside
    pool = replace(pool, features=features)
    found = optimise(method, pool, METRIC, START, SETTINGS, seed=1)
    assert found.score > found.start_score
    assert found.weights[1] == START[1]
    assert any(note.endswith("so their weights do not change: TM_0") for note in found.notes)
    assert np.abs(found.weights).sum() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("value", [3e38, -3e38, 1e-20, 1e-40])
@pytest.mark.parametrize("weight", [1e-60, 2.9e-39, 1e60])
def test_neither_huge_nor_tiny_numbers_are_too_much(
    method: MethodName, value: float, weight: float
) -> None:
    pool = random_pool(1)
    features = pool.features.copy()
    features[:, 1] = np.where(features[:, 1] > np.median(features[:, 1]), value, 0.0)
    pool = replace(pool, features=features)
    found = optimise(method, pool, METRIC, np.array([weight, 0, 0]), SETTINGS, seed=1)
    assert found.score > found.start_score
    assert np.isfinite(found.weights).all()
    is_constant = any(note.endswith("so their weights do not change: TM_0") for note in found.notes)
    assert is_constant == (value == 1e-40)  # 0 to what Moses does with it


def test_fixed_features_keep_their_weight(method: MethodName) -> None:
    settings = replace(SETTINGS, fixed=(FeatureLabel("LM", 0),))
    found = optimise(method, random_pool(1), METRIC, START, settings, seed=1)
    assert found.score > found.start_score
    assert found.weights[0] == START[0]


def test_with_one_segment_the_start_is_returned(method: MethodName) -> None:
    found = optimise(method, random_pool(1).subset([0]), METRIC, START, SETTINGS, seed=1)
    assert found.weights.tolist() == START.tolist()
    assert found.notes == ("only one segment: keeping the start weights",)


def test_with_hypotheses_all_alike_the_start_is_returned(method: MethodName) -> None:
    pool = random_pool(1)
    pool = replace(pool, features=pool.features[pool.starts[pool.segments]])
    found = optimise(method, pool, METRIC, START, SETTINGS, seed=1)
    assert found.weights.tolist() == START.tolist()
    assert "in every segment, all hypotheses are equal" in found.notes[-1]


def test_with_bleu_0_everywhere_the_start_is_returned(method: MethodName) -> None:
    pool = random_pool(1)
    stats = pool.stats.copy()
    stats[:, 3] = 0  # no 4-gram matches
    found = optimise(method, replace(pool, stats=stats), METRIC, START, SETTINGS, seed=1)
    assert found.weights.tolist() == START.tolist()
    assert found.score == found.start_score == 0
    assert found.notes[-1] == "BLEU is 0 for all weights tried: keeping the start weights"


def test_a_search_that_is_stopped_returns_its_best(method: MethodName) -> None:
    def stop(_line: str) -> None:
        raise StopTuning

    found = optimise(method, random_pool(1), METRIC, START, SETTINGS, seed=1, report=stop)
    assert found.score >= found.start_score
    assert np.isfinite(found.weights).all()


@pytest.mark.parametrize("method", ["mert", "mira", "xbleu"])
def test_a_search_may_be_stopped_often_and_has_something_by_then(method: MethodName) -> None:
    pool = random_pool(1)
    reports = 0

    def count(_line: str) -> None:
        nonlocal reports
        reports += 1
        if reports == 10:
            raise StopTuning

    found = optimise(method, pool, METRIC, START, SETTINGS, seed=1, report=count)
    assert reports == 10  # and nothing was done any more
    assert found.score > found.start_score


@pytest.mark.parametrize("bad", [np.zeros(3), np.full(3, np.nan)], ids=["zero", "nan"])
def test_whatever_a_search_returns_the_promises_hold(
    monkeypatch: pytest.MonkeyPatch, bad: np.ndarray
) -> None:
    def search(_problem: Problem) -> np.ndarray:
        return bad

    monkeypatch.setattr(mert, "search_mert", search)
    found = optimise("mert", random_pool(1), METRIC, START, SETTINGS, seed=1)
    assert found.weights.tolist() == START.tolist()
    assert found.notes[-1] == "found no weights that improve BLEU: keeping the start weights"


def test_worse_weights_are_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = random_pool(1)
    best = optimise("mert", pool, METRIC, START, SETTINGS, seed=1)
    monkeypatch.setattr(mert, "search_mert", lambda _: -best.weights)
    found = optimise("mert", pool, METRIC, best.weights, SETTINGS, seed=1)
    assert found.weights.tolist() == best.weights.tolist()
    assert pool.score(METRIC, -best.weights) < found.score == best.score


@pytest.mark.parametrize(
    ("start", "problem"),
    [
        ([0.0, 0.0, 0.0], "expected start weights that are not all zero"),
    ],
)
def test_a_start_that_is_no_start_is_refused(start: list[float], problem: str) -> None:
    with pytest.raises(PhrasescoreError, match=f"^{problem}"):
        optimise("mert", random_pool(1), METRIC, np.array(start), SETTINGS, seed=1)
