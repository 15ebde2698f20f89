"""Promises of phrasescore.records."""

import copy
from collections.abc import Iterable

import pytest

from phrasescore.records import HypothesisList, PhrasePair, to_words


@pytest.mark.parametrize(
    "text",
    ["la  maison ", ["la", "maison"], ("la", "maison"), iter(["la", "maison"])],
    ids=["string", "list", "tuple", "iterator"],
)
def test_a_text_is_a_string_of_words_or_any_sequence_of_them(text: str | Iterable[str]) -> None:
    assert to_words(text) == ("la", "maison")
    assert to_words("") == ()
    assert to_words("a\u00a0b\tc") == ("a\u00a0b\tc",)  # words end at U+0020 only
    assert to_words("la maison\r\n") == ("la", "maison")  # a line as Python reads it


def test_what_is_no_text_is_refused() -> None:
    for wrong in (b"la maison", [1, 2], [("la",), ("maison",)]):
        with pytest.raises(TypeError, match="expected words, or a text of words as a string"):
            to_words(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a list of hypotheses, got the string 'la mai"):
        HypothesisList("the house", "la maison")
    for more in (["la maison"], ("la", "grande maison"), ("la maison",), "la\nmaison", ["la\n"]):
        with pytest.raises(TypeError, match="expected a word at each place, or one sentence"):
            to_words(more)


@pytest.mark.parametrize(
    "affiliations", [[[0, 0], [1, 1]], [[0, 1], [0], [0]], [[0, 3], [0]], [[0, -1], [0]]]
)
def test_affiliations_are_those_of_the_words(affiliations: list[list[int]]) -> None:
    HypothesisList("the house", ["la maison", "le"], [[0, 2], [1]])
    with pytest.raises(ValueError, match=r"expected (an affiliation of each word|affiliations)"):
        HypothesisList("the house", ["la maison", "le"], affiliations)


def test_pairs_and_lists_are_made_of_strings_as_of_words() -> None:
    words = (("the", "house"), ("la", "maison"))
    assert PhrasePair("the house", ["la", "maison"]) == PhrasePair(*words) == words
    expected = (("the", "house"), [("la", "maison"), ("le",)], None)
    assert HypothesisList("the house", ["la maison", ["le"]]) == expected
    found = HypothesisList(["the", "house"], [("la", "maison")], [[0, 1]])
    assert copy.deepcopy(found) == found
    assert found == (("the", "house"), [("la", "maison")], [(0, 1)])
    assert isinstance(copy.deepcopy(found), HypothesisList)


def test_a_pair_is_a_tuple_of_two_phrases_and_can_be_copied() -> None:
    pair = PhrasePair(source=("la", "maison"), target=())
    assert isinstance(pair._replace(target=("x",)), PhrasePair)
    assert copy.deepcopy(pair) == pair
    assert tuple(pair) == (("la", "maison"), ())
