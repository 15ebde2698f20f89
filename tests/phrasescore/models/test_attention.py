"""What networks show about a sentence, against slow references."""

import numpy as np
import pytest

from phrasescore.models.attention import attention_weights, soft_parse
from tests import reference_grconv, reference_rnnsearch
from tests.random_networks import RandomNetwork

SOURCE_WORDS, TARGET_WORDS = ["la", "maison", "bleue", "est"], ["the", "house", "is", "blue"]


def test_attention_is_that_of_the_slow_network_word_by_word() -> None:
    network = RandomNetwork("rnnsearch", SOURCE_WORDS, TARGET_WORDS)
    found = attention_weights(
        network.checkpoint, ("la", "grande", "maison"), ("the", "big", "&lt;house&gt;", "house")
    )
    expected = reference_rnnsearch.alignments(network.parameters, [2, 1, 3], [2, 1, 1, 3])
    assert np.array(found) == pytest.approx(expected, abs=2e-5)
    assert np.array(found).shape == (5, 4)


def test_soft_parses_are_those_of_the_slow_network() -> None:
    network = RandomNetwork("grconv", SOURCE_WORDS, TARGET_WORDS)
    words = ("la", "maison", "grande", "est", "bleue")
    found = soft_parse(network.checkpoint, words)
    _, expected = reference_grconv.encode(network.parameters, [2, 3, 1, 5, 4])
    assert [len(level) for level in found] == [4, 3, 2, 1]
    for level, wanted in zip(found, expected, strict=True):
        assert np.array(level) == pytest.approx(np.array(wanted), abs=2e-5)
