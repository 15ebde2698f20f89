"""The same seed gives the same network, with several threads, too."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from phrasescore.models.batches import batch_pairs
from phrasescore.models.checkpoint import empty_network
from phrasescore.settings.config import Config

WORDS = 12
# Enough rows that torch shares their gradients among threads, and few words, so that many rows add
# to the same ones.
SENTENCES = 64


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


# Embeddings as wide as the presets', and less of the rest.
@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("encoder-decoder-small", []),
        ("lstm-small", []),
        ("rnnsearch-small", []),
        ("grconv-small", ["model.encoder_size=32"]),
        ("cslm-small", []),
        ("cslm-small", ["model.self_normalization=0.1"]),
        ("transformer-small", []),
    ],
)
def test_gradients_have_the_same_bits_again(preset: str, settings: list[str]) -> None:
    config = Config.preset(preset).override(["model.hidden_size=32", *settings])
    network = empty_network(config, WORDS, WORDS).to_empty(device="cpu").train()
    network.initialize(torch.Generator().manual_seed(1))
    numbers = np.random.default_rng(2)
    pairs = [
        (numbers.integers(1, WORDS, 15).tolist(), numbers.integers(1, WORDS, 15).tolist())
        for _ in range(SENTENCES)
    ]
    batch = batch_pairs(pairs)
    first: dict[str, torch.Tensor] = {}
    for _ in range(5):
        torch.manual_seed(3)  # of the units that are dropped
        network.zero_grad()
        network(batch).sum().backward()
        for name, parameter in network.named_parameters():
            assert parameter.grad is not None
            seen = first.setdefault(name, parameter.grad.clone())
            assert torch.equal(parameter.grad, seen), name
