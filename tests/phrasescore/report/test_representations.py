"""Vectors of words and sentences, against the slow references."""

import numpy as np
import pytest
import torch

from phrasescore.report.representations import text_vectors, word_vectors
from tests import reference_grconv, reference_lstm
from tests.doubles import RandomCslm
from tests.random_networks import RandomNetwork

SOURCE_WORDS, TARGET_WORDS = ["la", "maison", "bleue", "est"], ["the", "house", "is", "blue"]


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


@pytest.mark.parametrize(
    ("size", "labels"),
    [
        (60, ["the 60 most frequent words"]),
        (500, ["the 100 most frequent words", "the next 400"]),
        (1100, ["the 100 most frequent words", "the next 900", "beyond the first 1,000"]),
    ],
)
def test_the_legend_counts_the_words_that_are_there(size: int, labels: list[str]) -> None:
    model = RandomCslm([f"w{number}" for number in range(size)])
    groups = {
        group for each in word_vectors("l", 1, model.checkpoint, size) for group in each.groups
    }
    assert sorted(groups) == sorted(labels)
