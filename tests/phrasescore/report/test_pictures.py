"""Pictures of networks against the slow references: attention, soft parses and vectors."""

import numpy as np
import pytest
import torch

from phrasescore.errors import ModelError
from phrasescore.report.alignments import SentencePair, alignment, alignment_section
from phrasescore.report.blocks import Matrix, Points, Pyramid
from phrasescore.report.maps import Vectors, maps
from phrasescore.report.representations import text_vectors, word_vectors
from phrasescore.report.soft_parses import soft_parse, soft_parse_section
from tests import reference_attention, reference_grconv, reference_lstm
from tests.doubles import RandomCslm
from tests.random_networks import RandomNetwork

SOURCE_WORDS, TARGET_WORDS = ["la", "maison", "bleue", "est"], ["the", "house", "is", "blue"]
# "grande" and "big" are unknown: id 1.
PAIR = SentencePair(3, ("la", "grande", "maison"), ("the", "big", "&lt;house&gt;", "house"))


def test_attention_is_that_of_the_slow_network_word_by_word() -> None:
    network = RandomNetwork("attention", SOURCE_WORDS, TARGET_WORDS)
    found = alignment(network.checkpoint, PAIR.source, PAIR.target)
    expected = reference_attention.alignments(network.parameters, [2, 1, 3], [2, 1, 1, 3])
    assert np.array(found) == pytest.approx(expected, abs=2e-5)
    assert np.array(found).shape == (5, 4)


def test_a_matrix_has_the_words_of_both_sides_and_says_which_are_unknown() -> None:
    network = RandomNetwork("attention", SOURCE_WORDS, TARGET_WORDS)
    section = alignment_section([("att", network.checkpoint)], [PAIR], "the references")
    assert section is not None
    (matrix,) = section.blocks
    assert isinstance(matrix, Matrix)
    assert matrix.column_labels == ("la", "grande", "maison", "</s>")
    # Plain text: what Moses escaped is what it was; the page escapes it again.
    assert matrix.row_labels == ("the", "big", "<house>", "house", "</s>")
    assert matrix.caption.endswith("as <unk>: grande, big, <house>.")
    assert (matrix.name, matrix.title) == ("alignment-1-3", "Sentence 3, att")
    assert "the references" in section.lead


def test_a_reverse_model_reads_the_target() -> None:
    network = RandomNetwork("attention", TARGET_WORDS, SOURCE_WORDS, reverse=True)
    section = alignment_section([("att", network.checkpoint)], [PAIR], "given")
    assert section is not None
    (matrix,) = section.blocks
    assert isinstance(matrix, Matrix)
    assert matrix.row_labels == ("la", "grande", "maison", "</s>")
    expected = reference_attention.alignments(network.parameters, [2, 1, 1, 3], [2, 1, 3])
    assert np.array(matrix.values) == pytest.approx(expected, abs=2e-5)


def test_soft_parses_are_those_of_the_slow_network() -> None:
    network = RandomNetwork("grconv", SOURCE_WORDS, TARGET_WORDS)
    words = ("la", "maison", "grande", "est", "bleue")
    found = soft_parse(network.checkpoint, words)
    _, expected = reference_grconv.encode(network.parameters, [2, 3, 1, 5, 4])
    assert [len(level) for level in found] == [4, 3, 2, 1]
    for level, wanted in zip(found, expected, strict=True):
        assert np.array(level) == pytest.approx(np.array(wanted), abs=2e-5)


def test_a_sentence_of_one_word_has_a_parse_without_levels() -> None:
    network = RandomNetwork("grconv", SOURCE_WORDS, TARGET_WORDS)
    section = soft_parse_section([("g", network.checkpoint)], [SentencePair(1, ("la",), ())])
    assert section is not None
    (pyramid,) = section.blocks
    assert isinstance(pyramid, Pyramid)
    assert (pyramid.words, pyramid.levels) == (("la",), ())


