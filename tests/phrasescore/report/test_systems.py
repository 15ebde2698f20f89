"""The section of results: its table, figure and sentence; groups of sentences, and weights."""

import math
from dataclasses import replace

import msgspec
import pytest

from phrasescore.evaluation.comparison import ComparedSystem, Comparison, SystemScore
from phrasescore.evaluation.sentences import Sentences
from phrasescore.records import ReliabilityRow
from phrasescore.report.blocks import Intervals, Table
from phrasescore.report.systems import (
    Results,
    TextResults,
    groups_section,
    reliability_figure,
    results_section,
    text_results,
    weights_table,
)
from phrasescore.report.tuning import TuneReport

REFERENCE = ["a b c d e", "f g h i", "k l m n o p"]
# The other system loses the second sentence.
FIRST = ["x", "f g h i", "k l m n o p"]
OTHER = ["a b c d e", "x", "k l m n o p"]
# Matching words and n-grams of both systems are the same but for the sentence of 5 and of 4 words:
# FIRST has 10 of 11 words, 8 of 8 bigrams, 6 of 6, 4 of 4; OTHER 11 of 12, 9 of 9, 7 of 7, 5 of 5.


def sentences(texts: list[str]) -> Sentences:
    return Sentences("texts", texts, [tuple(text.split()) for text in texts])


def compare(*names: str) -> Comparison:
    systems = [
        ComparedSystem(name, [sentences(text)])
        for name, text in zip(names, (FIRST, OTHER), strict=False)
    ]
    return Comparison(systems, [sentences(REFERENCE)])


def table_and_figure(results: Results) -> tuple[Table, Intervals | None]:
    table, *figures = results_section(results).blocks
    assert isinstance(table, Table)
    if not figures:
        return table, None
    (figure,) = figures
    assert isinstance(figure, Intervals)
    return table, figure


def score(
    name: str, mean: float, difference: float | None = None, p_value: float | None = None
) -> SystemScore:
    """Return a score whose difference has an interval of 1 on either side."""
    interval = None if difference is None else (difference - 1, difference + 1)
    return SystemScore(name, (mean,), 0.9, difference, interval, p_value)


def results(*scores: SystemScore, missing: tuple[str, ...] = ()) -> Results:
    names = tuple(each.name for each in scores)
    text = TextResults("news", dict(zip(names, scores, strict=True)))
    return Results((*names, *missing), (text,))


def test_systems_have_their_difference_from_the_first() -> None:
    comparison = compare("first", "other")
    table, figure = table_and_figure(text_results(comparison, "text"))
    assert table.columns == ("system", "BLEU", "difference", "p", "95% interval", "length ratio")
    first, other = table.rows
    low = 100 * math.exp(1 - 15 / 11) * (10 / 11) ** 0.25
    high = 100 * math.exp(1 - 15 / 12) * (11 / 12) ** 0.25
    assert first[1] == pytest.approx(low)
    assert (first[0], *first[2:]) == ("first", None, None, None, 11 / 15)
    assert other[1:3] == pytest.approx((high, high - low))
    assert (other[3], other[5]) == (comparison.scores[1].p_value, 0.8)
    assert figure is not None
    assert (figure.rows, figure.series[0].values) == (("other",), (other[2],))
    interval = comparison.scores[1].interval
    assert interval is not None
    assert (figure.series[0].low[0], figure.series[0].high[0]) == interval


def test_a_single_system_is_not_compared() -> None:
    table, figure = table_and_figure(text_results(compare("first"), "text"))
    assert (table.columns, figure) == (("system", "BLEU", "length ratio"), None)


def test_the_text_of_tuning_comes_last_and_is_not_tested() -> None:
    dev = TextResults("dev", {"base": score("base", 60), "+rnn": score("+rnn", 62, 2, 0.01)}, True)
    tests = [
        TextResults(name, {"base": score("base", 50), "+rnn": score("+rnn", 51, 1, 0.01)})
        for name in ("news", "talks")
    ]
    systems, remarks = ("base", "+rnn", "+all"), {"+rnn": ["odd"]}
    found = Results(systems, (dev, *tests), "bleu", {"base": "6+"}, remarks, ["one.", "* x: odd."])
    table, figure = table_and_figure(found)
    assert table.spans == (("", 1), ("news", 4), ("talks", 4), ("dev", 1), ("", 1))
    assert table.columns[:3] == ("system", "news: BLEU", "news: difference")
    assert [row[0] for row in table.rows] == ["base", "+rnn *", "+all"]
    assert table.rows[1][1:5] == (51, 1, 0.01, "+0.00 to +2.00")
    assert table.rows[2][1:] == (None,) * 10
    assert [row[-2:] for row in table.rows] == [(60, "6+"), (62, None), (None, None)]
    bold = "Bold: better than the first row, with p < 0.05."
    assert (table.caption, table.strong) == (f"{bold}\n* +rnn: odd.", ((1, 1), (1, 5)))
    assert figure is not None
    assert [(each.name, each.values) for each in figure.series] == [
        ("news", (1, None)),
        ("talks", (1, None)),
    ]
    notes = results_section(found).notes
    assert (notes[0], len(notes)) == ("one.", 3)


