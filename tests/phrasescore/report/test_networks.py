"""Sections about networks: sentences and figures, against slow references, and training."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from phrasescore.evaluation.sentences import Sentences
from phrasescore.models.checkpoint import Checkpoint, CurvePoint, FineTuning, TrainingRecord
from phrasescore.report.blocks import Lines, Matrix, Pyramid
from phrasescore.report.inputs import NamedModel
from phrasescore.report.networks import alignments, draw_sentences, parses, training
from tests import reference_rnnsearch
from tests.phrasescore.report.report_blocks import blocks_of, section_of, table_of
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


def text(*lines: str) -> Sentences:
    return Sentences("text", list(lines), [tuple(line.split()) for line in lines])


# "grande" and "big" are unknown: id 1. Only the third line has words on both sides.
TEXTS: dict[str, Any] = {
    "source": text("", "la", "la grande maison"),
    "references": [text("the", "", "the big &lt;house&gt; house")],
}


def matrix_of(
    source: list[str], target: list[str], **directions: bool
) -> tuple[RandomNetwork, Matrix]:
    network = RandomNetwork("rnnsearch", source, target, **directions)
    section = section_of(alignments, models=[NamedModel("att", network.checkpoint)], **TEXTS)
    (matrix,) = section.blocks
    assert isinstance(matrix, Matrix)
    assert "the references" in section.lead
    return network, matrix


def test_a_matrix_has_the_words_of_both_sides_and_says_which_are_unknown() -> None:
    _, matrix = matrix_of(SOURCE_WORDS, TARGET_WORDS)
    assert matrix.column_labels == ("la", "grande", "maison", "</s>")
    # Plain text: what Moses escaped is what it was; the page escapes it again.
    assert matrix.row_labels == ("the", "big", "<house>", "house", "</s>")
    assert matrix.caption.endswith("<unk> instead: grande, big, <house>.")
    assert (matrix.name, matrix.title) == ("alignment-1-3", "Sentence 3, att")


def test_a_reverse_model_reads_the_target() -> None:
    network, matrix = matrix_of(TARGET_WORDS, SOURCE_WORDS, reverse=True)
    assert matrix.row_labels == ("la", "grande", "maison", "</s>")
    expected = reference_rnnsearch.alignments(network.parameters, [2, 1, 1, 3], [2, 1, 3])
    assert np.array(matrix.values) == pytest.approx(expected, abs=2e-5)


def test_the_rows_of_a_right_to_left_network_stand_in_the_order_of_the_text() -> None:
    network, matrix = matrix_of(SOURCE_WORDS, TARGET_WORDS, right_to_left=True)
    assert matrix.row_labels == ("the", "big", "<house>", "house", "</s>")
    expected = reference_rnnsearch.alignments(network.parameters, [2, 1, 3], [3, 1, 1, 2])
    turned = [*expected[:-1][::-1], expected[-1]]
    assert np.array(matrix.values) == pytest.approx(np.array(turned), abs=2e-5)
    assert matrix.caption.startswith("Predicted from the last word to the first. Words unknown")


def test_a_sentence_of_one_word_has_a_parse_without_levels() -> None:
    model = NamedModel("g", RandomNetwork("grconv", SOURCE_WORDS, TARGET_WORDS).checkpoint)
    (pyramid,) = section_of(parses, models=[model], source=text("la")).blocks
    assert isinstance(pyramid, Pyramid)
    assert (pyramid.words, pyramid.levels) == (("la",), ())


def trained(*curve: CurvePoint) -> Checkpoint:
    made = RandomNetwork("lstm", ["a"], ["b", "c"]).checkpoint
    record = TrainingRecord(curve=curve, best_update=20, updates=30, minutes=1.26)
    return Checkpoint(
        made.model, made.config, made.source_vocabulary, made.target_vocabulary, record
    )


def test_curves_are_perplexities_by_update() -> None:
    points = (CurvePoint(10, 0.5, math.log(8.0), None), CurvePoint(20, 1.0, 0.0, 5.5))
    # What has diverged is not drawn.
    model = trained(CurvePoint(5, 0.1, 800.0, 2e6), *points)
    section = section_of(training, models=[("m", model), ("untrained", trained())])
    figure = blocks_of(section)["training-curves"]
    assert isinstance(figure, Lines)
    held_out, seen = figure.series
    assert (held_out.name, held_out.x, held_out.y) == ("m, held-out data", (20.0,), (5.5,))
    assert (seen.name, seen.x) == ("m, data of the updates", (10.0, 20.0))
    assert seen.y == pytest.approx((8.0, 1.0))
    rows = table_of(section, "training-models").rows
    assert rows[0][:3] == ("m", "lstm", "target")
    assert rows[0][4:6] == (1, 2)
    assert rows[0][7:11] == (30, 1.3, 20, 5.5)
    assert rows[1][10] is None


def test_the_loss_of_lists_is_not_drawn_as_a_perplexity() -> None:
    curve = (CurvePoint(5, 0.1, -0.5, None, expected_bleu=40.0),)
    model = trained(*curve)
    record = dataclasses.replace(
        model.record, fine_tuning=FineTuning("xbleu", "f00d", 9, 1, "LSTM0", 0.5, 2.0, 0.1)
    )
    assert len(blocks_of(section_of(training, models=[("m", model)]))) == 2
    section = section_of(training, models=[("m", dataclasses.replace(model, record=record))])
    assert list(blocks_of(section)) == ["training-models"]
