"""The section of results: its table, figure and sentence; groups of sentences."""

import math

import pytest

from phrasescore.evaluation.comparison import ComparedSystem, Comparison
from phrasescore.evaluation.sentences import Sentences
from phrasescore.evaluation.systems_table import SystemScore, SystemsTable, TableRow, TableText
from phrasescore.report import results
from phrasescore.report.blocks import Intervals, Table
from phrasescore.report.results import group_intervals
from tests.phrasescore.evaluation.test_systems_table import score
from tests.phrasescore.report.report_blocks import section_of

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


def news(*scores: SystemScore) -> SystemsTable:
    rows = (TableRow(f"row {at}", scores={"news": each}) for at, each in enumerate(scores))
    return SystemsTable("bleu", texts=(TableText("news"),), rows=tuple(rows))


def table_and_figure(found: SystemsTable) -> tuple[Table, Intervals | None]:
    table, *figures = section_of(results.results, experiment_table=found).blocks
    assert isinstance(table, Table)
    if not figures:
        return table, None
    (figure,) = figures
    assert isinstance(figure, Intervals)
    return table, figure


def test_systems_have_their_difference_from_the_first() -> None:
    comparison = compare("first", "other")
    table, figure = table_and_figure(comparison.to_table("text"))
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
    table, figure = table_and_figure(compare("first").to_table("text"))
    assert (table.columns, figure) == (("system", "BLEU", "length ratio"), None)


def test_the_text_of_tuning_comes_last_and_is_not_tested() -> None:
    texts = (TableText("dev", tuned=True), TableText("news"), TableText("talks"))
    names = ("news", "talks")
    rows = (
        TableRow("base", ("6+",), scores={"dev": score(60)} | dict.fromkeys(names, score(50))),
        TableRow(
            "+rnn",
            remarks=("odd",),
            scores={"dev": score(62, 2, 0.01)} | dict.fromkeys(names, score(51, 1, 0.01)),
        ),
        TableRow("+all", features="columns x"),
    )
    found = SystemsTable("bleu", ("one.", "* x: odd."), texts=texts, rows=rows)
    table, figure = table_and_figure(found)
    assert table.spans == (("", 1), ("news", 4), ("talks", 4), ("dev", 1), ("", 1))
    assert table.columns[:3] == ("system", "news: BLEU", "news: difference")
    assert [row[0] for row in table.rows] == ["base", "+rnn *", "+all"]
    assert table.rows[1][1:5] == (51, 1, 0.01, "+0.00 to +2.00")
    assert table.rows[2][1:] == (None,) * 10
    assert [row[-2:] for row in table.rows] == [(60, "6+"), (62, None), (None, None)]
    bold = "Bold: better than the first row, with p < 0.05."
    caption = f"{bold}\n+all: columns x.\n* +rnn: odd."
    assert (table.caption, table.strong) == (caption, ((1, 1), (1, 5)))
    assert figure is not None
    assert [(each.name, each.values) for each in figure.series] == [
        ("news", (1, None)),
        ("talks", (1, None)),
    ]
    notes = section_of(results.results, experiment_table=found).notes
    assert (notes[0], len(notes)) == ("one.", 3)


def test_no_p_value_is_of_the_text_of_tuning_even_if_it_is_the_only_one() -> None:
    rows = (
        TableRow("base", scores={"dev": score(60)}),
        TableRow("+rnn", scores={"dev": score(62, 2, 0.01)}),
    )
    texts = (TableText("dev", tuned=True), TableText("news"))
    found = SystemsTable("bleu", texts=texts, rows=rows)
    table, figure = table_and_figure(found)
    assert table.columns == ("system", "BLEU", "length ratio")
    assert (table.strong, figure) == ((), None)
    assert not any(
        "p:" in note for note in section_of(results.results, experiment_table=found).notes
    )


def test_only_significant_gains_are_bold() -> None:
    rows = [score(51, 1, 0.049), score(52, 2, 0.05), score(48, -2, 0), score(50, 0, 0)]
    table, _ = table_and_figure(news(score(50), *rows))
    assert table.strong == ((1, 1),)


def test_replicas_have_a_deviation() -> None:
    replicas = SystemScore((50.0, 52.0), 1.0)
    table, _ = table_and_figure(news(replicas))
    assert table.columns[:3] == ("system", "BLEU", "±")
    assert table.rows[0][1:3] == pytest.approx((51.0, 2**0.5))


def test_groups_have_their_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasescore.evaluation.comparison.WIDTH", 5)
    comparison = compare("first", "other")
    figure = group_intervals(comparison, comparison.by_length("reference"), "groups-1")
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
    figure = group_intervals(comparison, comparison.by_length("reference"), "groups-1")
    assert figure.rows == ("1-5",)
    assert [len(each.values) for each in figure.series] == [1, 1]
    assert figure.caption.endswith("1-5: 10, 6-10: 1. Groups of fewer than 10 are not drawn.")
