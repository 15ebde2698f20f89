"""The paper's word penalty."""

from dataclasses import replace
from pathlib import Path

import pytest

from phrasescore.config.config import Config
from phrasescore.config.settings import CslmConfig
from phrasescore.errors import ModelError
from phrasescore.features.unknown_words import SourceUnknownWords, UnknownWords
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.records import PhrasePair
from phrasescore.vocabulary import Vocabulary
from tests.doubles import RandomModel


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


def test_source_words_are_counted_on_their_own_side() -> None:
    feature = SourceUnknownWords([Vocabulary(["a"]), Vocabulary(["a", "b"])])
    pairs = [PhrasePair(("a", "b", "b"), ("x",)), PhrasePair((), ("x", "y"))]
    assert list(feature.values(pairs)) == [2.0, 0.0]
    assert feature.summary() == "2 unknown source words"


def test_a_language_model_has_no_source_words_that_it_could_lack(tmp_path: Path) -> None:
    RandomModel(tmp_path / "model", ["a"], ["x"])
    translation = load_checkpoint(tmp_path / "model")
    language_model = replace(translation, config=Config(kind="cslm", model=CslmConfig()))
    pairs = [PhrasePair(("a", "b"), ("x",))]
    feature = SourceUnknownWords.from_checkpoints([language_model, translation])
    assert list(feature.values(pairs)) == [1.0]
    with pytest.raises(ModelError, match="a language model knows no source words"):
        SourceUnknownWords.from_checkpoints([language_model])
