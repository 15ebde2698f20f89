"""Promises of phrasescore.evaluation: groups by hand, figures that are always the same bytes."""

import pytest

from phrasescore.evaluation.comparison import (
    MOST_UNKNOWN,
    Group,
    count_unknown,
    group_by_length,
    group_by_unknown_words,
)
from phrasescore.evaluation.plots import FORMATS, Panel, draw
from phrasescore.vocabulary import Vocabulary


def test_sentences_of_like_length_are_a_group_and_empty_ones_are_apart() -> None:
    breakdown = group_by_length("source", [10, 0, 1, 11, 35, 20], width=10)
    assert breakdown.title == "words in the source"
    assert breakdown.groups == [
        Group("0", [1]),
        Group("1-10", [0, 2]),
        Group("11-20", [3, 5]),
        Group("31-40", [4]),
    ]


def test_a_group_of_one_length_is_called_by_it() -> None:
    assert group_by_length("source", [3, 1, 3], width=1).groups == [
        Group("1", [1]),
        Group("3", [0, 2]),
    ]


def test_unknown_words_are_grouped_exactly_and_up_to_a_number() -> None:
    exactly, at_most = group_by_unknown_words("reference", [0, 3, 0, 1])
    assert exactly.groups == [Group("0", [0, 2]), Group("1", [3]), Group("3", [1])]
    assert at_most.title == "at most so many unknown words in the reference"
    assert at_most.groups == [
        Group("0", [0, 2]),
        Group("1", [0, 2, 3]),
        Group("2", [0, 2, 3]),
        Group("3", [0, 1, 2, 3]),
    ]


def test_very_many_unknown_words_share_a_group() -> None:
    counts = [1, MOST_UNKNOWN + 1, MOST_UNKNOWN, MOST_UNKNOWN + 5]
    exactly, at_most = group_by_unknown_words("source", counts)
    assert exactly.groups == [
        Group("1", [0]),
        Group(str(MOST_UNKNOWN), [2]),
        Group(f"> {MOST_UNKNOWN}", [1, 3]),
    ]
    assert at_most.groups[-1] == Group("any", [0, 1, 2, 3])
    assert at_most.groups[-2] == Group(str(MOST_UNKNOWN), [0, 2])


def test_unknown_words_are_those_outside_the_shortlist() -> None:
    vocabulary = Vocabulary(["la", "maison"])
    assert count_unknown(vocabulary, [("la", "rue", "rue"), (), ("maison",)]) == [2, 0, 0]


@pytest.mark.parametrize(
    ("file_format", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_a_figure_is_a_file_of_its_format_and_the_same_every_time(
    file_format: str, start: bytes
) -> None:
    panels = [
        Panel("words", ["1-10", "11-20"], [[50.0, 40.0], [51.0, 43.0]]),
        Panel("x", ["0"], [[1.0], [2.0]]),
    ]
    image = draw(panels, ["_moses$", "lstm$"], file_format)
    assert image.startswith(start)
    assert draw(panels, ["_moses$", "lstm$"], file_format) == image
    assert file_format in FORMATS
    if file_format == "svg":
        for text in (b"words", b"1-10", b"BLEU", b"_moses$", b"lstm$"):
            assert text in image