@pytest.mark.parametrize(
    ("tests", "sentence", "choice"),
    [
        (
            {"news": score("+rnn", 51, 1, 0.001), "talks": score("+rnn", 52, 2, 0.02)},
            (
                "On news it is better: 1.00 more (p = 0.001). On talks it is better: 2.00 more "
                "(p = 0.020)."
            ),
            "+rnn, best on dev and better on test",
        ),
        (
            # The highest on news is another one.
            {"news": score("+rnn", 50.01, 0.01, 0.9), "talks": score("+rnn", 49, -1, 0.3)},
            (
                "On news it is not shown to be better: 0.01 more (p = 0.900). On talks it is not "
                "shown to be better: 1.00 less (p = 0.300)."
            ),
            "+rnn, best on dev but not shown to be better than base on news and talks",
        ),
        (
            {"news": score("+rnn", 50.01, 2, 0.04), "talks": score("+rnn", 49, -1, 0.01)},
            (
                "On news it is better: 2.00 more (p = 0.040). On talks it is worse: 1.00 less "
                "(p = 0.010)."
            ),
            "+rnn, best on dev but not shown to be better than base on talks",
        ),
        # Not translated yet.
        ({}, "", "+rnn, best on dev but not shown to be better than base on news and talks"),
    ],
)
def test_the_verdict_is_of_the_system_that_is_best_on_dev(
    tests: dict[str, SystemScore], sentence: str, choice: str
) -> None:
    on_dev = [score("base", 60), score("+rnn", 62), score("+x", 62), score("+y", 61)]
    dev = TextResults("dev", {each.name: each for each in on_dev}, True)
    others = {"base": score("base", 50), "+x": score("+x", 70, 20, 0.001)}
    texts = [
        TextResults(name, others | ({"+rnn": tests[name]} if name in tests else {}))
        for name in ("news", "talks")
    ]
    found = Results(("base", "+rnn", "+x", "+y"), (dev, *texts))
    assert (found.best, found.choice) == ("+rnn", choice)
    start = "+rnn is best on dev, with 62.00 BLEU, 2.00 more than base."
    assert found.headline().startswith(f"{start} {sentence}".strip())
    assert "+x" not in found.headline()


def test_the_first_system_may_be_the_best_on_dev() -> None:
    dev = TextResults("dev", {"base": score("base", 60), "+rnn": score("+rnn", 60)}, True)
    news = TextResults("news", {"base": score("base", 50), "+rnn": score("+rnn", 51, 1, 0.001)})
    found = Results(("base", "+rnn"), (dev, news))
    assert (found.best, found.choice) == ("base", "base")
    assert found.headline() == "base is best on dev, with 60.00 BLEU."


def test_no_p_value_is_of_the_text_of_tuning_even_if_it_is_the_only_one() -> None:
    dev = TextResults("dev", {"base": score("base", 60), "+rnn": score("+rnn", 62, 2, 0.01)}, True)
    found = Results(("base", "+rnn"), (dev, TextResults("news", {})))
    table, figure = table_and_figure(found)
    assert table.columns == ("system", "BLEU", "length ratio")
    assert (table.strong, figure) == ((), None)
    assert not any("p:" in note for note in results_section(found).notes)
    assert found.headline().startswith("+rnn is best on dev, with 62.00 BLEU, 2.00 more than base.")


def test_only_significant_gains_are_bold() -> None:
    rows = [score("better", 51, 1, 0.049), score("chance", 52, 2, 0.05), score("worse", 48, -2, 0)]
    table, _ = table_and_figure(results(BASE, *rows, score("equal", 50, 0, 0)))
    assert table.strong == ((1, 1),)


def test_replicas_have_a_deviation() -> None:
    replicas = SystemScore("base", (50.0, 52.0), 1.0)
    table, _ = table_and_figure(results(replicas))
    assert table.columns[:3] == ("system", "BLEU", "±")
    assert table.rows[0][1:3] == pytest.approx((51.0, 2**0.5))


