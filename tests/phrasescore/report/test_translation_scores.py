"""Tables and figures of translations, worked out by hand."""

from phrasescore.evaluation.breakdowns import Breakdown, Group
from phrasescore.report.blocks import Lines, Points
from phrasescore.report.translation_scores import (
    ComparedTexts,
    GroupScores,
    SystemScore,
    difference_section,
    translation_section,
)
from tests.phrasescore.report.report_blocks import blocks_of, table_of

SYSTEMS = [
    SystemScore("first", 40.0, 1.0),
    SystemScore("other", 42.5, 0.98, p_value=0.01, confidence=1.5),
]


def test_systems_have_their_difference_from_the_first_and_groups_their_lines() -> None:
    of = [Group("1-10", [0, 1, 2]), Group("11-20", [3, 4, 5, 6, 7])]
    breakdown = Breakdown("words in the source", of)
    groups = [GroupScores(breakdown, [[1, 2], [3, 4]], [[5, 6], [7, 8]])]
    section = translation_section(SYSTEMS, groups, "p: chance.")
    assert table_of(section, "bleu").rows == (
        ("first", 40.0, None, None, None, 1.0),
        ("other", 42.5, 1.5, 2.5, 0.01, 0.98),
    )
    lines = blocks_of(section)["bleu-groups-1"]
    assert isinstance(lines, Lines)
    assert [(one.name, one.x, one.y, one.spread) for one in lines.series] == [
        ("first", ("1-10", "11-20"), (1, 2), (5, 6)),
        ("other", ("1-10", "11-20"), (3, 4), (7, 8)),
    ]
    assert lines.caption.startswith("Sentences in each group: 1-10: 3, 11-20: 5. Bars: ")
    alone = table_of(translation_section(SYSTEMS[:1], [], ""), "bleu")
    assert alone.rows == (("first", 40.0, 1.0),)


def test_the_sentences_that_differ_most_come_with_their_texts() -> None:
    texts = ComparedTexts(
        ["s1", "s2", "s3"], ["r1", "r2", "r3"], [["a1", "a2", "a3"], ["b1", "b2", "b3"]]
    )
    section = difference_section(SYSTEMS, [[10.0, 50.0, 30.0], [20.0, 20.0, 30.0]], texts)
    better, worse = (table_of(section, f"differences-1-{end}") for end in ("better", "worse"))
    assert better.columns == ("sentence", "gain", "source", "reference", "first", "other")
    # The third is as good in both.
    assert better.rows == ((1, 10.0, "s1", "r1", "a1", "b1"),)
    assert worse.rows == ((2, -30.0, "s2", "r2", "a2", "b2"),)
    points = blocks_of(section)["differences-1-sentences"]
    assert isinstance(points, Points)
    assert (points.x, points.y) == ((10.0, 50.0, 30.0), (20.0, 20.0, 30.0))
    assert "better in 1 sentences, worse in 1, and as good in 1" in points.caption
    assert "p = 0.010." in points.caption
    without = difference_section(
        SYSTEMS, [[1.0], [2.0]], ComparedTexts(None, ["r"], [["a"], ["b"]])
    )
    assert table_of(without, "differences-1-better").columns[2] == "reference"
