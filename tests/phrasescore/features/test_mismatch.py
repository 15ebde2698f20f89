"""Punctuation and numbers that one side alone has."""

import pytest

from phrasescore.features.mismatch import NumberMismatch, PunctuationMismatch
from phrasescore.records import PhrasePair


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
    feature = PunctuationMismatch()
    assert list(feature.values([pair(source, target)])) == [float(count)]
    assert feature.summary() == f"{count} punctuation marks on one side alone"


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
    feature = NumberMismatch()
    assert list(feature.values([pair(source, target)])) == [float(count)]
    assert feature.summary() == f"{count} numbers on one side alone"


def test_each_source_is_compared_with_its_own_targets() -> None:
    first, second = ("a", "."), ("a", "?")
    pairs = [PhrasePair(side, ("x", ".")) for side in (first, first, second, first)]
    assert list(PunctuationMismatch().values(pairs)) == [0.0, 0.0, 2.0, 0.0]
