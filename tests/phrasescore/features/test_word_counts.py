"""Features of the words alone: by hand."""

import math

import pytest

from phrasescore.features.word_counts import LengthRatio, NumberMismatch, TargetLength, UnknownWords
from phrasescore.records import PhrasePair
from phrasescore.vocabulary import Vocabulary
from tests.feature_values import scored, values_of

PAIRS = [
    PhrasePair(("a", "b"), ("x", "y", "z", "z", "z")),
    PhrasePair((), ()),
    PhrasePair(("a",), ()),
]


def test_the_length_is_the_number_of_target_words() -> None:
    feature = TargetLength()
    assert scored(feature, PAIRS) == ([5.0, 0.0, 0.0], "5 target words")


def test_the_ratio_counts_the_ends_and_is_0_for_equal_lengths() -> None:
    # By hand: 6/3, 1/1 and 1/2.
    values = values_of(LengthRatio(), PAIRS)
    assert values == pytest.approx([math.log(2), 0.0, -math.log(2)], rel=1e-15)


def test_the_summary_has_the_mean() -> None:
    feature = LengthRatio()
    _, said = scored(feature, [PAIRS[0], PAIRS[0], PAIRS[2], PAIRS[1]])
    assert said == "4 values, 0.1733 on average"
    assert scored(feature, [])[1] == "0 values, nan on average"


def pair(source: str, target: str) -> PhrasePair:
    return PhrasePair(tuple(source.split()), tuple(target.split()))


@pytest.mark.parametrize(
    ("source", "target", "count"),
    [
        ("in 1984 .", "en 1984 .", 0),
        ("in 1984", "en 1948", 2),
        ("1,000.5 euros", "1.000,5 euros", 0),
        ("2 and 2", "2 et", 1),
        ("٤ x", "4 x", 0),
        # An escape's digits are none.
        ("a &#124; b", "a b", 0),
        ("mp3", "mp3", 0),
        ("mp3", "mp4", 2),
    ],
)
def test_numbers_of_one_side_alone_are_counted(source: str, target: str, count: int) -> None:
    values, said = scored(NumberMismatch(), [pair(source, target)])
    assert values == [float(count)]
    assert said == f"{count} numbers on only one side"


def test_target_words_outside_of_the_shortlist_are_counted_each_time() -> None:
    feature = UnknownWords([Vocabulary(["house"])])
    pairs = [PhrasePair(("x",), ("the", "house", "the")), PhrasePair(("x",), ("house",))]
    assert scored(feature, pairs) == ([2.0, 0.0], "2 unknown target words")


def test_a_word_that_one_of_several_networks_lacks_counts_once() -> None:
    feature = UnknownWords([Vocabulary(["the"]), Vocabulary(["the", "house"])])
    pairs = [PhrasePair(("x",), ("the", "house", "rare"))]
    assert values_of(feature, pairs) == [2.0]


def test_literal_symbols_are_unknown_words() -> None:
    feature = UnknownWords([Vocabulary(["the"])])
    assert values_of(feature, [PhrasePair(("x",), ("</s>", "<unk>", "the"))]) == [2.0]
