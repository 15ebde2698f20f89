"""Features of the words alone: by hand."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from phrasescore.errors import ModelError
from phrasescore.features.word_counts import (
    LengthRatio,
    NumberMismatch,
    PunctuationMismatch,
    SourceUnknownWords,
    TargetLength,
    UnknownWords,
)
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.records import PhrasePair
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import CslmConfig
from phrasescore.vocabulary import Vocabulary
from tests.doubles import RandomModel
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


def test_the_summary_has_the_usual_ratio() -> None:
    feature = LengthRatio()
    _, said = scored(feature, [PAIRS[0], PAIRS[0], PAIRS[2], PAIRS[1]])
    # The geometric mean of 2, 2, 1/2 and 1.
    assert said == f"{2 ** (1 / 4):.3f} target words per source word"
    assert scored(feature, [])[1] == "nan target words per source word"


def pair(source: str, target: str) -> PhrasePair:
    return PhrasePair(tuple(source.split()), tuple(target.split()))


@pytest.mark.parametrize(
    ("source", "target", "count"),
    [
        ("a house .", "une maison .", 0),
        ("a house .", "une maison", 1),
        ("a house", "une maison !", 1),
        ("who ?", "qui !", 2),
        ("a , b , c .", "a , b c .", 1),
        # Quotation marks and dashes of all kinds, escaped ones too; other scripts.
        ("&quot; a &quot; -", "« a » —", 0),
        ("`` a ''", "“ a ”", 0),
        ("a . b ?", "甲 。 乙 ？", 0),
        ("wait ...", "attendez …", 0),
        ("( a )", "( a (", 2),
        # No punctuation: an apostrophe of a word, a hyphen in one, a word with an escape.
        ("the house &apos;s", "l&apos; hôpital porte-clés", 0),
        ("", "", 0),
        ("&amp;", "&amp;", 0),
        ("+ %", "%", 1),
    ],
)
def test_punctuation_of_one_side_alone_is_counted(source: str, target: str, count: int) -> None:
    values, said = scored(PunctuationMismatch(), [pair(source, target)])
    assert values == [float(count)]
    assert said == f"{count} punctuation marks on only one side"


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


def test_each_source_is_compared_with_its_own_targets() -> None:
    first, second = ("a", "."), ("a", "?")
    pairs = [PhrasePair(side, ("x", ".")) for side in (first, first, second, first)]
    assert values_of(PunctuationMismatch(), pairs) == [0.0, 0.0, 2.0, 0.0]


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


def test_source_words_are_counted_on_their_own_side() -> None:
    feature = SourceUnknownWords([Vocabulary(["a"]), Vocabulary(["a", "b"])])
    pairs = [PhrasePair(("a", "b", "b"), ("x",)), PhrasePair((), ("x", "y"))]
    assert scored(feature, pairs) == ([2.0, 0.0], "2 unknown source words")


def test_a_language_model_has_no_source_words_that_it_could_lack(tmp_path: Path) -> None:
    RandomModel(tmp_path / "model", ["a"], ["x"])
    translation = load_checkpoint(tmp_path / "model")
    language_model = replace(translation, config=Config(kind="cslm", model=CslmConfig()))
    pairs = [PhrasePair(("a", "b"), ("x",))]
    feature = SourceUnknownWords.from_checkpoints([language_model, translation])
    assert values_of(feature, pairs) == [1.0]
    with pytest.raises(ModelError, match="a language model has no source words"):
        SourceUnknownWords.from_checkpoints([language_model])
