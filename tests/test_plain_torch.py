"""The plain torch implementations compute the right thing, or beating them would mean nothing."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from phrasescore.models.attention import AttentionNetwork
from phrasescore.models.batches import batch_pairs
from phrasescore.models.lstm import LstmNetwork
from phrasescore.settings.kinds import AttentionConfig, LstmConfig
from tests.benchmarks.plain_sentences import PlainScorer, plain_attention, plain_lstm
from tests.benchmarks.plain_torch import PlainEncoderDecoder, pad, score, train_steps
from tests.reference_encoder_decoder import Array, log_prob, parameter_shapes, random_parameters

SIZES = {
    "hidden_size": 6,
    "embedding_size": 3,
    "maxout_units": 4,
    "output_rank": 5,
    "source_size": 9,
    "target_size": 8,
}

# Mixed lengths in no order, an empty source, an empty target, both empty, unknown words (1).
PAIRS: list[tuple[list[int], list[int]]] = [
    ([2, 3, 4], [5]),
    ([], [2, 3]),
    ([8], []),
    ([1, 5, 1, 2, 7, 7], [1, 2, 6, 4, 3]),
    ([], []),
    ([2], [7, 7, 7, 7, 7, 7, 7]),
    ([2, 3, 4], [5, 2]),
]


def model_with(parameters: dict[str, Array]) -> PlainEncoderDecoder:
    model = PlainEncoderDecoder(**SIZES).double()
    model.load_state_dict({name: torch.from_numpy(each) for name, each in parameters.items()})
    return model


@pytest.fixture
def parameters() -> dict[str, Array]:
    return random_parameters(np.random.default_rng(3), **SIZES)


def test_names_and_shapes_are_the_contract() -> None:
    model = PlainEncoderDecoder(**SIZES)
    shapes = {name: tuple(each.shape) for name, each in model.state_dict().items()}
    assert shapes == parameter_shapes(**SIZES)


@pytest.mark.parametrize("batch_size", [1, 3, 256])
def test_scores_are_those_of_the_reference(parameters: dict[str, Array], batch_size: int) -> None:
    expected = [log_prob(parameters, *pair) for pair in PAIRS]
    assert score(model_with(parameters), PAIRS, batch_size) == pytest.approx(expected, abs=1e-10)


def test_scores_in_float32_are_those_of_the_reference(parameters: dict[str, Array]) -> None:
    expected = [log_prob(parameters, *pair) for pair in PAIRS]
    assert score(model_with(parameters).float(), PAIRS) == pytest.approx(expected, abs=1e-5)


def test_gradient_is_the_slope_of_the_reference(parameters: dict[str, Array]) -> None:
    # A central difference along a random direction; its error is of the order of step² = 1e-10.
    model = model_with(parameters)
    model(pad(PAIRS)).sum().backward()
    rng, step = np.random.default_rng(4), 1e-5
    direction = {name: rng.normal(size=each.shape) for name, each in parameters.items()}
    ends = [
        sum(
            log_prob({name: parameters[name] + sign * direction[name] for name in direction}, *pair)
            for pair in PAIRS
        )
        for sign in (step, -step)
    ]
    slope = sum(
        float((each.grad * torch.from_numpy(direction[name])).sum())
        for name, each in model.named_parameters()
        if each.grad is not None
    )
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


def test_training_steps_with_the_papers_adadelta_by_default(parameters: dict[str, Array]) -> None:
    # The first step of Adadelta is sqrt(eps) / sqrt((1 - rho) g² + eps) * g, at most
    # sqrt(1e-6 / 0.05) = 0.0045 in size, whatever the gradient.
    model = model_with(parameters)
    train_steps(model, PAIRS, [[0, 1, 2]])
    change = max(
        float((each - torch.from_numpy(parameters[name])).abs().max())
        for name, each in model.state_dict().items()
    )
    assert 0.001 < change < 0.0045


SENTENCES = [([2, 3, 4], [5, 2]), ([1], []), ([4, 4, 2, 3, 1], [2, 3, 4, 5, 1, 2]), ([3, 2], [4])]


def lstm() -> tuple[nn.Module, PlainScorer]:
    network = LstmNetwork(LstmConfig(layers=2, hidden_size=5, embedding_size=4), 6, 7)
    network.initialize(torch.Generator().manual_seed(1))
    return network.eval(), plain_lstm(network)


def attention() -> tuple[nn.Module, PlainScorer]:
    sizes = AttentionConfig(hidden_size=5, embedding_size=4, maxout_size=3, alignment_size=6)
    network = AttentionNetwork(sizes, 6, 7)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.5, generator=generator)
    return network.eval(), plain_attention(network)


@pytest.mark.parametrize("build", [lstm, attention])
@pytest.mark.parametrize("batch_size", [1, 3, 10])
def test_plain_scores_are_those_of_the_network(
    build: Callable[[], tuple[nn.Module, PlainScorer]], batch_size: int
) -> None:
    network, plain = build()
    with torch.inference_mode():
        wanted = network(batch_pairs(SENTENCES)).tolist()
    assert plain.score(SENTENCES, batch_size) == pytest.approx(wanted, abs=1e-5)
