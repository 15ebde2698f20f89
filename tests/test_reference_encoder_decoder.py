"""Hand-worked checks of the slow RNN Encoder-Decoder that the fast ones are tested against.

Derivations use sigma(ln 3) = 3/4, sigma(-ln 3) = 1/4 and tanh(ln(3) / 2) = 1/2, all exact.
"""

import itertools
import math

import numpy as np
import pytest

from tests.reference_encoder_decoder import Array, log_prob, parameter_shapes, random_parameters

LN2, LN3 = math.log(2.0), math.log(3.0)


def zero_parameters(
    *, hidden_size: int = 1, maxout_units: int = 1, target_size: int = 4
) -> dict[str, Array]:
    shapes = parameter_shapes(
        hidden_size=hidden_size,
        embedding_size=1,
        maxout_units=maxout_units,
        output_rank=1,
        source_size=4,
        target_size=target_size,
    )
    return {name: np.zeros(shape) for name, shape in shapes.items()}


def small_random_parameters(seed: int, *, target_size: int = 5) -> dict[str, Array]:
    return random_parameters(
        np.random.default_rng(seed),
        hidden_size=4,
        embedding_size=3,
        maxout_units=3,
        output_rank=2,
        source_size=6,
        target_size=target_size,
    )


def scalar_parameters() -> dict[str, Array]:
    parameters = zero_parameters()
    values: dict[str, list[float]] = {
        "source_embedding": [0, 0, 1, -1],
        "encoder.input_update.weight": [LN3],
        "encoder.input_reset.weight": [LN3],
        "encoder.input_candidate.weight": [LN3],
        "encoder.input_candidate.bias": [-LN3 / 2],
        "encoder.recurrent_update.weight": [8 * LN3],
        "encoder.recurrent_reset.weight": [16 * LN3],
        "encoder.recurrent_candidate.weight": [64 / 3 * LN3],
        "summary.weight": [16 / 5 * LN3],
        "summary.bias": [-LN3 / 2],
        "initial.weight": [2 * LN3],
        "initial.bias": [-LN3 / 2],
        "target_embedding": [7, 7, 1, 7],
        "decoder.input_update.weight": [-LN3 / 2],
        "decoder.input_update.bias": [-LN3],
        "decoder.input_reset.weight": [3 / 2 * LN3],
        "decoder.input_reset.bias": [LN3],
        "decoder.input_candidate.weight": [LN3 / 8],
        "decoder.input_candidate.bias": [-3 / 2 * LN3],
        "decoder.recurrent_update.weight": [2 * LN3],
        "decoder.recurrent_reset.weight": [-2 * LN3],
        "decoder.recurrent_candidate.weight": [6 * LN3],
        "decoder.context_update.weight": [2 * LN3],
        "decoder.context_reset.weight": [-2 * LN3],
        "decoder.context_candidate.weight": [2 * LN3],
        "readout_hidden.weight": [4 * LN2, -8 * LN2],
        "readout_word.weight": [-1.5 * LN2, 5 * LN2],
        "readout_context.weight": [2 * LN2, 2 * LN2],
        "readout.bias": [0, LN2],
        "output_factor.weight": [0.5],
        "output.weight": [1, 0, 2, -1],
        "output.bias": [0, LN2, 0, LN2],
    }
    for name, value in values.items():
        parameters[name] = np.array(value, dtype=np.float64).reshape(parameters[name].shape)
    return parameters


def test_one_unit_two_source_words_one_target_word_as_worked_by_hand() -> None:
    # Encoder, x_1 = 2 with e = 1 and h = 0:
    #   z = sigma(ln 3) = 3/4, h~ = tanh(ln 3 - ln(3)/2) = 1/2, h = 1/4 * 1/2 = 1/8.
    # x_2 = 3 with e = -1:
    #   z = sigma(-ln 3 + 8 ln 3 / 8) = 1/2, r = sigma(-ln 3 + 16 ln 3 / 8) = 3/4,
    #   h~ = tanh(-ln 3 - ln(3)/2 + 64/3 ln 3 * (3/4 * 1/8)) = tanh(ln(3)/2) = 1/2,
    #   h = 1/2 * 1/8 + 1/2 * 1/2 = 5/16.
    # c = tanh(16/5 ln 3 * 5/16 - ln(3)/2) = 1/2; h'_0 = tanh(2 ln 3 * 1/2 - ln(3)/2) = 1/2.
    # Decoder, t = 1, e(y_0) = 0:
    #   z' = sigma(-ln 3 + 2 ln 3 / 2 + 2 ln 3 / 2) = 3/4,
    #   r' = sigma(ln 3 - 2 ln 3 / 2 - 2 ln 3 / 2) = 1/4,
    #   h~' = tanh(-3/2 ln 3 + 1/4 * (6 ln 3 / 2 + 2 ln 3 / 2)) = tanh(-ln(3)/2) = -1/2,
    #   h'_1 = 3/4 * 1/2 - 1/4 * 1/2 = 1/4.
    #   s' = (4/4 + 2/2, -8/4 + 2/2 + 1) ln 2 = (2, 0) ln 2; s = 2 ln 2; G_r s = ln 2;
    #   exp of the scores: exp((1, 0 + 1, 2, -1 + 1) ln 2) = (2, 2, 4, 1), so p(y_1 = 2) = 4/9.
    # t = 2, e(y_1) = 1:
    #   z' = sigma(-ln(3)/2 - ln 3 + 2 ln 3 / 4 + ln 3) = 1/2,
    #   r' = sigma(3/2 ln 3 + ln 3 - 2 ln 3 / 4 - ln 3) = sigma(ln 3) = 3/4,
    #   h~' = tanh(ln(3)/8 - 3/2 ln 3 + 3/4 * (6 ln 3 / 4 + ln 3)) = tanh(ln(3)/2) = 1/2,
    #   h'_2 = 1/2 * 1/4 + 1/2 * 1/2 = 3/8.
    #   s' = (4 * 3/8 - 1.5 + 1, -8 * 3/8 + 5 + 1 + 1) ln 2 = (1, 4) ln 2; G_r s = 2 ln 2;
    #   exp of the scores: exp((2, 1, 4, -2 + 1) ln 2) = (4, 2, 16, 1/2), p(</s>) = 4/22.5.
    expected = math.log(4 / 9 * 4 / 22.5)
    assert log_prob(scalar_parameters(), [2, 3], [2]) == pytest.approx(expected, abs=1e-12)


