"""Randomization over sentences, against sacrebleu's test and by exact enumeration."""

from itertools import product

import numpy as np
import pytest

from phrasescore.evaluation.metrics import build_metric
from phrasescore.evaluation.significance import (
    PairedTest,
    bootstrap_spread,
    randomization_p_value,
    run_paired_test,
)
from tuning.bleu import Bleu, BleuScore, CorpusBleu


def texts(seed: int, spoilt: float) -> list[list[str]]:
    """Return 60 sentences of the same words, some of them spoilt."""
    words = np.random.default_rng(1)
    noise = np.random.default_rng(seed)
    return [
        [f"w{word}" if noise.random() > spoilt else "x" for word in words.integers(0, 30, 12)]
        for _ in range(60)
    ]


def statistics(metric: Bleu, systems: list[list[list[str]]]) -> np.ndarray:
    return np.array([metric.statistics(system, range(60)) for system in systems])


@pytest.mark.parametrize("spoilt", [0.1, 0.13, 0.16])
def test_of_one_replica_it_is_the_test_of_sacrebleu(spoilt: float) -> None:
    references = texts(1, 0)
    first, second = texts(2, 0.1), texts(3, spoilt)
    metric = Bleu([references])
    found = randomization_p_value(
        metric, statistics(metric, [first]), statistics(metric, [second]), trials=4000, seed=1
    )
    lines = [[" ".join(words) for words in system] for system in (references, first, second)]
    metrics = [build_metric("bleu", [lines[0]], "none")]
    theirs = run_paired_test(PairedTest("approximate", 4000, 1), metrics, lines[1:])
    expected = theirs[0].systems[1].p_value
    assert expected is not None
    # Four deviations of the difference of two such estimates.
    assert found == pytest.approx(expected, abs=4 * np.sqrt(2 * expected / 4000) + 0.002)


def test_it_is_the_share_of_all_exchanges() -> None:
    numbers = np.random.default_rng(5)
    totals = numbers.integers(3, 9, (2, 8, 1))  # 8 sentences of so many words
    stats = []
    for _ in range(2):
        matches = np.minimum(numbers.integers(2, 9, (2, 8, 4)), totals)
        stats.append(np.concatenate([matches, np.repeat(totals, 5, axis=2)], axis=2).astype(float))
    first, second = stats
    metric = CorpusBleu()

    def difference(one: np.ndarray, other: np.ndarray) -> float:
        return float((metric.score(other.sum(axis=1)) - metric.score(one.sum(axis=1))).mean())

    exact = 0
    for exchanged in product([False, True], repeat=8):
        which = np.array(exchanged)[None, :, None]
        one, other = np.where(which, second, first), np.where(which, first, second)
        # A little room: not all orders of additions give the same bits.
        exact += abs(difference(one, other)) >= abs(difference(first, second)) - 1e-12
    found = randomization_p_value(metric, first, second, trials=20_000, seed=3)
    assert found == pytest.approx(exact / 2**8, abs=0.015)


def test_equal_systems_do_not_differ() -> None:
    metric = Bleu([texts(1, 0)])
    stats = statistics(metric, [texts(2, 0.1)])
    assert randomization_p_value(metric, stats, stats, trials=100, seed=1) == 1.0


def test_a_replica_that_is_there_twice_is_no_more_evidence() -> None:
    metric = Bleu([texts(1, 0)])
    first, second = statistics(metric, [texts(2, 0.1)]), statistics(metric, [texts(3, 0.15)])
    once = randomization_p_value(metric, first, second, trials=1000, seed=1)
    for one, other in ((2, 2), (1, 3), (3, 2)):
        pair = np.repeat(first, one, axis=0), np.repeat(second, other, axis=0)
        assert randomization_p_value(metric, *pair, trials=1000, seed=1) == once


def test_of_unequal_numbers_each_replica_counts_alike() -> None:
    metric = Bleu([texts(1, 0)])
    two = statistics(metric, [texts(2, 0.1), texts(3, 0.2)])
    three = statistics(metric, [texts(4, 0.15), texts(5, 0.1), texts(6, 0.2)])
    pair = np.repeat(two, 3, axis=0), np.repeat(three, 2, axis=0)
    expected = randomization_p_value(metric, *pair, trials=500, seed=1)
    assert randomization_p_value(metric, two, three, trials=500, seed=1) == expected
    assert randomization_p_value(metric, two[:1], three[:1], trials=500, seed=1) != expected


def test_a_difference_that_no_draw_has_is_not_called_impossible() -> None:
    metric = Bleu([texts(1, 0)])
    good, bad = statistics(metric, [texts(2, 0.05)]), statistics(metric, [texts(3, 0.7)])
    for pair in ((bad, good), (good, bad)):
        assert randomization_p_value(metric, *pair, trials=199, seed=1) == 1 / 200


def test_systems_of_other_sentences_are_refused() -> None:
    stats = np.ones((1, 5, 9))
    with pytest.raises(ValueError, match="expected the same sentences"):
        randomization_p_value(CorpusBleu(), stats, stats[:, :4], trials=10, seed=1)


def test_a_spread_is_that_of_bleu_over_samples_drawn_one_by_one() -> None:
    metric = Bleu([texts(1, 0)])
    sample = statistics(metric, [texts(2, 0.3)])[:, :5]
    (spread,) = bootstrap_spread(metric, sample, seed=3)
    numbers = np.random.default_rng(7)
    scores = [
        100 * BleuScore.of(sample[0][numbers.integers(5, size=5)].sum(axis=0)).bleu
        for _ in range(4000)
    ]
    # Two estimates of a deviation, from 1000 and 4000 samples, agree within some percent.
    assert spread == pytest.approx(1.96 * np.std(scores), rel=0.1)
    assert bootstrap_spread(metric, sample[:, :1], seed=3) == [0.0]
