"""Promises of tuning.chrf: sacrebleu's figures, to the last bit."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF

from tuning.chrf import NUM_STATISTICS, Chrf, chrf

WORDS = ["a", "ab", "ba", "abba", "été", "l'", "&apos;", "b\u00a0a", "x", "中文"]


def random_sentences(numbers: random.Random, how_many: int) -> list[list[str]]:
    """Few characters, so that n-grams repeat; some sentences are empty or very short."""
    return [
        numbers.choices(WORDS, k=numbers.choice([0, 1, 1, 2, 3, 5, 9])) for _ in range(how_many)
    ]


def join(sentences: Sequence[Sequence[str]]) -> list[str]:
    return [" ".join(words) for words in sentences]


@pytest.mark.parametrize("num_references", [1, 2, 3])
def test_a_corpus_has_the_figure_of_sacrebleu(num_references: int) -> None:
    for seed in range(50):
        numbers = random.Random(seed)
        references = [random_sentences(numbers, 12) for _ in range(num_references)]
        hypotheses = random_sentences(numbers, 12)
        sums = Chrf(references).statistics(hypotheses, range(12)).sum(axis=0)
        expected = CHRF().corpus_score(join(hypotheses), [join(each) for each in references])
        assert 100 * float(chrf(sums)) == expected.score


def test_every_sentence_has_the_statistics_of_sacrebleu() -> None:
    numbers = random.Random(5)
    references = [random_sentences(numbers, 30) for _ in range(2)]
    segments = [numbers.randrange(30) for _ in range(400)]
    hypotheses = random_sentences(numbers, 400)
    found = Chrf(references).statistics(hypotheses, segments)
    for words, segment, statistics in zip(hypotheses, segments, found, strict=True):
        wanted = CHRF()._extract_corpus_statistics(
            [" ".join(words)], [[" ".join(each[segment])] for each in references]
        )[0]
        assert statistics.tolist() == [*wanted[0::3], *wanted[1::3], *wanted[2::3]]


def test_lists_longer_than_a_slice_are_counted_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = random.Random(6)
    metric = Chrf([random_sentences(numbers, 5)])
    hypotheses, segments = random_sentences(numbers, 23), [numbers.randrange(5) for _ in range(23)]
    whole = metric.statistics(hypotheses, segments)
    monkeypatch.setattr("tuning.chrf._SLICE", 7)
    assert metric.statistics(hypotheses, segments).tolist() == whole.tolist()


def test_many_sums_are_scored_at_once() -> None:
    sums = np.zeros((2, 3, NUM_STATISTICS))
    sums[1, 2] = 1.0  # one n-gram of every order, and it matches
    assert chrf(sums).tolist() == [[0, 0, 0], [0, 0, 1]]


def test_no_hypothesis_has_no_statistics() -> None:
    assert Chrf([[["a"]]]).statistics([], []).shape == (0, NUM_STATISTICS)


def test_wrong_numbers_of_segments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"references of equal length, got \[1, 2\]"):
        Chrf([[["a"]], [["a"], ["b"]]])
    with pytest.raises(ValueError, match="expected 1 segments, got 2"):
        Chrf([[["a"]]]).statistics([["a"]], [0, 0])
