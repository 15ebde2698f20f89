"""The plot of network scores against table scores, worked out by hand."""

import math

import pytest

from phrasescore.report.blocks import Points
from phrasescore.report.score_scatter import score_section
from tests.phrasescore.report.report_blocks import blocks_of, pair, table_of

PAIRS = [
    pair("<b>", "a &amp; b", 0.5, 12.0),
    pair("b", "b", 1.0, 2.0),
    pair("c", "c", 0.0, 1.0),
    pair("d", "d", 0.25, 1.0),
]


def test_each_pair_is_a_point_with_both_scores_and_both_phrases() -> None:
    section = score_section(PAIRS, [("rnn", [-1.0, -3.0, -2.0, -5.0], 0)], 1000)
    points = blocks_of(section)["scores-1"]
    assert isinstance(points, Points)
    # A probability of 0 is where Moses has it.
    assert points.x == pytest.approx([math.log(0.5), 0.0, -100.0, math.log(0.25)])
    assert points.y == (-1.0, -3.0, -2.0, -5.0)
    assert points.labels[:2] == ("<b> → a & b", "b → b")
    assert points.groups == (
        "extracted 10 times or more",
        "extracted 2 to 9 times",
        "extracted once",
        "extracted once",
    )
    assert points.equal
    assert points.caption.startswith("4 of 1,000 pairs.")


def test_correlations_are_those_of_scores_in_a_line() -> None:
    pairs = [pair("a", "a", probability) for probability in (0.5, 0.25, 0.125)]
    scores = [2 * math.log(each.scores[0]) for each in pairs]
    points = blocks_of(score_section(pairs, [("rnn", scores, 0)], 3))["scores-1"]
    assert points.caption.endswith("1.00 (Pearson), 1.00 of their ranks (Spearman).")


def test_the_pairs_that_differ_most_stand_at_both_ends() -> None:
    section = score_section(PAIRS, [("rnn", [-1.0, -3.0, -2.0, -5.0], 0)], 1000)
    above, below = (table_of(section, f"scores-1-{end}").rows for end in ("above", "below"))
    assert [row[:3] for row in above] == [("c", "c", 1)]
    assert [row[0] for row in below] == ["d", "b", "<b>"]
    differences = [98.0, -5 - math.log(0.25), -3.0, -1 - math.log(0.5)]
    assert [row[5] for row in above + below] == pytest.approx(differences)
    many = [pair(f"s{number}", "t", 1.0) for number in range(80)]
    section = score_section(many, [("rnn", [-float(number) for number in range(80)], 0)], 80)
    assert [row[0] for row in table_of(section, "scores-1-below").rows] == [
        f"s{number}" for number in range(79, 54, -1)
    ]
    assert "scores-1-above" not in blocks_of(section)
