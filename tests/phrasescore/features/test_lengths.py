"""Lengths and their ratio."""

import math

import pytest

from phrasescore.features.lengths import LengthRatio, TargetLength
from phrasescore.records import PhrasePair

PAIRS = [
    PhrasePair(("a", "b"), ("x", "y", "z", "z", "z")),
    PhrasePair((), ()),
    PhrasePair(("a",), ()),
]


def test_the_length_is_the_number_of_target_words() -> None:
    feature = TargetLength()
    assert list(feature.values(PAIRS)) == [5.0, 0.0, 0.0]
    assert feature.summary() == "5 target words"


def test_the_ratio_counts_the_ends_and_is_0_for_equal_lengths() -> None:
    # By hand: 6/3, 1/1 and 1/2.
    values = list(LengthRatio().values(PAIRS))
    assert values == pytest.approx([math.log(2), 0.0, -math.log(2)], rel=1e-15)


def test_the_summary_has_the_usual_ratio() -> None:
    feature = LengthRatio()
    list(feature.values([PAIRS[0], PAIRS[0], PAIRS[2], PAIRS[1]]))
    # The geometric mean of 2, 2, 1/2 and 1.
    assert feature.summary() == f"{2 ** (1 / 4):.3f} target words a source word"
    assert LengthRatio().summary() == "nan target words a source word"
