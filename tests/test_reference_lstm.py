"""Hand-worked checks of the slow LSTM that the fast one is tested against."""

import itertools
import math

import numpy as np
import pytest

from tests.reference_encoder_decoder import Array
from tests.reference_lstm import log_prob, random_parameters, word_log_probs

LN3 = math.log(3.0)


def zeros() -> dict[str, Array]:
    sizes = {"layers": 1, "hidden_size": 1, "embedding_size": 1, "source_size": 4}
    made = random_parameters(np.random.default_rng(0), **sizes, target_size=4)
    return {name: np.zeros_like(array) for name, array in made.items()}


def test_one_step_by_hand() -> None:
    # Gates from their biases alone: i = f = o = sigma(ln 3) = 3/4, and g = tanh(ln(3) / 2) = 1/2.
    # The decoder's first step: c = 3/8, h = 3/4 tanh(3/8). Only word 3 has a weight, 8.
    parameters = zeros()
    parameters["decoder.layers.0.input.bias"] = np.array([LN3, LN3, LN3, LN3 / 2])
    parameters["output.weight"][3] = 8.0
    h = 0.75 * math.tanh(0.375)
    wanted = 8 * h - math.log(3 + math.exp(8 * h))
    assert word_log_probs(parameters, [], [3])[0] == pytest.approx(wanted, abs=1e-12)
    # The second: c = 3/4 * 3/8 + 3/8 = 21/32; word 0 is the end.
    second = -math.log(3 + math.exp(8 * 0.75 * math.tanh(21 / 32)))
    assert word_log_probs(parameters, [], [3])[1] == pytest.approx(second, abs=1e-12)


def test_the_decoder_starts_from_both_states_of_the_encoder() -> None:
    # The encoder's step leaves c = 3/8. The decoder's gates are 1/2 by sigma(0) and g is 0, so its
    # cell is 3/16 whatever it reads, if and only if the cell was handed over.
    parameters = zeros()
    parameters["encoder.layers.0.input.bias"] = np.array([LN3, LN3, LN3, LN3 / 2])
    parameters["output.weight"][3] = 8.0
    x = 8 * 0.5 * math.tanh(3 / 16)
    wanted = x - math.log(3 + math.exp(x))
    assert word_log_probs(parameters, [2], [3])[0] == pytest.approx(wanted, abs=1e-12)
    # With the candidate's recurrent weight at 2, g = tanh(2 h) of the encoder's h.
    parameters["decoder.layers.0.recurrent.weight"][3] = 2.0
    h = 0.75 * math.tanh(0.375)
    x = 8 * 0.5 * math.tanh(3 / 16 + 0.5 * math.tanh(2 * h))
    wanted = x - math.log(3 + math.exp(x))
    assert word_log_probs(parameters, [2], [3])[0] == pytest.approx(wanted, abs=1e-12)


def drawn(seed: int, target_size: int) -> dict[str, Array]:
    sizes = {"layers": 2, "hidden_size": 3, "embedding_size": 2, "source_size": 6}
    return random_parameters(np.random.default_rng(seed), **sizes, target_size=target_size)


def test_reading_backwards_is_reading_the_reversed_source_forwards() -> None:
    parameters = drawn(1, 5)
    backwards = log_prob(parameters, [2, 3, 4], [2, 2])
    assert backwards == log_prob(parameters, [4, 3, 2], [2, 2], reverse_source=False)
    assert backwards != log_prob(parameters, [4, 3, 2], [2, 2])


def test_the_probabilities_of_all_targets_sum_to_one() -> None:
    parameters = drawn(2, 3)
    # All targets of at most 2 words, and those of 2 words without their end for all longer ones.
    total = sum(
        math.exp(log_prob(parameters, [3, 5], target))
        for n in (0, 1)
        for target in itertools.product((1, 2), repeat=n)
    )
    total += sum(
        math.exp(sum(word_log_probs(parameters, [3, 5], target)[:-1]))
        for target in itertools.product((1, 2), repeat=2)
    )
    assert total == pytest.approx(1.0, abs=1e-12)
