"""The features count what they say."""

import pytest
from outside_feature import CopiedWords, UnevenBrackets


def test_copied_words_are_counted_without_names_numbers_and_short_words() -> None:
    source = ["the", "zoologist", "Anna", "met", "a", "zoologist", "in", "2014"]
    target = ["le", "zoologist", "Anna", "a", "vu", "a", "zoologist", "zoologist", "en", "2014"]
    assert list(CopiedWords().values([(source, target)])) == [2.0]


@pytest.mark.parametrize(
    ("target", "count"),
    [("( a ) b", 0), ("( a", 1), ("a ) ( b", 2), ("( &#91; a ) &#93;", 2), ("« [ a ] »", 0)],
)
def test_brackets_are_uneven_where_one_lacks_the_other(target: str, count: int) -> None:
    # By hand. Of brackets that cross, "( [ a ) ]", the outer ones stay open when the ")" comes.
    assert list(UnevenBrackets().values([((), target.split())])) == [count]
