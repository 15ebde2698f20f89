"""The network against an independent implementation, and its gradients against differences."""

import math
import random

import numpy as np
import pytest
import torch

from phrasescore.config.settings import GrconvConfig
from phrasescore.models.batches import batch_pairs
from phrasescore.models.grconv import GrconvNetwork
from tests.reference_grconv import encode, log_prob, random_parameters

SIZES = {
    "encoder_size": 8,
    "hidden_size": 7,
    "embedding_size": 5,
    "maxout_units": 6,
    "output_rank": 4,
    "source_size": 11,
    "target_size": 9,
}
CONFIG = GrconvConfig(encoder_size=8, hidden_size=7, embedding_size=5, maxout_size=6, output_rank=4)


def make_model(seed: int) -> tuple[GrconvNetwork, dict[str, np.ndarray]]:
    """Return a float64 network and its parameters as the reference takes them."""
    parameters = random_parameters(np.random.default_rng(seed), **SIZES)
    model = GrconvNetwork(CONFIG, SIZES["source_size"], SIZES["target_size"]).double()
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
def test_scores_are_those_of_the_reference_in_batches_of_mixed_lengths(seed: int) -> None:
    model, parameters = make_model(seed)
    pairs = make_pairs(seed)
    assert {0, 1, 2} <= {len(source) for source, _ in pairs}
    assert [] in [target for _, target in pairs]
    scores = model(batch_pairs(pairs)).tolist()
    assert scores == pytest.approx([log_prob(parameters, *pair) for pair in pairs], abs=1e-9)


@pytest.mark.parametrize(
    "pairs",
    [[([], [])], [([], []), ([], [2])], [([3], [])], [([1], [1])], [([2, 3], [4]), ([], [])]],
    ids=str,
)
def test_empty_sides_and_single_words_have_a_score(
    pairs: list[tuple[list[int], list[int]]],
) -> None:
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
    pairs = [([2, 3, 4], [3, 2]), ([], [5]), ([6], []), ([1, 2, 5, 7], [2]), ([3, 9, 9], [1])]
    batch = batch_pairs(pairs)
    names = [name for name, _ in model.named_parameters()]

    def scores(*parameters: torch.Tensor) -> torch.Tensor:
        values = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(model, values, (batch,))

    assert torch.autograd.gradcheck(scores, tuple(model.parameters()))


@pytest.mark.parametrize("pairs", [[([], [2])], [([3], [2]), ([], [])]], ids=str)
def test_sources_of_no_more_than_a_word_have_gradients(
    pairs: list[tuple[list[int], list[int]]],
) -> None:
    model, _ = make_model(2)
    model(batch_pairs(pairs)).sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    for name, reached in (
        ("projection.weight", any(source for source, _ in pairs)),
        ("left.weight", False),
        ("decoder.recurrent_reset.weight", True),
    ):
        gradient = gradients[name]
        assert gradient is not None
        assert bool(gradient.any()) == reached, name


@pytest.mark.parametrize("length", [0, 1, 2, 6])
def test_a_soft_parse_holds_the_gates_of_the_reference(length: int) -> None:
    model, parameters = make_model(3)
    ids = [1, 5, 2, 9, 3, 3][:length]
    levels = model.soft_parse(ids).levels
    _, expected = encode(parameters, ids)
    assert [level.shape for level in levels] == [(length - t, 3) for t in range(1, length)]
    for level, gates in zip(levels, expected, strict=True):
        np.testing.assert_allclose(level.numpy(), np.array(gates), atol=1e-12)
        np.testing.assert_allclose(level.sum(1).numpy(), 1.0)


def test_the_paper_s_sizes_have_the_number_of_parameters_that_its_equations_say() -> None:
    # By hand, K = 30,002 ids a side: embeddings 2 x K x 620; U 620 x 2000 + 2000; W^l W^r 2 x 4 M
    # + 2000; G^l G^r 2 x 6000 + 3; V' 2 M + 1000; decoder's inputs 3 x (620,000 + 1000),
    # recurrent 3 M, context 6 M; O_h 1 M, O_c 2 M, O_y 620,000, their bias 1000; G_r 250,000;
    # G_l K x 500 + K.
    with torch.device("meta"):
        model = GrconvNetwork(GrconvConfig(), 30_002, 30_002)
    expected = 37_202_480 + 1_242_000 + 8_002_000 + 12_003 + 2_001_000 + 1_863_000 + 9_000_000
    expected += 3_621_000 + 250_000 + 15_001_000 + 30_002
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_the_start_weights_are_the_paper_s() -> None:
    config = GrconvConfig(
        encoder_size=60, hidden_size=50, embedding_size=40, maxout_size=30, output_rank=20
    )
    model = GrconvNetwork(config, 200, 300)
    model.initialize(torch.Generator().manual_seed(0))
    for name, parameter in model.named_parameters():
        if ".recurrent_" in name:
            torch.testing.assert_close(parameter @ parameter.t(), torch.eye(50))
        elif name in ("left.weight", "right.weight"):
            # All singular values are 0.4 (section 3.2).
            torch.testing.assert_close(parameter @ parameter.t(), 0.16 * torch.eye(60))
        elif name.endswith("bias"):
            assert not parameter.any()
        else:
            # The deviation of n samples is within 5 of its own deviations, 0.01 / sqrt(2 n).
            error = 5 * 0.01 / math.sqrt(2 * parameter.numel())
            assert parameter.std().item() == pytest.approx(0.01, abs=error), name
