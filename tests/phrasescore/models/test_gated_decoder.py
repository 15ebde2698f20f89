"""Promises of the networks with a gated decoder as a family: phrasescore.models.gated_decoder."""

import math
import random
from collections.abc import Callable

import pytest
import torch

from phrasescore.config.settings import EncoderDecoderConfig, GrconvConfig
from phrasescore.models.batches import batch_pairs
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.models.gated_decoder import GatedDecoderNetwork
from phrasescore.models.grconv import GrconvNetwork

WORDS = 6


def build_encoder_decoder(*, size: int = 4, dropout: float = 0.0) -> GatedDecoderNetwork:
    config = EncoderDecoderConfig(
        hidden_size=size,
        embedding_size=12,
        maxout_size=16,
        output_rank=8,
        init_std=0.3,
        dropout=dropout,
    )
    return EncoderDecoder(config, WORDS + 2, WORDS + 2)


def build_grconv(*, size: int = 4, dropout: float = 0.0) -> GatedDecoderNetwork:
    config = GrconvConfig(
        encoder_size=size,
        hidden_size=size,
        embedding_size=12,
        maxout_size=16,
        output_rank=8,
        init_std=0.3,
        dropout=dropout,
    )
    return GrconvNetwork(config, WORDS + 2, WORDS + 2)


NETWORKS = {"encoder-decoder": build_encoder_decoder, "grconv": build_grconv}


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_same_seed_starts_from_the_same_weights(kind: str) -> None:
    model = NETWORKS[kind]()
    runs = []
    for seed in (1, 1, 2):
        model.initialize(torch.Generator().manual_seed(seed))
        runs.append(torch.cat([parameter.flatten().clone() for parameter in model.parameters()]))
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


@pytest.mark.parametrize("kind", NETWORKS)
def test_dropout_is_for_training_alone_and_drawn_from_torch_s_seed(kind: str) -> None:
    model = NETWORKS[kind](dropout=0.4)
    model.initialize(torch.Generator().manual_seed(0))
    batch = batch_pairs([([2, 3], [4, 5])] * 20)
    scores = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        scores.append(model(batch))
    assert torch.equal(scores[0], scores[1])
    assert not torch.equal(scores[0], scores[2])
    assert len(set(scores[0].tolist())) > 1
    assert len(set(model.eval()(batch).tolist())) == 1


@pytest.mark.parametrize("kind", NETWORKS)
def test_dropped_units_leave_the_average_of_the_others_as_it_was(kind: str) -> None:
    model = NETWORKS[kind](dropout=0.75)
    torch.manual_seed(0)
    dropped = model.drop(torch.ones(10_000))
    # 10,000 times 0 or 4, with a deviation of the mean of 4 sqrt(0.25 * 0.75 / 10,000) = 0.017.
    assert set(dropped.tolist()) == {0.0, 4.0}
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.1)


def learn(model: GatedDecoderNetwork, task: Callable[[list[int]], list[int]]) -> float:
    """Return the perplexity a word of sequences not trained on, after a short training."""
    generator = random.Random(0)

    def draw(count: int) -> list[tuple[list[int], list[int]]]:
        made = []
        for _ in range(count):
            source = [generator.randrange(2, WORDS + 2) for _ in range(generator.randrange(1, 5))]
            made.append((source, task(source)))
        return made

    model.initialize(torch.Generator().manual_seed(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(300):
        (-model(batch_pairs(draw(64))).mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    test = draw(300)
    with torch.no_grad():
        total = model(batch_pairs(test)).sum().item()
    return math.exp(-total / sum(len(target) + 1 for _, target in test))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("task", [list, lambda source: source[::-1]], ids=["copy", "reversal"])
def test_a_small_network_learns_to_copy_and_to_reverse(
    kind: str, task: Callable[[list[int]], list[int]]
) -> None:
    # A guess that knows nothing has a perplexity of about 6.
    assert learn(NETWORKS[kind](size=48), task) < 1.3
