"""IBM Model 1 against its definition, pair by pair."""

import math
import random

import pytest

from phrasescore.errors import DataError
from phrasescore.features import lexicon
from phrasescore.features.lexicon import FLOOR, LexicalScore, LexiconTable
from phrasescore.records import PhrasePair
from tests.feature_values import scored, values_of

ENTRIES = [("la", "the", 0.5), ("la", "NULL", 0.25), ("maison", "house", 0.75), ("NULL", "of", 1.0)]


def make(entries: list[tuple[str, str, float]], *, reverse: bool = False) -> LexicalScore:
    return LexicalScore(LexiconTable.from_entries("lex", entries), reverse=reverse)


def test_a_pair_by_hand() -> None:
    feature = make(ENTRIES)
    pairs = [PhrasePair(("the", "house"), ("la", "maison"))]
    # (0.25 + 0.5 + 0) / 3, then (0 + 0 + 0.75) / 3.
    values, said = scored(feature, pairs)
    assert values == pytest.approx([2 * math.log(0.25)], rel=1e-14)
    assert said == "2 target words; no translation for 0.0% of them"


def test_a_word_without_translation_has_the_floor() -> None:
    feature = make(ENTRIES)
    pairs = [
        PhrasePair(("the",), ("rare", "NULL")),
        PhrasePair(("rare",), ("rare", "rare")),
        PhrasePair((), ("la",)),
        PhrasePair(("the",), ()),
    ]
    floor = math.log(FLOOR)
    # The third has NULL alone; the last predicts nothing.
    expected = [2 * floor, 2 * floor, math.log(0.25), 0.0]
    values, said = scored(feature, pairs)
    assert values == pytest.approx(expected, rel=1e-14)
    assert said == "5 target words; no translation for 80.0% of them"
    assert scored(make(ENTRIES), [])[1].startswith("0 target words")


def test_the_reverse_predicts_the_source() -> None:
    pairs = [PhrasePair(("la", "maison"), ("the", "house")), PhrasePair((), ("la",))]
    values = values_of(make(ENTRIES, reverse=True), pairs)
    assert values == pytest.approx([2 * math.log(0.25), 0.0], rel=1e-14)


def model_1(
    table: dict[tuple[str, str], float], predicted: tuple[str, ...], given: tuple[str, ...]
) -> float:
    """Return the score as Brown et al. (1993) define it, with the floor."""
    total = 0.0
    for word in predicted:
        probabilities = [table.get((word, other), 0.0) for other in ("NULL", *given)]
        total += math.log(max(math.fsum(probabilities) / len(probabilities), FLOOR))
    return total


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("block", [1, 50, 1 << 18])
def test_any_pairs_have_the_score_of_the_definition(
    monkeypatch: pytest.MonkeyPatch, reverse: bool, block: int
) -> None:
    generator = random.Random(5)
    words = [f"w{number}" for number in range(12)]
    table = {
        (first, second): generator.random()
        for first in words
        for second in [*words, "NULL"]
        if generator.random() < 0.4
    }
    monkeypatch.setattr(lexicon, "BLOCK_ENTRIES", block)
    feature = make([(*key, value) for key, value in table.items()], reverse=reverse)
    sources = [tuple(generator.choices([*words, "?"], k=n % 9)) for n in range(12)]
    pairs = [
        PhrasePair(source, tuple(generator.choices([*words, "?"], k=generator.randint(0, 11))))
        for source in sources
        for _ in range(generator.randint(1, 9))
    ]
    expected = [model_1(table, *(pair if reverse else pair[::-1])) for pair in pairs]
    values = values_of(feature, pairs)
    assert values == pytest.approx(expected, rel=1e-12)
    # A value depends on its pair alone, to the last bit.
    assert [values_of(feature, [pair])[0] for pair in pairs] == values


def test_a_pair_of_words_that_comes_twice_is_named_with_its_line() -> None:
    entries = [*ENTRIES, ("x", "y", 0.5), ("maison", "house", 0.25), ("la", "the", 0.1)]
    with pytest.raises(DataError, match=r"^lex:6: this pair of words already has a probability"):
        LexiconTable.from_entries("lex", entries)


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(DataError, match=r"^lex: expected a lexical translation table, found no l"):
        LexiconTable.from_entries("lex", [])


def test_the_fingerprint_is_that_of_the_probabilities_and_the_direction() -> None:
    same = make(ENTRIES).rows
    assert make(list(ENTRIES)).rows == same
    assert make(ENTRIES, reverse=True).rows != same
    assert make([*ENTRIES[:-1], ("NULL", "of", 0.5)]).rows != same
    assert make([*ENTRIES[:-1], ("NULL", "off", 1.0)]).rows != same
