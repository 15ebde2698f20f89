"""Sentences of a report: their choice, and figures of networks, against slow references."""

import numpy as np
import pytest

from phrasescore.report.blocks import Matrix, Pyramid
from phrasescore.report.sentences import (
    SentencePair,
    alignment_section,
    draw_sentences,
    soft_parse_section,
)
from tests import reference_rnnsearch
from tests.random_networks import RandomNetwork

Words = tuple[str, ...]


def texts(*lengths: int) -> list[Words]:
    return [tuple(f"{number}-{at}" for at in range(size)) for number, size in enumerate(lengths)]


def test_legible_sentences_are_drawn_where_there_are_enough() -> None:
    source, target = texts(4, 5, 25, 26, 9, 9, 9, 9, 9), texts(9, 9, 9, 9, 4, 26, 9, 9, 9)
    assert draw_sentences([source, target]) == [1, 2, 6, 7, 8]
    drawn = draw_sentences([texts(*[9] * 100)])
    assert (len(drawn), drawn) == (5, sorted(drawn))
    assert draw_sentences([texts(*[9] * 100)]) == drawn


def test_others_are_drawn_for_want_of_legible_ones_but_none_with_an_empty_side() -> None:
    sides = [texts(0, 3, 9, 40), texts(9, 0, 9, 9)]
    assert draw_sentences(sides) == [2, 3]
    assert draw_sentences([texts(0), texts(1)]) == []


SOURCE_WORDS, TARGET_WORDS = ["la", "maison", "bleue", "est"], ["the", "house", "is", "blue"]
# "grande" and "big" are unknown: id 1.
PAIR = SentencePair(3, ("la", "grande", "maison"), ("the", "big", "&lt;house&gt;", "house"))


def test_a_matrix_has_the_words_of_both_sides_and_says_which_are_unknown() -> None:
    network = RandomNetwork("rnnsearch", SOURCE_WORDS, TARGET_WORDS)
    section = alignment_section([("att", network.checkpoint)], [PAIR], "the references")
    (matrix,) = section.blocks
    assert isinstance(matrix, Matrix)
    assert matrix.column_labels == ("la", "grande", "maison", "</s>")
    # Plain text: what Moses escaped is what it was; the page escapes it again.
    assert matrix.row_labels == ("the", "big", "<house>", "house", "</s>")
    assert matrix.caption.endswith("<unk> instead: grande, big, <house>.")
    assert (matrix.name, matrix.title) == ("alignment-1-3", "Sentence 3, att")
    assert "the references" in section.lead


def test_a_reverse_model_reads_the_target() -> None:
    network = RandomNetwork("rnnsearch", TARGET_WORDS, SOURCE_WORDS, reverse=True)
    section = alignment_section([("att", network.checkpoint)], [PAIR], "given")
    (matrix,) = section.blocks
    assert isinstance(matrix, Matrix)
    assert matrix.row_labels == ("la", "grande", "maison", "</s>")
    expected = reference_rnnsearch.alignments(network.parameters, [2, 1, 1, 3], [2, 1, 3])
    assert np.array(matrix.values) == pytest.approx(expected, abs=2e-5)


def test_the_rows_of_a_right_to_left_network_stand_in_the_order_of_the_text() -> None:
    network = RandomNetwork("rnnsearch", SOURCE_WORDS, TARGET_WORDS, right_to_left=True)
    section = alignment_section([("att", network.checkpoint)], [PAIR], "given")
    (matrix,) = section.blocks
    assert isinstance(matrix, Matrix)
    assert matrix.row_labels == ("the", "big", "<house>", "house", "</s>")
    expected = reference_rnnsearch.alignments(network.parameters, [2, 1, 3], [3, 1, 1, 2])
    turned = [*expected[:-1][::-1], expected[-1]]
    assert np.array(matrix.values) == pytest.approx(np.array(turned), abs=2e-5)
    assert matrix.caption.startswith("Predicted from the last word to the first. Words unknown")


def test_a_sentence_of_one_word_has_a_parse_without_levels() -> None:
    network = RandomNetwork("grconv", SOURCE_WORDS, TARGET_WORDS)
    section = soft_parse_section([("g", network.checkpoint)], [SentencePair(1, ("la",), ())])
    (pyramid,) = section.blocks
    assert isinstance(pyramid, Pyramid)
    assert (pyramid.words, pyramid.levels) == (("la",), ())