def test_empty_target_is_scored_for_the_end_symbol_alone() -> None:
    # The first step of the derivation above: </s> has 2 of 2 + 2 + 4 + 1.
    assert log_prob(scalar_parameters(), [2, 3], []) == pytest.approx(math.log(2 / 9), abs=1e-12)


def test_encoder_resets_before_the_recurrent_product() -> None:
    # Two units. x_1 = 2 with e = 1: z = 1/2, h~ = tanh(ln(3)/2) = 1/2 in both, h = (1/4, 1/4).
    # x_2 = 3 with e = 0: z = 1/2, r = (sigma(-ln 3), sigma(ln 3)) = (1/4, 3/4),
    #   U (r . h) = (8/3 ln 3 * 3/4 * 1/4, 0) = (ln(3)/2, 0), h~ = (1/2, 0), h = (3/8, 1/8).
    # c = tanh(4/3 ln 3 * 3/8, 0) = (1/2, 0); h' = 0; s' = (2 ln 2 / 2, 0), s = ln 2;
    # the scores are (ln 2, 0, 0, 0), p(</s>) = 2/5. r . (U h) would give c_1 = 0.386.
    parameters = zero_parameters(hidden_size=2)
    parameters["source_embedding"][2] = 1
    parameters["encoder.input_candidate.weight"][:] = LN3 / 2
    parameters["encoder.input_reset.bias"][:] = [-LN3, LN3]
    parameters["encoder.recurrent_candidate.weight"][0, 1] = 8 / 3 * LN3
    parameters["summary.weight"][0, 0] = 4 / 3 * LN3
    parameters["readout_context.weight"][0, 0] = 2 * LN2
    parameters["output_factor.weight"][:] = 1
    parameters["output.weight"][0] = 1
    assert log_prob(parameters, [2, 3], []) == pytest.approx(math.log(2 / 5), abs=1e-12)


def test_decoder_resets_after_the_recurrent_product() -> None:
    # Two units, c = 0. h'_0 = tanh(ln(3)/2) = (1/2, 1/2), z' = 1/2, r' = (3/4, 1/4),
    #   r' . (U' h') = (3/4 * 4/3 ln 3 * 1/2, 0) = (ln(3)/2, 0), h~' = (1/2, 0), h'_1 = (1/2, 1/4).
    # s' = (2 ln 2 / 2, 0), s = ln 2, scores (ln 2, 0, 0, 0), p(</s>) = 2/5.
    parameters = zero_parameters(hidden_size=2)
    parameters["initial.bias"][:] = LN3 / 2
    parameters["decoder.input_reset.bias"][:] = [LN3, -LN3]
    parameters["decoder.recurrent_candidate.weight"][0, 1] = 4 / 3 * LN3
    parameters["readout_hidden.weight"][0, 0] = 2 * LN2
    parameters["output_factor.weight"][:] = 1
    parameters["output.weight"][0] = 1
    assert log_prob(parameters, [], []) == pytest.approx(math.log(2 / 5), abs=1e-12)


def test_a_maxout_unit_pools_two_neighbours() -> None:
    # s' = (1, 3, 2, 0) ln 2, s = (3, 2) ln 2, G_r s = 3 ln 2, scores (3 ln 2, 0, 0, 0):
    # p(</s>) = 8/11. Pooling the first half with the second would give s_1 = 2 ln 2.
    parameters = zero_parameters(maxout_units=2)
    parameters["readout.bias"][:] = np.array([1, 3, 2, 0]) * LN2
    parameters["output_factor.weight"][0, 0] = 1
    parameters["output.weight"][0] = 1
    assert log_prob(parameters, [], []) == pytest.approx(math.log(8 / 11), abs=1e-12)


@pytest.mark.parametrize("target", [[], [1], [2, 3, 2, 1]])
def test_zero_parameters_make_every_word_equally_likely(target: list[int]) -> None:
    expected = -(len(target) + 1) * math.log(7)
    score = log_prob(zero_parameters(target_size=7), [2, 1], target)
    assert score == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("source", [[], [2], [5, 1, 3]])
def test_probabilities_of_all_targets_sum_to_one(source: list[int]) -> None:
    # Words 1 and 2, every target of up to 8 of them: 511. The bias of </s> makes longer ones rare.
    parameters = small_random_parameters(11, target_size=3)
    parameters["output.bias"][0] += 5.0
    longest = 8
    by_length = [
        sum(
            math.exp(log_prob(parameters, source, target))
            for target in itertools.product([1, 2], repeat=length)
        )
        for length in range(longest + 1)
    ]
    assert by_length[2] > 1e-4
    assert by_length[longest] < 1e-9
    assert sum(by_length) == pytest.approx(1.0, abs=1e-8)


def test_empty_source_does_not_reach_the_encoder() -> None:
    parameters = small_random_parameters(14)
    before = log_prob(parameters, [], [2, 3])
    for name in parameters:
        if name.startswith(("encoder.", "source_embedding")):
            parameters[name] = parameters[name] * -3.0
    assert log_prob(parameters, [], [2, 3]) == before
