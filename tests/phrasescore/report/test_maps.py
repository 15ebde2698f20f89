"""Maps of vectors, and the vectors of words and sentences, against slow references."""

from typing import Any

import numpy as np
import pytest
import sklearn.manifold
import torch

from phrasescore.report.blocks import Points
from phrasescore.report.maps import (
    Vectors,
    choose_perplexity,
    draw_texts,
    map_section,
    neighbour_map,
    principal_components,
    text_vectors,
    word_vectors,
)
from tests import reference_grconv, reference_lstm
from tests.doubles import RandomCslm
from tests.random_networks import RandomNetwork
from tests.reference_encoder_decoder import Parameters


def clusters(points: int, seed: int = 0) -> np.ndarray:
    numbers = np.random.default_rng(seed)
    centres = np.array([[10.0] * 8, [-10.0] * 8])
    return centres[np.arange(points) % 2] + numbers.normal(size=(points, 8))


def test_components_are_the_eigenvectors_of_the_covariance() -> None:
    numbers = np.random.default_rng(3)
    vectors = numbers.normal(size=(40, 6)) @ numbers.normal(size=(6, 6)) + 7.0
    found, shares = principal_components(vectors)
    values, axes = np.linalg.eigh(np.cov(vectors.T))
    order = np.argsort(values)[::-1][:2]
    expected = (vectors - vectors.mean(axis=0)) @ axes[:, order]
    # An eigenvector's sign is free.
    expected *= np.sign((expected * found).sum(axis=0))
    assert found == pytest.approx(expected)
    assert shares == pytest.approx(values[order] / values.sum())


def test_the_sign_of_a_component_does_not_depend_on_the_sign_of_an_eigenvector() -> None:
    vectors = np.array([[0.0, 0.0], [1.0, 0.0], [-3.0, 0.0]])
    # By hand: the mean is -2/3, and the point farthest from it is positive.
    found, shares = principal_components(vectors)
    assert found == pytest.approx(np.array([[-2 / 3, 0], [-5 / 3, 0], [7 / 3, 0]]))
    assert shares == pytest.approx([1.0, 0.0])
    for seed in range(8):
        plane, _ = principal_components(np.random.default_rng(seed).normal(size=(5, 3)))
        assert (plane.max(axis=0) > -plane.min(axis=0)).all()


def test_two_clusters_stay_apart_in_a_map() -> None:
    found = neighbour_map(clusters(80))
    distances = np.linalg.norm(found[:, None] - found[None], axis=2)
    same = np.arange(80)[:, None] % 2 == np.arange(80)[None] % 2
    np.fill_diagonal(distances, np.inf)
    # The nearest point to each one is of its own cluster.
    assert same[np.arange(80), distances.argmin(axis=1)].all()
    centres = [found[place::2].mean(axis=0) for place in (0, 1)]
    spread = max(np.linalg.norm(found[place::2] - centres[place], axis=1).max() for place in (0, 1))
    assert np.linalg.norm(centres[0] - centres[1]) > 2 * spread


@pytest.mark.parametrize(("points", "expected"), [(4, 1.0), (7, 2.0), (91, 30.0), (200, 30.0)])
def test_a_map_has_the_perplexity_that_is_told(
    monkeypatch: pytest.MonkeyPatch, points: int, expected: float
) -> None:
    made = sklearn.manifold.TSNE
    asked = []

    def build(**settings: Any) -> sklearn.manifold.TSNE:
        asked.append(settings["perplexity"])
        return made(**settings, max_iter=250)

    monkeypatch.setattr(sklearn.manifold, "TSNE", build)
    assert np.isfinite(neighbour_map(clusters(points))).all()
    assert asked == [choose_perplexity(points)] == [expected]


# Sections


def vectors(points: int, *, same: bool = False) -> Vectors:
    numbers = np.random.default_rng(0)
    shape = (points, 5)
    made = np.ones(shape) if same else numbers.normal(size=shape)
    names = tuple(f"w{number}" for number in range(points))
    return Vectors("m: words", "words-1", made, names, names, "Words.")


