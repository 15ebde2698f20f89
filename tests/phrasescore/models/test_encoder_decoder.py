"""The network against an independent implementation, and its gradients against differences."""

import math
import random

import numpy as np
import pytest
import torch

from phrasescore.config.settings import EncoderDecoderConfig
from phrasescore.models.batches import batch_pairs
from phrasescore.models.encoder_decoder import EncoderDecoder
from tests.reference_encoder_decoder import log_prob, random_parameters

SIZES = {
    "hidden_size": 7,
    "embedding_size": 5,
    "maxout_units": 6,
    "output_rank": 4,
    "source_size": 11,
    "target_size": 9,
}


def make_model(seed: int) -> tuple[EncoderDecoder, dict[str, np.ndarray]]:
    """Return a float64 network and its parameters as the reference takes them."""
    parameters = random_parameters(np.random.default_rng(seed), **SIZES)
    config = EncoderDecoderConfig(
        hidden_size=SIZES["hidden_size"],
        embedding_size=SIZES["embedding_size"],
        maxout_size=SIZES["maxout_units"],
        output_rank=SIZES["output_rank"],
    )
    model = EncoderDecoder(config, SIZES["source_size"], SIZES["target_size"]).double()
    model.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    return model, parameters


def make_pairs(seed: int, count: int = 40) -> list[tuple[list[int], list[int]]]:
    """Return pairs of 0 to 8 words a side, unknown words (id 1) among them."""
    generator = random.Random(seed)
    return [
        (
            [generator.randrange(1, SIZES["source_size"]) for _ in range(generator.randrange(9))],
            [generator.randrange(1, SIZES["target_size"]) for _ in range(generator.randrange(9))],
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_the_reference_in_mixed_padded_batches(seed: int) -> None:
    model, parameters = make_model(seed)
    pairs = make_pairs(seed)
    assert [] in [source for source, _ in pairs]
    assert [] in [target for _, target in pairs]
    scores = model(batch_pairs(pairs)).tolist()
    assert scores == pytest.approx([log_prob(parameters, *pair) for pair in pairs], abs=1e-9)


@pytest.mark.parametrize(
    "pairs",
    [[([], [])], [([], []), ([], [2])], [([3], [])], [([1], [1])], [([2, 3], [4]), ([], [])]],
    ids=str,
)
def test_empty_sides_have_a_score(pairs: list[tuple[list[int], list[int]]]) -> None:
    model, parameters = make_model(5)
    scores = model(batch_pairs(pairs)).tolist()
    assert scores == pytest.approx([log_prob(parameters, *pair) for pair in pairs], abs=1e-9)


def test_float32_scores_are_those_of_the_reference_to_1e_5() -> None:
    model, parameters = make_model(1)
    pairs = make_pairs(1)
    expected = [log_prob(parameters, *pair) for pair in pairs]
    assert model.float()(batch_pairs(pairs)).tolist() == pytest.approx(expected, abs=1e-5)


def test_gradients_are_those_of_finite_differences() -> None:
    model, _ = make_model(2)
    batch = batch_pairs([([2, 3, 4], [3, 2]), ([], [5]), ([6], []), ([1, 2], [2, 3, 4, 5])])
    names = [name for name, _ in model.named_parameters()]

    def scores(*parameters: torch.Tensor) -> torch.Tensor:
        values = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(model, values, (batch,))

    assert torch.autograd.gradcheck(scores, tuple(model.parameters()))


def test_the_paper_s_sizes_have_the_number_of_parameters_that_its_equations_say() -> None:
    # By hand, K = 15,002 ids a side: embeddings 2 x K x 100; gated units: inputs 2 x (3 x 100,000
    # + 3,000), recurrent 2 x 3 M, C C_z C_r 3 M; V and V' 2 x 1,001,000; O_h O_c 2 M, O_y 100,000,
    # their bias 1,000; G_r 50,000; G_l K x 100 + K.
    model = EncoderDecoder(EncoderDecoderConfig(), 15_002, 15_002)
    expected = 3_000_400 + 606_000 + 6_000_000 + 3_000_000 + 2_002_000 + 2_101_000 + 50_000
    expected += 1_500_200 + 15_002
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_the_start_weights_are_the_paper_s() -> None:
    config = EncoderDecoderConfig(hidden_size=50, embedding_size=40, maxout_size=30, output_rank=20)
    model = EncoderDecoder(config, 200, 300)
    model.initialize(torch.Generator().manual_seed(0))
    for name, parameter in model.named_parameters():
        if ".recurrent_" in name:
            # Left singular vectors are orthonormal.
            torch.testing.assert_close(parameter @ parameter.t(), torch.eye(50))
        elif name.endswith("bias"):
            assert not parameter.any()
        else:
            # The deviation of n samples is within 5 of its own deviations, 0.01 / sqrt(2 n).
            error = 5 * 0.01 / math.sqrt(2 * parameter.numel())
            assert parameter.std().item() == pytest.approx(0.01, abs=error), name
