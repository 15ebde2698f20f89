"""The oracle is as good as trying all choices."""

import itertools
import random

import numpy as np
import pytest

from tuning.metrics import Bleu, BleuScore, oracle_rows


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
