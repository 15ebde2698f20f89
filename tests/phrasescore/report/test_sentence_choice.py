"""The sentences that are drawn, and the notes on those that a model knows little of."""

from phrasescore.report.sentence_choice import (
    draw_sentences,
    draw_texts,
    note_long_texts,
    note_unknown_words,
)
from tests.random_networks import RandomNetwork

Words = tuple[str, ...]


def texts(*lengths: int) -> list[Words]:
    """Return a sentence of each length, all of other words."""
    return [tuple(f"{number}-{at}" for at in range(size)) for number, size in enumerate(lengths)]


def test_legible_sentences_are_drawn_where_there_are_enough() -> None:
    source, target = texts(4, 5, 25, 26, 9, 9, 9), texts(9, 9, 9, 9, 4, 26, 9)
    assert draw_sentences([source, target], 3, seed=1) == [1, 2, 6]
    assert draw_sentences([source], 4, seed=1) != draw_sentences([source], 4, seed=3)
    assert draw_sentences([source], 4, seed=1) == draw_sentences([source], 4, seed=1)


def test_others_are_drawn_for_want_of_legible_ones_but_none_with_an_empty_side() -> None:
    sides = [texts(0, 3, 9, 40), texts(9, 0, 9, 9)]
    assert draw_sentences(sides, 5, seed=1) == [2, 3]
    assert draw_sentences([texts(0), texts(1)], 5, seed=1) == []


def test_texts_of_a_map_are_distinct_and_in_the_order_of_the_text() -> None:
    found = texts(1, 2, 0, 3, 4)
    assert draw_texts([*found, *found], 10, seed=1) == texts(1, 2, 0, 3, 4)[:2] + found[3:]
    drawn = draw_texts(found, 2, seed=1)
    assert len(drawn) == 2
    assert drawn == sorted(drawn, key=found.index)


def test_notes_are_on_half_of_the_words_and_on_lengths_beyond_the_training() -> None:
    network = RandomNetwork("grconv", ["a", "b"], ["x"], max_length=3).checkpoint
    assert note_unknown_words("m", network, [("a", "b", "c", "d")]) == []
    (note,) = note_unknown_words("m", network, [("a",), ("c", "d")])
    assert note.startswith("m knows 1 of the 3 words that it reads: ")
    assert note_long_texts("m", network, [("a",) * 3]) == []
    expected = ["1 sentences are longer than m was trained on"]
    assert note_long_texts("m", network, [("a",) * 4, ("a",)]) == expected