def test_a_network_of_another_kind_is_refused_with_the_kind_that_is_needed() -> None:
    lstm = RandomNetwork("lstm", SOURCE_WORDS, TARGET_WORDS).checkpoint
    attention = RandomNetwork("attention", SOURCE_WORDS, TARGET_WORDS).checkpoint
    with pytest.raises(ModelError, match="lstm has no alignments; expected attention"):
        alignment(lstm, ("la",), ("the",))
    with pytest.raises(ModelError, match="attention has no soft parse; expected grconv"):
        soft_parse(attention, ("la",))
    with pytest.raises(ModelError, match=r"attention makes no vector .* encoder-decoder, grconv"):
        text_vectors("sentences", "att", 1, attention, [("la",)])


def test_the_vector_of_a_sentence_is_what_the_slow_encoder_ends_with() -> None:
    texts = [("la", "maison"), ("grande",), ("la", "maison", "est", "bleue")]
    ids = [[2, 3], [1], [2, 3, 5, 4]]
    grconv = RandomNetwork("grconv", SOURCE_WORDS, TARGET_WORDS)
    found = text_vectors("sentences", "g", 1, grconv.checkpoint, texts)
    expected = [reference_grconv.encode(grconv.parameters, each)[0] for each in ids]
    assert found.vectors == pytest.approx(np.array(expected), abs=1e-5)
    assert found.labels == ("la maison", "grande", "la maison est bleue")


def test_the_vector_of_an_lstm_is_the_last_state_of_its_upper_layer() -> None:
    lstm = RandomNetwork("lstm", SOURCE_WORDS, TARGET_WORDS)
    found = text_vectors("sentences", "l", 1, lstm.checkpoint, [("la", "maison")])
    state = [(np.zeros(6), np.zeros(6))] * 2
    for word in (3, 2):  # from the last word to the first
        embedding = lstm.parameters["source_embedding"][word]
        state = reference_lstm._step(lstm.parameters, "encoder", embedding, state)
    assert found.vectors[0] == pytest.approx(state[-1][0], abs=1e-5)


def test_words_have_their_embeddings_the_most_frequent_first() -> None:
    network = RandomNetwork("lstm", SOURCE_WORDS, TARGET_WORDS)
    read, predicted = word_vectors("l", 4, network.checkpoint, 3)
    assert (read.labels, predicted.labels) == (("la", "maison", "bleue"), ("the", "house", "is"))
    expected = network.parameters["source_embedding"][2:5].astype(np.float32)
    assert (read.vectors == expected).all()
    assert (read.name, predicted.name) == ("words-4-source", "words-4-target")


def test_a_language_model_has_words_of_one_side() -> None:
    model = RandomCslm(["the", "house", "is"])
    (found,) = word_vectors("c", 1, model.checkpoint, 10)
    assert found.labels == ("the", "house", "is")
    weights = model.checkpoint.model.embedding
    assert isinstance(weights, torch.Tensor)
    assert (found.vectors == weights.detach()[2:].double().numpy()).all()


def vectors(points: int, *, same: bool = False) -> Vectors:
    numbers = np.random.default_rng(0)
    made = np.ones((points, 5)) if same else numbers.normal(size=(points, 5))
    names = tuple(f"w{number}" for number in range(points))
    return Vectors("m: words", "words-1", made, names, names, "Words.")


def test_a_map_is_drawn_both_ways_with_all_labels() -> None:
    section, reasons = maps("words", [vectors(10)], seed=1)
    assert section is not None
    tsne, pca = section.blocks
    assert isinstance(tsne, Points)
    assert isinstance(pca, Points)
    assert (tsne.name, pca.name, reasons) == ("words-1-tsne", "words-1-pca", [])
    assert "perplexity 3 (and not 30: there are only 10 points)" in tsne.caption
    assert all(len(part) == 10 for part in (tsne.x, tsne.y, tsne.labels, pca.x, pca.groups))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (vectors(3), "m: words: a map needs 4 points, found 3"),
        (vectors(6, same=True), "m: words: all 6 vectors are the same"),
    ],
)
def test_a_map_that_cannot_be_is_left_out_with_the_reason(given: Vectors, reason: str) -> None:
    section, reasons = maps("words", [given, vectors(8)], seed=1)
    assert reasons == [reason]
    assert section is not None
    assert len(section.blocks) == 2
    assert maps("words", [given], seed=1) == (None, [reason])
