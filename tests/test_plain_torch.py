"""The plain torch implementations compute the right thing, or beating them would mean nothing."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from phrasescore.models.batches import batch_pairs
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.models.lstm import LstmNetwork
from phrasescore.models.rnnsearch import RnnsearchNetwork
from phrasescore.settings.kinds import EncoderDecoderConfig, LstmConfig, RnnsearchConfig
from tests.benchmarks.plain_torch import (
    IdPair,
    PlainScorer,
    plain_encoder_decoder,
    plain_lstm,
    plain_rnnsearch,
    train_steps,
)
from tests.reference_encoder_decoder import Array, log_prob, random_parameters

SIZES = {"hidden_size": 6, "embedding_size": 3, "output_rank": 5}
SHORTLISTS = {"source_size": 9, "target_size": 8}

# Mixed lengths in no order, an empty source, an empty target, both empty, unknown words (1).
PAIRS: list[IdPair] = [
    ([2, 3, 4], [5]),
    ([], [2, 3]),
    ([8], []),
    ([1, 5, 1, 2, 7, 7], [1, 2, 6, 4, 3]),
    ([], []),
    ([2], [7, 7, 7, 7, 7, 7, 7]),
    ([2, 3, 4], [5, 2]),
]


@pytest.fixture
def parameters() -> dict[str, Array]:
    return random_parameters(np.random.default_rng(3), **SIZES, **SHORTLISTS, maxout_units=4)


@pytest.fixture
def network(parameters: dict[str, Array]) -> EncoderDecoder:
    config = EncoderDecoderConfig(**SIZES, maxout_size=4)
    network = EncoderDecoder(config, *SHORTLISTS.values()).double()
    network.load_state_dict({name: torch.from_numpy(each) for name, each in parameters.items()})
    return network


@pytest.mark.parametrize("batch_size", [1, 3, 256])
def test_scores_are_those_of_the_reference(
    network: EncoderDecoder, parameters: dict[str, Array], batch_size: int
) -> None:
    expected = [log_prob(parameters, *pair) for pair in PAIRS]
    plain = plain_encoder_decoder(network)
    assert plain.score(PAIRS, batch_size) == pytest.approx(expected, abs=1e-10)


def test_a_step_follows_the_mean_of_the_batch_with_a_clipped_gradient(
    network: EncoderDecoder,
) -> None:
    before = [each.detach().clone() for each in network.parameters()]
    train_steps(network, PAIRS, [[0, 3]], torch.optim.SGD(network.parameters(), lr=1.0))
    change = sum(
        float((each.detach() - old).square().sum())
        for each, old in zip(network.parameters(), before, strict=True)
    )
    # The gradient of a network with random weights has a norm above 1.
    assert change == pytest.approx(1, rel=1e-4)


SENTENCES = [([2, 3, 4], [5, 2]), ([1], []), ([4, 4, 2, 3, 1], [2, 3, 4, 5, 1, 2]), ([3, 2], [4])]


def lstm() -> tuple[nn.Module, PlainScorer]:
    network = LstmNetwork(LstmConfig(layers=2, hidden_size=5, embedding_size=4), 6, 7)
    network.initialize(torch.Generator().manual_seed(1))
    return network.eval(), plain_lstm(network)


def rnnsearch() -> tuple[nn.Module, PlainScorer]:
    sizes = RnnsearchConfig(hidden_size=5, embedding_size=4, maxout_size=3, alignment_size=6)
    network = RnnsearchNetwork(sizes, 6, 7)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.5, generator=generator)
    return network.eval(), plain_rnnsearch(network)


@pytest.mark.parametrize("build", [lstm, rnnsearch])
@pytest.mark.parametrize("batch_size", [1, 3, 10])
def test_plain_scores_are_those_of_the_network(
    build: Callable[[], tuple[nn.Module, PlainScorer]], batch_size: int
) -> None:
    network, plain = build()
    with torch.inference_mode():
        wanted = network(batch_pairs(SENTENCES)).tolist()
    assert plain.score(SENTENCES, batch_size) == pytest.approx(wanted, abs=1e-5)
