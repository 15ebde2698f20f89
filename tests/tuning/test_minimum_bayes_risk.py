"""Promises of tuning.choices: Moses' choice (moses/mbr.cpp), worked out slowly here."""

import math
import random
from collections import Counter
from typing import get_args

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF

from tuning.choices import expected_gains, posterior
from tuning.settings import GainName


def _gain(hypothesis: list[str], reference: list[str]) -> float:
    """calculate_score of moses/mbr.cpp, line by line."""
    matches, totals = [], []
    for order in range(4):
        found, wanted = (
            Counter(tuple(words[at : at + order + 1]) for at in range(len(words) - order))
            for words in (hypothesis, reference)
        )
        matches.append(sum((found & wanted).values()))
        totals.append(max(len(hypothesis) - order, 0))
    if matches[0] == 0:
        return 0.0
    log_bleu = math.log(matches[0]) - math.log(totals[0])
    for match, total in zip(matches[1:], totals[1:], strict=True):
        log_bleu += math.log(match + 1) - math.log(total + 1)
    return math.exp(log_bleu / 4 + min(0.0, 1 - len(reference) / totals[0]))


def test_expected_gains_are_those_of_a_slow_implementation() -> None:
    for seed in range(10):
        numbers = random.Random(seed)
        sentences = [
            list(words)
            for words in {
                tuple(numbers.choices("abc", k=numbers.choice([0, 1, 2, 4, 7, 11])))
                for _ in range(25)
            }
        ]
        probabilities = np.random.default_rng(seed).dirichlet(np.ones(len(sentences)))
        expected = [
            sum(
                probability * (1.0 if place == other else _gain(sentence, sentences[other]))
                for other, probability in enumerate(probabilities)
            )
            for place, sentence in enumerate(sentences)
        ]
        np.testing.assert_allclose(expected_gains(sentences, probabilities), expected, rtol=1e-6)


@pytest.mark.parametrize("metric", get_args(GainName))
def test_of_many_sentences_the_likeliest_are_the_references(
    monkeypatch: pytest.MonkeyPatch, metric: GainName
) -> None:
    numbers = random.Random(2)
    sentences = sorted({tuple(numbers.choices("abcd", k=6)) for _ in range(40)})
    probabilities = np.random.default_rng(2).dirichlet(np.ones(len(sentences)))
    likely = set(sorted(range(len(sentences)), key=lambda place: -probabilities[place])[:7])
    # The same where all others have no chance; a sentence that is none of them is no evidence.
    alone = [
        probability if place in likely else 0.0 for place, probability in enumerate(probabilities)
    ]
    expected = expected_gains(sentences, np.array(alone) / sum(alone), metric=metric)
    monkeypatch.setattr("tuning.choices.MAX_EVIDENCE", 7)
    found = expected_gains(sentences, probabilities, metric=metric)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_expected_chrf_is_that_of_sacrebleu() -> None:
    """Sentences are short and long, empty, of one letter, and alike but for their blanks."""
    sentence_chrf = CHRF().sentence_score
    for seed in range(5):
        numbers = random.Random(seed)
        sizes = [0, 1, 2, 4, 9]
        words = ["a", "ab", "ba", "abba", "\u00e9t\u00e9", "l'", "b\u00a0a"]
        drawn = {tuple(numbers.choices(words, k=numbers.choice(sizes))) for _ in range(20)}
        sentences = sorted(drawn | {(), ("a", "b"), ("ab",)})
        probabilities = np.random.default_rng(seed).dirichlet(np.ones(len(sentences)))
        texts = [" ".join(sentence) for sentence in sentences]
        expected = [
            sum(
                probability * (1 if this == other else sentence_chrf(this, [other]).score / 100)
                for other, probability in zip(texts, probabilities, strict=True)
            )
            for this in texts
        ]
        found = expected_gains(sentences, probabilities, metric="chrf")
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("metric", get_args(GainName))
def test_the_number_of_sentences_at_a_time_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, metric: GainName
) -> None:
    numbers = random.Random(1)
    sentences = sorted({tuple(numbers.choices("abcd", k=6)) for _ in range(50)})
    probabilities = np.random.default_rng(1).dirichlet(np.ones(len(sentences)))
    expected = expected_gains(sentences, probabilities, metric=metric)
    monkeypatch.setattr("tuning.choices._ROWS", 7)
    assert expected_gains(sentences, probabilities, metric=metric).tolist() == expected.tolist()


def test_the_choice_is_what_most_others_are_like_and_not_the_likeliest() -> None:
    sentences = [
        ["une", "autre", "chose"],
        ["la", "maison", "est", "là"],
        ["la", "maison", "est", "ici"],
    ]
    gains = expected_gains(sentences, np.array([0.4, 0.3, 0.3]))
    assert int(gains.argmax()) == 1


def test_a_single_hypothesis_has_gain_1_even_if_it_is_empty() -> None:
    assert expected_gains([["a"]], np.ones(1)).tolist() == [1.0]
    assert expected_gains([[]], np.ones(1)).tolist() == [1.0]


def test_the_posterior_is_a_softmax_that_no_large_score_breaks() -> None:
    np.testing.assert_allclose(posterior(np.array([0.0, math.log(3)]), 1.0), [0.25, 0.75])
    np.testing.assert_allclose(posterior(np.array([0.0, math.log(3)]), 2.0), [0.1, 0.9])
    assert posterior(np.array([1e5, 0.0]), 1.0) == pytest.approx([1.0, 0.0])
