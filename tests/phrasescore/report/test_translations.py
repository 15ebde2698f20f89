"""Tables and figures of translations, worked out by hand."""

import pytest

from phrasescore.evaluation.comparison import ComparedSystem, Comparison
from phrasescore.evaluation.sentences import Sentences
from phrasescore.report.blocks import Lines, Points
from phrasescore.report.translations import difference_section, translation_section
from tests.phrasescore.report.report_blocks import blocks_of, table_of

REFERENCE = ["a b c d e", "f g h i", "k l m n o p"]
# The other system loses the second sentence.
FIRST = ["x", "f g h i", "k l m n o p"]
OTHER = ["a b c d e", "x", "k l m n o p"]
# Matching words and n-grams of both systems are the same but for the sentence of 5 and of 4 words:
# FIRST has 10 of 11 words, 8 of 8 bigrams, 6 of 6, 4 of 4; OTHER 11 of 12, 9 of 9, 7 of 7, 5 of 5.


def sentences(texts: list[str]) -> Sentences:
    return Sentences("texts", texts, [tuple(text.split()) for text in texts])


def compare(*names: str, source: list[str] | None = None) -> Comparison:
    systems = [
        ComparedSystem(name, [sentences(text)])
        for name, text in zip(names, (FIRST, OTHER), strict=False)
    ]
    found = None if source is None else sentences(source)
    return Comparison(systems, [sentences(REFERENCE)], found)


def test_systems_have_their_difference_from_the_first_and_groups_their_lines() -> None:
    comparison = compare("first", "other")
    section = translation_section(comparison, [comparison.by_length("reference", 5)], seed=1)
    first, other = table_of(section, "bleu").rows
    # exp(1 - 15/11) * (10/11) ** (1/4) and exp(1 - 15/12) * (11/12) ** (1/4)
    assert (first[0], first[1], first[3:]) == ("first", 67.88, (None, None, 0.733))
    assert (other[0], other[1], other[3], other[5]) == ("other", 76.2, 8.33, 0.8)
    assert isinstance(first[2], float)
    assert other[4] == comparison.scores[1].p_value
    lines = blocks_of(section)["bleu-groups-1"]
    assert isinstance(lines, Lines)
    assert [(one.name, one.x) for one in lines.series] == [
        ("first", ("1-5", "6-10")),
        ("other", ("1-5", "6-10")),
    ]
    assert [one.y[1] for one in lines.series] == pytest.approx([100, 100])
    assert lines.caption.startswith("Sentences in each group: 1-5: 2, 6-10: 1. Bars: ")


def test_a_single_system_is_not_compared() -> None:
    table = table_of(translation_section(compare("first"), [], seed=1), "bleu")
    assert (table.rows, table.caption) == ((("first", 67.88, 0.733),), "")


def test_the_sentences_that_differ_most_come_with_their_texts() -> None:
    comparison = compare("first", "other", source=["s1", "s2", "s3"])
    section = difference_section(comparison)
    better, worse = (table_of(section, f"differences-1-{end}") for end in ("better", "worse"))
    assert better.columns == ("sentence", "gain", "source", "reference", "first", "other")
    # The third is as good in both.
    assert better.rows == ((1, 100.0, "s1", REFERENCE[0], "x", REFERENCE[0]),)
    assert worse.rows == ((2, -100.0, "s2", REFERENCE[1], REFERENCE[1], "x"),)
    points = blocks_of(section)["differences-1-sentences"]
    assert isinstance(points, Points)
    assert (points.x, points.y) == ((0.0, 100.0, 100.0), (100.0, 0.0, 100.0))
    assert points.labels == ("1: s1", "2: s2", "3: s3")
    assert "better in 1 sentences, worse in 1, and as good in 1" in points.caption
    assert "By BLEU of the whole text p = " in points.caption


def test_without_a_source_the_references_are_shown() -> None:
    section = difference_section(compare("reference", "other"))
    table = table_of(section, "differences-1-better")
    assert table.columns[2:] == ("reference", "reference", "other")
