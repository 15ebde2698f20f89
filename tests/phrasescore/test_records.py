"""Promises of phrasescore.records."""

import copy

import pytest

from phrasescore.records import PhrasePair


@pytest.mark.parametrize("pair", [("the house", ("a",)), (("a",), "the house"), ("", ())])
def test_a_string_is_not_taken_for_the_words_of_a_phrase(pair: tuple) -> None:
    with pytest.raises(TypeError, match="expected a tuple of words, got the string"):
        PhrasePair(*pair)


def test_a_pair_is_a_tuple_of_two_phrases_and_can_be_copied() -> None:
    pair = PhrasePair(source=("la", "maison"), target=())
    assert isinstance(pair._replace(target=("x",)), PhrasePair)
    assert copy.deepcopy(pair) == pair
    assert tuple(pair) == (("la", "maison"), ())
