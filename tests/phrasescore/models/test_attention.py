"""RNNsearch against an independent implementation, its gradients, and what it learns."""

import math
import random

import numpy as np
import pytest
import torch
from torch import nn

from phrasescore.config.config import Config
from phrasescore.config.settings import AttentionConfig, TrainingConfig
from phrasescore.models import alignment
from phrasescore.models.attention import AttentionNetwork
from phrasescore.models.batches import PairBatch, batch_pairs
from phrasescore.training.optimizers import build_optimizer
from tests.reference_attention import alignments, log_prob, random_parameters

SIZES = {"hidden_size": 7, "embedding_size": 5, "alignment_size": 6}
WORDS = {"source_size": 11, "target_size": 9}
CONFIG = AttentionConfig(**SIZES, maxout_size=4)

Pairs = list[tuple[list[int], list[int]]]


def make_network(
    seed: int, dtype: torch.dtype = torch.float64
) -> tuple[AttentionNetwork, dict[str, np.ndarray]]:
    """Return a network and its parameters as the reference takes them."""
    parameters = random_parameters(np.random.default_rng(seed), **SIZES, **WORDS, maxout_units=4)
    network = AttentionNetwork(CONFIG, **WORDS).double()
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


def score_gradients(network: AttentionNetwork, batch: PairBatch) -> dict[str, torch.Tensor]:
    """Return the gradients of a weighted sum of scores, each pair's weight another."""
    scores = network(batch)
    total = (scores * torch.linspace(-1, 2, len(scores), dtype=scores.dtype)).sum()
    names, parameters = zip(*network.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(total, parameters), strict=True))


# float64 takes the path of plain torch, float32 on a CPU the compiled loops.
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_the_reference_in_mixed_batches(
    seed: int, dtype: torch.dtype, error: float
) -> None:
    network, parameters = make_network(seed, dtype)
    pairs = make_pairs(seed)
    scores = network(batch_pairs(pairs)).tolist()
    assert scores == pytest.approx([log_prob(parameters, *pair) for pair in pairs], abs=error)


@pytest.mark.parametrize("pairs", [[([], [])], [([], []), ([], [2])], [([3], [])]], ids=str)
def test_empty_sides_have_a_score(pairs: Pairs) -> None:
    network, parameters = make_network(5)
    scores = network(batch_pairs(pairs)).tolist()
    assert scores == pytest.approx([log_prob(parameters, *pair) for pair in pairs], abs=1e-9)


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


def test_gradients_are_those_of_finite_differences() -> None:
    sizes = AttentionConfig(hidden_size=3, embedding_size=2, maxout_size=2, alignment_size=4)
    network = AttentionNetwork(sizes, 5, 6).double()
    generator = torch.Generator().manual_seed(2)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    batch = batch_pairs([([2, 3, 4], [3, 2]), ([], [5]), ([4], []), ([1, 2], [2, 3, 4])])
    names = [name for name, _ in network.named_parameters()]

    def scores(*parameters: torch.Tensor) -> torch.Tensor:
        values = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(network, values, (batch,))

    assert torch.autograd.gradcheck(scores, tuple(network.parameters()))


def test_the_compiled_loops_have_the_gradients_of_plain_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, _ = make_network(3, torch.float32)
    batch = batch_pairs(make_pairs(3))
    fused = score_gradients(network, batch)
    monkeypatch.setattr(alignment, "FUSED_DEVICES", ())
    plain = score_gradients(network, batch)
    assert not all(torch.equal(fused[name], plain[name]) for name in plain)  # two computations
    for name, expected in plain.items():
        torch.testing.assert_close(fused[name], expected, atol=3e-5, rtol=1e-4, msg=name)


def test_the_paper_s_sizes_have_the_number_of_parameters_that_its_equations_say() -> None:
    # By hand, K = 30,002 ids a side, n = n' = 1000, m = 620, l = 500: embeddings 2 x K x 620; three
    # gated units of 3 x (620,000 + 1,000 + 1 M); C C_z C_r 6 M; W_s 1,001,000; W_a 1 M, U_a 2 M +
    # 1,000, v_a 1,000; U_o 1 M, V_o 620,000, C_o 2 M, bias 1,000; W_o K x 500 + K.
    with torch.device("meta"):
        network = AttentionNetwork(AttentionConfig(), 30_002, 30_002)
    expected = 37_202_480 + 3 * 4_863_000 + 6_000_000 + 1_001_000 + 3_002_000 + 3_621_000
    expected += 15_001_000 + 30_002
    assert sum(parameter.numel() for parameter in network.parameters()) == expected


def test_the_start_weights_are_the_paper_s() -> None:
    config = AttentionConfig(hidden_size=50, embedding_size=40, maxout_size=30, alignment_size=20)
    network = AttentionNetwork(config, 200, 300)
    network.initialize(torch.Generator().manual_seed(0))
    for name, parameter in network.named_parameters():
        deviation = 0.01
        if name in ("alignment.state.weight", "alignment.annotation.weight"):
            deviation = 0.001
        if ".recurrent_" in name:
            torch.testing.assert_close(parameter @ parameter.t(), torch.eye(50))
        elif name.endswith("bias") or name == "alignment.energy":
            assert not parameter.any()
        else:
            # The deviation of n samples is within 5 of its own deviations, d / sqrt(2 n).
            error = 5 * deviation / math.sqrt(2 * parameter.numel())
            assert parameter.std().item() == pytest.approx(deviation, abs=error), name


def test_the_presets_are_of_this_network() -> None:
    paper, ours = Config.preset("bahdanau2014"), Config.preset("attention-small")
    assert paper.model == AttentionConfig()
    assert (paper.training.batch_size, paper.training.window_batches) == (80, 20)
    assert isinstance(ours.model, AttentionConfig)


def test_dropout_changes_scores_in_training_only() -> None:
    parameters = make_network(4)[0].state_dict()
    config = AttentionConfig(**SIZES, maxout_size=4, dropout=0.5)
    network = AttentionNetwork(config, **WORDS).double()
    network.load_state_dict(parameters)
    batch = batch_pairs(make_pairs(4))
    whole = make_network(4)[0](batch)
    assert torch.equal(network.eval()(batch), whole)
    network.train()
    torch.manual_seed(1)
    dropped = network(batch)
    assert not torch.allclose(dropped, whole)
    torch.manual_seed(1)
    assert torch.equal(network(batch), dropped)


@pytest.mark.parametrize("reverse", [False, True], ids=["copy", "reversal"])
def test_learns_a_task_whose_sentences_it_has_not_seen(reverse: bool) -> None:
    words, longest, updates = 12, 6, 350
    sizes = AttentionConfig(
        hidden_size=32,
        embedding_size=32,
        maxout_size=32,
        alignment_size=32,
        init_std=0.2,
        alignment_init_std=0.2,
    )
    network = AttentionNetwork(sizes, words + 2, words + 2)
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
