"""Systems compared: significance, groups of sentences, and figures."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from phrasescore.evaluation.comparison import (
    MOST_UNKNOWN,
    SEED,
    TRIALS,
    ComparedSystem,
    Comparison,
    group_by_unknown_words,
)
from phrasescore.evaluation.sentences import Sentences, read_sentences
from phrasescore.evaluation.significance import (
    PairedTest,
    bootstrap_spread,
    difference_interval,
    randomization_p_value,
    run_paired_test,
)
from phrasescore.vocabulary import Vocabulary
from tuning.metrics import Bleu, BleuScore, CorpusBleu

TEXTS = ["a b c d e", "a b c d f g", "b c d e", "h i j k l m", "a b"]
OTHERS = ["a b c d e", "a b c x f g", "b c d e e", "h i j k m l", "b a"]
# Another replica: better than OTHERS in some sentences, and worse in others.
MIXED = ["a x c d e", "a b c d f g", "b c d e", "h i j k m l", "x"]


def sentences(texts: list[str]) -> Sentences:
    return Sentences("texts", texts, [tuple(text.split()) for text in texts])


def compare(*replicas: list[list[str]], has_baseline: bool = True) -> Comparison:
    systems = [ComparedSystem(str(at), [*map(sentences, of)]) for at, of in enumerate(replicas)]
    return Comparison(systems, [sentences(TEXTS)], has_baseline=has_baseline)


def test_equal_systems_do_not_differ() -> None:
    first, second = compare([OTHERS], [OTHERS]).scores
    assert first.replicas == second.replicas
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
    assert (baseline.replicas, baseline.deviation) == ((low,), None)
    assert system.replicas == pytest.approx((100, mixed))
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


def test_groups_are_measured_as_corpora(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasescore.evaluation.comparison.WIDTH", 5)
    comparison = compare([TEXTS], [OTHERS])
    breakdown = comparison.by_length("reference")
    groups = comparison.score_groups(breakdown)
    assert [(group.label, group.sentences) for group in groups.groups] == [("1-5", 3), ("6-10", 2)]
    # Of OTHERS, by hand: in the second group 11 of 12 words, 6 of 10 bigrams (ab bc fg hi ij jk),
    # 3 of 8 trigrams (abc hij ijk) and 1 of 6 4-grams (hijk).
    by_hand = 100 * (11 / 12 * 6 / 10 * 3 / 8 * 1 / 6) ** 0.25
    assert groups.groups[1].bleu == pytest.approx((100, by_hand))
    spreads = comparison.group_spreads(breakdown)
    assert [len(of_group) for of_group in spreads] == [2, 2]
    # Every sample of correct translations of six words has BLEU 100.
    assert spreads[1][0] == 0.0 < spreads[1][1]


def test_unknown_words_are_counted_on_the_sides_that_are_there() -> None:
    shortlists = {"source": Vocabulary(["x"]), "reference": Vocabulary(["a", "b"])}
    titles = [each.title for each in compare([TEXTS]).by_unknown_words(shortlists)]
    assert titles[0] == "unknown words in the reference"
    assert len(titles) == 2


def texts(seed: int, spoilt: float) -> list[list[str]]:
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
        metric, statistics(metric, [first]), statistics(metric, [second]), trials=4000, seed=SEED
    )
    lines = [[" ".join(words) for words in system] for system in (references, first, second)]
    metrics = [BLEU(tokenize="none", force=True, references=[lines[0]])]
    theirs = run_paired_test(PairedTest("approximate", 4000, SEED), metrics, lines[1:])
    assert found == theirs[0].systems[1].p_value


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


def test_an_interval_is_that_of_differences_on_the_same_samples() -> None:
    metric = Bleu([texts(1, 0)])
    first = statistics(metric, [texts(2, 0.2)])
    second = statistics(metric, [texts(3, 0.15), texts(4, 0.1)])
    low, high = difference_interval(metric, first, second, seed=3)
    numbers = np.random.default_rng(7)
    differences = []
    for _ in range(4000):
        drawn = numbers.integers(60, size=60)
        one, *others = (
            100 * BleuScore.of(each[drawn].sum(axis=0)).bleu for each in (*first, *second)
        )
        differences.append(np.mean(others) - one)
    # Percentiles of 1000 and of 4000 samples agree within a fraction of the interval.
    expected = np.percentile(differences, (2.5, 97.5))
    assert (low, high) == pytest.approx(tuple(expected), abs=0.12 * (expected[1] - expected[0]))
    assert difference_interval(metric, first, first, seed=3) == (0.0, 0.0)


def test_sentences_of_like_length_are_a_group_and_empty_ones_are_apart() -> None:
    text = sentences([" ".join("a" * length) for length in (10, 0, 1, 11, 35, 20)])
    breakdown = Comparison([], [text]).by_length("reference")
    assert breakdown.title == "words in the reference"
    expected = {"0": [1], "1-10": [0, 2], "11-20": [3, 5], "31-40": [4]}
    assert list(breakdown.groups.items()) == list(expected.items())


def test_unknown_words_are_grouped_exactly_and_up_to_a_number() -> None:
    exactly, at_most = group_by_unknown_words("reference", [0, 3, 0, 1])
    assert exactly.groups == {"0": [0, 2], "1": [3], "3": [1]}
    assert at_most.title == "at most this number of unknown words in the reference"
    assert at_most.groups == {"0": [0, 2], "1": [0, 2, 3], "2": [0, 2, 3], "3": [0, 1, 2, 3]}


def test_very_many_unknown_words_share_a_group() -> None:
    counts = [1, MOST_UNKNOWN + 1, MOST_UNKNOWN, MOST_UNKNOWN + 5]
    exactly, at_most = group_by_unknown_words("source", counts)
    assert exactly.groups == {"1": [0], str(MOST_UNKNOWN): [2], f"> {MOST_UNKNOWN}": [1, 3]}
    assert list(at_most.groups.items())[-2:] == [(str(MOST_UNKNOWN), [0, 2]), ("any", [0, 1, 2, 3])]


def test_unknown_words_are_those_outside_the_shortlist() -> None:
    comparison = Comparison([], [sentences(["la rue rue", "", "maison"])])
    exactly, _ = comparison.by_unknown_words({"reference": Vocabulary(["la", "maison"])})
    assert exactly.groups == {"0": [1, 2], "2": [0]}


def test_blanks_separate_words_and_newlines_sentences(tmp_path: Path) -> None:
    path = tmp_path / "text"
    content = "a\v \f  \x1cb\u00a0c\r\n\u2028 \u0085 \u3000d\t e\n"
    path.write_bytes(content.encode())
    assert read_sentences(str(path)).words == [
        ("a", "\x1cb\u00a0c"),
        ("\u2028", "\u0085", "\u3000d", "e"),
    ]


def test_lines_of_few_words_are_compared_by_their_right_words() -> None:
    # A substituted, a missing and an added word among five words: 1 - 3 / 5, against 1 - 1 / 5.
    references = sentences(["a b", "c d", "e"])
    systems = [
        ComparedSystem("first", [sentences(["a x", "c", "e f"])]),
        ComparedSystem("second", [sentences(["a b", "c", "e"])]),
    ]
    first, second = Comparison(systems, [references], metric="word_accuracy").scores
    assert [first.mean, second.mean] == pytest.approx([40, 80])
    assert second.difference == pytest.approx(40)
    assert second.p_value is not None
