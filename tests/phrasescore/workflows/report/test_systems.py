"""How systems of a report are measured, against a slow bootstrap."""

import numpy as np
import pytest

from phrasescore.evaluation.sentences import Sentences
from phrasescore.workflows.experiment.table import SEED, TRIALS
from phrasescore.workflows.report.systems import SystemText, bootstrap_spread, measure
from tuning.bleu import Bleu, BleuScore
from tuning.significance import randomization_p_value

TEXTS = ["a b c d e", "a b c d f g", "b c d e", "h i j k l m", "a b"]
OTHERS = ["a b c d e", "a b c x f g", "b c d e e", "h i j k m l", "b a"]


def sentences(texts: list[str]) -> Sentences:
    return Sentences("texts", texts, [tuple(text.split()) for text in texts])


def test_a_spread_is_that_of_bleu_over_samples_drawn_one_by_one() -> None:
    metric = Bleu([[tuple(text.split()) for text in TEXTS]])
    words = [tuple(text.split()) for text in OTHERS]
    statistics = metric.statistics(words, range(5))[None]
    (found,) = bootstrap_spread(metric, statistics, seed=3)
    numbers = np.random.default_rng(7)
    samples = [
        100 * BleuScore.of(statistics[0][numbers.integers(5, size=5)].sum(axis=0)).bleu
        for _ in range(4000)
    ]
    # Two draws of a deviation: 1000 and 4000 samples are within some percent of one another.
    assert found == pytest.approx(1.96 * np.std(samples), rel=0.1)
    assert bootstrap_spread(metric, statistics[:, :1], seed=3) == [0.0]


def test_a_system_that_says_what_the_first_one_says_does_not_differ() -> None:
    systems = [SystemText(name, sentences(OTHERS)) for name in ("one", "two")]
    _, _, scores = measure(systems, [sentences(TEXTS)])
    assert scores[0].bleu == scores[1].bleu
    assert [score.p_value for score in scores] == [None, 1.0]


def test_a_comparison_has_the_p_value_of_the_table_of_an_experiment() -> None:
    systems = [SystemText("one", sentences(OTHERS)), SystemText("two", sentences(TEXTS))]
    metric, statistics, scores = measure(systems, [sentences(TEXTS)])
    expected = randomization_p_value(
        metric, statistics[:1], statistics[1:], trials=TRIALS, seed=SEED
    )
    assert scores[1].p_value == expected


def test_a_lone_system_is_not_compared() -> None:
    _, statistics, (score,) = measure([SystemText("one", sentences(TEXTS))], [sentences(TEXTS)])
    assert (score.bleu, score.length_ratio, score.confidence) == (100.0, 1.0, None)
    assert statistics.shape == (1, 5, 9)
