"""The paper's word penalty."""

import pytest

from phrasescore.features.unknown_words import UnknownWords
from phrasescore.records import PhrasePair
from phrasescore.vocabulary import Vocabulary


def test_target_words_outside_of_the_shortlist_are_counted_each_time() -> None:
    feature = UnknownWords([Vocabulary(["house"])])
    pairs = [PhrasePair(("x",), ("the", "house", "the")), PhrasePair(("x",), ("house",))]
    assert list(feature.values(pairs)) == [2.0, 0.0]
    assert feature.summary() == "2 unknown target words"


def test_a_word_that_one_of_several_networks_lacks_counts_once() -> None:
    feature = UnknownWords([Vocabulary(["the"]), Vocabulary(["the", "house"])])
    pairs = [PhrasePair(("x",), ("the", "house", "rare"))]
    assert list(feature.values(pairs)) == [2.0]


def test_literal_symbols_are_unknown_words() -> None:
    feature = UnknownWords([Vocabulary(["the"])])
    assert list(feature.values([PhrasePair(("x",), ("</s>", "<unk>", "the"))])) == [2.0]


def test_without_a_network_no_word_is_unknown_to_it() -> None:
    with pytest.raises(ValueError, match="at least one vocabulary"):
        UnknownWords([])