def test_words_are_mapped_by_neighbours_and_sentences_by_components() -> None:
    ((words,), _), ((sentences,), _) = (
        (section.blocks, reasons)
        for section, reasons in (map_section(key, [vectors(10)]) for key in ("words", "sentences"))
    )
    assert isinstance(words, Points)
    assert isinstance(sentences, Points)
    assert words.caption.endswith(" t-SNE, perplexity 3.")
    plane, _ = principal_components(vectors(10).vectors)
    assert sentences.x == pytest.approx(plane[:, 0], rel=1e-3)
    assert sentences.y == pytest.approx(plane[:, 1], rel=1e-3)
    assert all(len(part) == 10 for part in (words.x, words.y, words.labels, words.groups))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (vectors(3), "m: words: a map needs 4 points, found 3"),
        (vectors(6, same=True), "m: words: all 6 vectors are the same"),
    ],
)
def test_a_map_that_cannot_be_is_left_out_with_the_reason(given: Vectors, reason: str) -> None:
    section, reasons = map_section("words", [given, vectors(4)])
    assert reasons == [reason]
    assert len(section.blocks) == 1
    section, reasons = map_section("words", [given])
    assert (section.blocks, reasons) == ((), [reason])


def test_texts_of_a_map_are_distinct_and_in_the_order_of_the_text() -> None:
    found = [("a",), ("b", "c"), (), ("d",), ("e", "a")]
    assert draw_texts([*found, *found], 10) == found[:2] + found[3:]
    drawn = draw_texts(found, 2)
    assert len(drawn) == 2
    assert drawn == sorted(drawn, key=found.index)


SOURCE_WORDS, TARGET_WORDS = ["la", "maison", "bleue", "est"], ["the", "house", "is", "blue"]


def test_the_vector_of_a_sentence_is_what_the_slow_encoder_ends_with() -> None:
    texts = [("la", "maison"), ("grande",), ("la", "maison", "est", "bleue")]
    ids = [[2, 3], [1], [2, 3, 5, 4]]
    grconv = RandomNetwork("grconv", SOURCE_WORDS, TARGET_WORDS)
    found = text_vectors("sentences", "g", grconv.checkpoint, 1, texts)
    expected = [reference_grconv.encode(grconv.parameters, each)[0] for each in ids]
    assert found.vectors == pytest.approx(np.array(expected), abs=1e-5)
    assert found.labels == ("la maison", "grande", "la maison est bleue")


def test_the_vector_of_an_lstm_is_the_last_state_of_its_upper_layer() -> None:
    lstm = RandomNetwork("lstm", SOURCE_WORDS, TARGET_WORDS)
    found = text_vectors("sentences", "l", lstm.checkpoint, 1, [("la", "maison")])
    parameters, state = Parameters(lstm.parameters), [(np.zeros(6), np.zeros(6))] * 2
    for word in (3, 2):  # from the last word to the first
        state = reference_lstm._step(
            parameters, "encoder", parameters["source_embedding"][word], state
        )
    assert found.vectors[0] == pytest.approx(state[-1][0], abs=1e-5)


def test_words_have_their_embeddings_the_most_frequent_first() -> None:
    network = RandomNetwork("lstm", SOURCE_WORDS, TARGET_WORDS)
    read, predicted = word_vectors(4, "l", network.checkpoint, 3)
    assert (read.labels, predicted.labels) == (("la", "maison", "bleue"), ("the", "house", "is"))
    expected = network.parameters["source_embedding"][2:5].astype(np.float32)
    assert (read.vectors == expected).all()
    assert (read.name, predicted.name) == ("words-4-source", "words-4-target")


def test_a_language_model_has_words_of_one_side() -> None:
    model = RandomCslm(["the", "house", "is"])
    (found,) = word_vectors(1, "c", model.checkpoint, 10)
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
        group for each in word_vectors(1, "l", model.checkpoint, size) for group in each.groups
    }
    assert sorted(groups) == sorted(labels)
