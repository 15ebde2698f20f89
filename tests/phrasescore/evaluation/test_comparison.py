"""Systems measured together: phrasescore.evaluation.comparison."""

from pathlib import Path

import numpy as np
import pytest

from phrasescore.errors import DataError
from phrasescore.evaluation.comparison import SEED, TRIALS, ComparedSystem, Comparison
from phrasescore.evaluation.sentences import Sentences
from phrasescore.evaluation.significance import randomization_p_value
from phrasescore.vocabulary import Vocabulary
from tuning.bleu import Bleu

TEXTS = ["a b c d e", "a b c d f g", "b c d e", "h i j k l m", "a b"]
OTHERS = ["a b c d e", "a b c x f g", "b c d e e", "h i j k m l", "b a"]
# Another replica: better than OTHERS in some sentences, and worse in others.
MIXED = ["a x c d e", "a b c d f g", "b c d e", "h i j k m l", "x"]


def sentences(texts: list[str]) -> Sentences:
    return Sentences("texts", texts, [tuple(text.split()) for text in texts])


def compare(*replicas: list[list[str]], has_baseline: bool = True) -> Comparison:
    """Return a comparison of systems "0", "1", ... with TEXTS as their reference."""
    systems = [ComparedSystem(str(at), [*map(sentences, of)]) for at, of in enumerate(replicas)]
    return Comparison(systems, [sentences(TEXTS)], has_baseline=has_baseline)


def test_equal_systems_do_not_differ() -> None:
    first, second = compare([OTHERS], [OTHERS]).scores
    assert first.scores == second.scores
    assert (first.difference, first.p_value) == (None, None)
    assert (second.difference, second.p_value) == (0.0, 1.0)


def test_replicas_are_tested_together_and_have_a_mean_and_a_deviation() -> None:
    baseline, single, system = compare([OTHERS], [TEXTS], [TEXTS, MIXED]).scores
    metric = Bleu([[tuple(text.split()) for text in TEXTS]])
    statistics = [
        metric.statistics([tuple(text.split()) for text in texts], range(5))
        for texts in (OTHERS, TEXTS, MIXED)
    ]
    low, mixed = (100 * float(metric.score(of.sum(axis=0))) for of in statistics[::2])
    assert (baseline.scores, baseline.deviation) == ((low,), None)
    assert system.scores == pytest.approx((100, mixed))
    # Of two numbers, the sample standard deviation is their distance divided by the root of 2.
    assert system.deviation == pytest.approx((100 - mixed) / 2**0.5)
    assert system.difference == pytest.approx((100 + mixed) / 2 - low)
    replicas = np.array(statistics[1:])
    expected = randomization_p_value(
        metric, statistics[0][None], replicas, trials=TRIALS, seed=SEED
    )
    assert system.p_value == expected != single.p_value


def test_without_a_baseline_nothing_is_tested() -> None:
    scores = compare([OTHERS], [TEXTS], has_baseline=False).scores
    assert [(score.difference, score.p_value) for score in scores] == [(None, None)] * 2


def test_only_the_lengths_of_the_first_replica_count() -> None:
    (score,) = compare([["a b c d e f", "", "", "", ""]]).scores
    assert score.length_ratio == pytest.approx(6 / 23)


def test_groups_are_measured_as_corpora() -> None:
    comparison = compare([TEXTS], [OTHERS])
    breakdown = comparison.by_length("reference", 5)
    groups = comparison.score_groups(breakdown)
    assert [(group.label, group.sentences) for group in groups.groups] == [("1-5", 3), ("6-10", 2)]
    # Of OTHERS, by hand: in the second group 11 of 12 words, 6 of 10 bigrams (ab bc fg hi ij jk),
    # 3 of 8 trigrams (abc hij ijk) and 1 of 6 4-grams (hijk).
    by_hand = 100 * (11 / 12 * 6 / 10 * 3 / 8 * 1 / 6) ** 0.25
    assert groups.groups[1].bleu == pytest.approx((100, by_hand))
    spreads = comparison.group_spreads(breakdown, seed=1)
    assert [len(of_group) for of_group in spreads] == [2, 2]
    # Every sample of correct translations of six words has BLEU 100.
    assert spreads[1][0] == 0.0 < spreads[1][1]


def test_unknown_words_are_counted_on_the_sides_that_are_there() -> None:
    shortlists = {"source": Vocabulary(["x"]), "reference": Vocabulary(["a", "b"])}
    titles = [each.title for each in compare([TEXTS]).by_unknown_words(shortlists, "rnn")]
    assert titles[0] == "unknown words in the reference, to rnn"
    assert len(titles) == 2


def test_texts_of_other_lengths_and_n_best_lists_are_refused(tmp_path: Path) -> None:
    short, lists, whole = (str(tmp_path / name) for name in ("short", "lists", "whole"))
    Path(whole).write_text("a\nb\n")
    Path(short).write_text("a\n")
    Path(lists).write_text("0 ||| a ||| F= 1 ||| 1\n" * 2)
    with pytest.raises(DataError, match="short:1: the file ends with this line"):
        Comparison.read([("one", [whole, short])], [whole])
    with pytest.raises(DataError, match=r"lists:1: .*found an n-best list"):
        Comparison.read([("one", [lists])], [whole])
