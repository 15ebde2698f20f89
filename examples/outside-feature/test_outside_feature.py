"""The features and the metric keep their contracts, and count what they say."""

import numpy as np
import pytest
from outside_feature import CopiedWords, TranslatedWordF, UnevenBrackets, WordF

from phrasescore.testing import check_feature, check_metric


def test_contracts() -> None:
    check_feature(CopiedWords)
    check_feature(UnevenBrackets)
    check_metric(WordF)
    check_metric(TranslatedWordF)


def test_copied_words_are_counted_without_names_numbers_and_short_words() -> None:
    source = ["the", "zoologist", "Anna", "met", "a", "zoologist", "in", "2014"]
    target = ["le", "zoologist", "Anna", "a", "vu", "a", "zoologist", "zoologist", "en", "2014"]
    assert list(CopiedWords().values([(source, target)])) == [2.0]
    assert list(CopiedWords(shortest="1").values([(source, target)])) == [3.0]


@pytest.mark.parametrize(
    ("target", "count"),
    [("( a ) b", 0), ("( a", 1), ("a ) ( b", 2), ("( &#91; a ) &#93;", 2), ("« [ a ] »", 0)],
)
def test_brackets_are_uneven_where_one_lacks_the_other(target: str, count: int) -> None:
    # By hand. Of brackets that cross, "( [ a ) ]", the outer ones stay open when the ")" comes.
    assert list(UnevenBrackets().values([((), target.split())])) == [count]


def test_the_metric_of_two_segments_is_that_of_their_words_together() -> None:
    metric = WordF([[["the", "cat", "sat"], ["a", "dog"]]])
    found = metric.statistics([["the", "the", "cat"], ["dog"]], [0, 1])
    assert found.tolist() == [[2, 3, 3], [1, 1, 2]]
    assert metric.score(found.sum(axis=0)) == pytest.approx(2 * 3 / (4 + 5))
    assert metric.score(np.zeros(3)) == 0


def test_a_word_of_the_source_is_no_translation() -> None:
    metric = TranslatedWordF([[["the", "cat", "sat"]]], sources=[["le", "cat"]])
    assert metric.statistics([["the", "cat"]], [0]).tolist() == [[1, 2, 2]]