BASE = score("base", 50)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            results(BASE, score("+rnn", 51.25, 1.25, 0.0001), score("+x", 49, -1, 0.2)),
            "+rnn has 51.25 BLEU on news, the most: 1.25 more than base (p < 0.001).",
        ),
        (
            results(BASE, score("+rnn", 50.5, 0.5, 0.21)),
            (
                "+rnn has 50.50 BLEU on news, the most: 0.50 more than base (p = 0.210), which may "
                "be chance."
            ),
        ),
        (
            results(BASE, score("+rnn", 47, -3, 0.01), score("+x", 50, 0, 1)),
            "base has 50.00 BLEU on news; no other system has more.",
        ),
        (results(BASE), "base has 50.00 BLEU on news."),
        (
            results(BASE, missing=("+rnn", "+x")),
            "base has 50.00 BLEU on news. 2 of 3 systems have no result yet.",
        ),
        (results(missing=("base",)), "No system has translated a text yet."),
    ],
    ids=["better", "chance", "worse", "one", "to-come", "none"],
)
def test_the_result_is_said_in_a_sentence(found: Results, sentence: str) -> None:
    assert found.headline() == sentence


def test_groups_have_their_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasescore.evaluation.comparison.WIDTH", 5)
    comparison = compare("first", "other")
    section = groups_section(comparison, [comparison.by_length("reference")])
    (figure,) = section.blocks
    assert isinstance(figure, Intervals)
    assert figure.rows == ("1-5", "6-10")
    assert [each.name for each in figure.series] == ["first", "other"]
    assert [each.values[1] for each in figure.series] == pytest.approx([100, 100])
    for each in figure.series:
        ends = [end or 0.0 for end in (each.low[0], each.values[0], each.high[0])]
        assert ends == sorted({*ends})
    assert figure.caption.endswith(" Sentences in each group: 1-5: 2, 6-10: 1.")


def test_groups_of_few_sentences_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasescore.evaluation.comparison.WIDTH", 5)
    texts = [*["a b c"] * 10, "a b c d e f g"]
    systems = [ComparedSystem(name, [sentences(texts)]) for name in ("first", "other")]
    comparison = Comparison(systems, [sentences(texts)])
    section = groups_section(comparison, [comparison.by_length("reference")])
    (figure,) = section.blocks
    assert isinstance(figure, Intervals)
    assert figure.rows == ("1-5",)
    assert [len(each.values) for each in figure.series] == [1, 1]
    assert figure.caption.endswith("1-5: 10, 6-10: 1. Groups of fewer than 10 are not drawn.")


def tuned(*features: dict[str, object]) -> TuneReport:
    counts = {"method": "mert", "metric": "BLEU", "seed": 1, "sentences": 1, "hypotheses": 1}
    return msgspec.convert({**counts, "start": 1, "reached": 2, "features": features}, TuneReport)


def test_weights_of_systems_stand_side_by_side() -> None:
    lm = {"name": "LM0_0", "start": 1, "weight": 0.5}
    rnn = {"name": "TM0_4", "start": 0, "weight": 0.1}
    lists = {"name": "RNNsearch0_0", "start": 0, "weight": 0.2}
    reports = {
        "base": tuned(lm),
        "+lists": tuned({**lm, "search": 0.4}, lists),
        "+rnn": tuned(lm, rnn),
    }
    table = weights_table(reports)
    assert table.columns == ("feature", "base", "+lists (search)", "+lists (lists)", "+rnn")
    assert table.rows == (
        ("LM0_0", 0.5, 0.4, 0.5, 0.5),
        ("RNNsearch0_0", None, None, 0.2, None),
        ("TM0_4", None, None, None, 0.1),
    )


def test_reliability_is_a_point_for_each_tenth_of_the_sentences() -> None:
    rows = [
        {"sentences": 3, "confidence": 0.25, "right": 0.5},
        {"sentences": 1, "confidence": 0.75, "right": 0.5},
    ]
    bins = msgspec.convert(rows, tuple[ReliabilityRow, ...])
    report = replace(tuned({"name": "LM0_0", "start": 0, "weight": 1}), reliability=bins)
    figure = reliability_figure({"base": report})
    assert (figure.x, figure.y) == ((25.0, 75.0), (50.0, 50.0))
    assert (figure.labels, figure.groups) == (("3 sentences", "1 sentences"), ("base", "base"))
    assert "Expected calibration error: base 0.250." in figure.caption
    assert "expected calibration error: 0.250" in report.to_text()
