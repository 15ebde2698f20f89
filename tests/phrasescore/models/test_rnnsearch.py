"""RNNsearch: its alignments, its compiled loops, and what it learns; see also test_networks."""

import math
import random

import numpy as np
import pytest
import torch

from phrasescore.kernels import precision
from phrasescore.models.batches import PairBatch, batch_pairs
from phrasescore.models.rnnsearch import RnnsearchNetwork
from phrasescore.settings.config import TrainingConfig
from phrasescore.settings.kinds import RnnsearchConfig
from phrasescore.training.optimizers import build_optimizer
from tests.reference_rnnsearch import alignments, random_parameters

SIZES = {"hidden_size": 7, "embedding_size": 5, "alignment_size": 6}
WORDS = {"source_size": 11, "target_size": 9}
CONFIG = RnnsearchConfig(**SIZES, maxout_size=4)

Pairs = list[tuple[list[int], list[int]]]


def make_network(
    seed: int, dtype: torch.dtype = torch.float64
) -> tuple[RnnsearchNetwork, dict[str, np.ndarray]]:
    parameters = random_parameters(np.random.default_rng(seed), **SIZES, **WORDS, maxout_units=4)
    network = RnnsearchNetwork(CONFIG, **WORDS).double()
    network.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    return network.to(dtype).eval(), parameters


def make_pairs(seed: int, count: int = 40) -> Pairs:
    """Return pairs of 0 to 8 words a side, unknown words (id 1) and empty sides among them."""
    generator = random.Random(seed)
    return [([], []), ([], [1, 2]), ([3, 1], [])] + [
        (
            [generator.randrange(1, WORDS["source_size"]) for _ in range(generator.randrange(9))],
            [generator.randrange(1, WORDS["target_size"]) for _ in range(generator.randrange(9))],
        )
        for _ in range(count)
    ]


def score_gradients(network: RnnsearchNetwork, batch: PairBatch) -> dict[str, torch.Tensor]:
    scores = network(batch)
    total = (scores * torch.linspace(-1, 2, len(scores), dtype=scores.dtype)).sum()
    names, parameters = zip(*network.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(total, parameters), strict=True))


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_alignments_are_those_of_the_reference_and_sum_to_1(
    dtype: torch.dtype, error: float
) -> None:
    network, parameters = make_network(2, dtype)
    pairs = make_pairs(2)
    alpha = network.alignments(batch_pairs(pairs)).detach()
    assert alpha.shape == (len(pairs), 9, 9)
    for weights, (source, target) in zip(alpha, pairs, strict=True):
        inside = weights[: len(target) + 1, : len(source) + 1]
        np.testing.assert_allclose(inside, alignments(parameters, source, target), atol=error)
        np.testing.assert_allclose(inside.sum(1), 1, atol=1e-6)
        # Nothing is elsewhere.
        assert weights.sum().item() == pytest.approx(len(target) + 1, abs=1e-5)


def test_the_compiled_loops_have_the_gradients_of_plain_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, _ = make_network(3, torch.float32)
    batch = batch_pairs(make_pairs(3))
    fused = score_gradients(network, batch)
    monkeypatch.setattr(precision, "FUSED_DEVICES", ())
    plain = score_gradients(network, batch)
    assert not all(torch.equal(fused[name], plain[name]) for name in plain)  # two computations
    for name, expected in plain.items():
        torch.testing.assert_close(fused[name], expected, atol=3e-5, rtol=1e-4, msg=name)


@pytest.mark.parametrize(
    "reverse", [pytest.param(False, marks=pytest.mark.slow), True], ids=["copy", "reversal"]
)
def test_learns_a_task_whose_sentences_it_has_not_seen(reverse: bool) -> None:
    words, longest, updates = 12, 6, 280
    sizes = RnnsearchConfig(
        hidden_size=32,
        embedding_size=32,
        maxout_size=32,
        alignment_size=32,
        init_std=0.2,
        alignment_init_std=0.2,
    )
    network = RnnsearchNetwork(sizes, words + 2, words + 2)
    network.initialize(torch.Generator().manual_seed(1))
    optimizer = build_optimizer(network, TrainingConfig(optimizer="adam", epsilon=1e-8))
    generator = random.Random(1)

    def draw(count: int, shortest: int) -> Pairs:
        sources = [
            [generator.randrange(2, words + 2) for _ in range(generator.randint(shortest, longest))]
            for _ in range(count)
        ]
        return [(source, source[::-1] if reverse else source) for source in sources]

    for update in range(updates):
        (-network(batch_pairs(draw(32, 0))).sum() / 32).backward()
        optimizer.step(5e-3 * (1 - update / updates), 1.0)
    # It has seen fewer than 2,000 of the 12^6 longest ones.
    pairs = draw(200, longest)
    with torch.no_grad():
        scores = network.eval()(batch_pairs(pairs))
        alpha = network.alignments(batch_pairs(pairs))
    perplexity = math.exp(-scores.mean().item() / (longest + 1))
    assert perplexity < 1.02  # guessing gives 13
    # It looks at the word that it copies, or at its neighbour, whose annotation tells of it.
    wanted = torch.arange(longest)
    wanted = wanted.flip(0) if reverse else wanted
    found = alpha[:, :longest].argmax(2)
    assert ((found - wanted).abs() <= 1).double().mean().item() > 0.9
