"""The plain side of the rescoring benchmark computes the same as the networks."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from phrasescore.models.attention import AttentionNetwork
from phrasescore.models.batches import batch_pairs
from phrasescore.models.lstm import LstmNetwork
from phrasescore.settings.kinds import AttentionConfig, LstmConfig
from tests.benchmarks.plain_sentences import PlainScorer, plain_attention, plain_lstm

PAIRS = [([2, 3, 4], [5, 2]), ([1], []), ([4, 4, 2, 3, 1], [2, 3, 4, 5, 1, 2]), ([3, 2], [4])]


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
        wanted = network(batch_pairs(PAIRS)).tolist()
    assert plain.score(PAIRS, batch_size) == pytest.approx(wanted, abs=1e-5)
