"""Promises of every network, of whatever kind: phrasescore.models.layers.PairNetwork."""

import math
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from phrasescore.models.batches import batch_pairs
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.models.feed_forward import CslmNetwork
from phrasescore.models.grconv import GrconvNetwork
from phrasescore.models.layers import PairNetwork
from phrasescore.models.lstm import LstmNetwork
from phrasescore.models.rnnsearch import RnnsearchNetwork
from phrasescore.models.transformer import TransformerNetwork
from phrasescore.settings.kinds import (
    CslmConfig,
    EncoderDecoderConfig,
    GrconvConfig,
    LstmConfig,
    RnnsearchConfig,
    TransformerConfig,
)
from tests import (
    reference_cslm,
    reference_encoder_decoder,
    reference_grconv,
    reference_lstm,
    reference_rnnsearch,
    reference_transformer,
)
from tests.reference_grconv import encode, random_parameters

SOURCE_SIZE, TARGET_SIZE = 11, 9
NETWORKS: dict[type, Callable[..., PairNetwork]] = {
    RnnsearchConfig: RnnsearchNetwork,
    CslmConfig: CslmNetwork,
    EncoderDecoderConfig: EncoderDecoder,
    GrconvConfig: GrconvNetwork,
    LstmConfig: LstmNetwork,
    TransformerConfig: TransformerNetwork,
}

Array = NDArray[np.float64]
Pairs = list[tuple[list[int], list[int]]]


def lstm_case(layers: int, *, reverse: bool) -> tuple[Any, Callable[..., float]]:
    log_prob = partial(reference_lstm.log_prob, reverse_source=reverse)
    return LstmConfig(layers, 7, 5, reverse), log_prob


def transformer_case(layers: int, norm: Any, *, tied: bool) -> tuple[Any, Callable[..., float]]:
    log_prob = partial(reference_transformer.log_prob, heads=3, pre_norm=norm == "pre")
    return TransformerConfig(layers, 6, 3, 5, norm, tied), log_prob


def cslm_case(order: int) -> tuple[Any, Callable[..., float]]:
    def log_prob(parameters: dict[str, Array], _source: list[int], target: list[int]) -> float:
        return sum(reference_cslm.word_log_probs(parameters, order, target))

    return CslmConfig(order, 3, 6, 5), log_prob


# Networks by their sizes, and their independent implementations.
CASES: dict[str, tuple[Any, Callable[..., float]]] = {
    "rnnsearch": (RnnsearchConfig(7, 5, 4, 6), reference_rnnsearch.log_prob),
    "cslm, order 2": cslm_case(2),
    "cslm, order 4": cslm_case(4),
    "cslm, order 7": cslm_case(7),
    "encoder-decoder": (EncoderDecoderConfig(7, 5, 6, 4), reference_encoder_decoder.log_prob),
    "grconv": (GrconvConfig(8, 7, 5, 6, 4), reference_grconv.log_prob),
    "lstm, 1 layer": lstm_case(1, reverse=True),
    "lstm, 3 layers": lstm_case(3, reverse=True),
    "lstm, 1 layer, forwards": lstm_case(1, reverse=False),
    "lstm, 3 layers, forwards": lstm_case(3, reverse=False),
    "transformer, post-norm": transformer_case(1, "post", tied=True),
    "transformer, pre-norm": transformer_case(2, "pre", tied=True),
    "transformer, not tied": transformer_case(2, "post", tied=False),
}


def build(config: Any, source_size: int = 8, target_size: int = 8) -> PairNetwork:
    return NETWORKS[type(config)](config, source_size, target_size)


def make_case(name: str, seed: int) -> tuple[PairNetwork, Callable[[Pairs], list[float]]]:
    """Return a float64 network, and a function that gives the reference's scores of pairs."""
    config, log_prob = CASES[name]
    network = build(config, SOURCE_SIZE, TARGET_SIZE).double()
    generator = np.random.default_rng(seed)
    # Far from 0: gates near 1/2 would hide a wrong one.
    parameters = {
        name: generator.normal(0, 0.5, parameter.shape)
        for name, parameter in network.named_parameters()
    }
    network.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    return network.eval(), lambda pairs: [log_prob(parameters, *pair) for pair in pairs]


def make_pairs(seed: int, count: int = 40) -> Pairs:
    """Return pairs of 0 to 8 words a side, unknown words (id 1) and empty sides among them."""
    generator = random.Random(seed)

    def words(size: int) -> list[int]:
        return [generator.randrange(1, size) for _ in range(generator.randrange(9))]

    return [
        *[([], []), ([], [1, 2]), ([3, 1], []), ([2], [3])],
        *((words(SOURCE_SIZE), words(TARGET_SIZE)) for _ in range(count)),
    ]


# On a CPU attention in float32 takes another path, the compiled loops.
@pytest.mark.parametrize(
    ("seed", "dtype", "error"), [(0, torch.float64, 1e-9), (1, torch.float32, 1e-5)]
)
@pytest.mark.parametrize("name", CASES)
def test_scores_are_those_of_the_reference_in_mixed_batches(
    name: str, seed: int, dtype: torch.dtype, error: float
) -> None:
    network, reference = make_case(name, seed)
    pairs = make_pairs(seed)
    scores = network.to(dtype)(batch_pairs(pairs)).tolist()
    assert scores == pytest.approx(reference(pairs), abs=error)


@pytest.mark.parametrize(
    "pairs",
    [[([], [])], [([], []), ([], [2])], [([3], [])], [([1], [1])], [([2, 3], [4]), ([], [])]],
    ids=str,
)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("uninitialized_memory_is_nan")
def test_batches_with_empty_sides_have_scores(name: str, pairs: Pairs) -> None:
    network, reference = make_case(name, 5)
    assert network(batch_pairs(pairs)).tolist() == pytest.approx(reference(pairs), abs=1e-9)


@pytest.mark.parametrize(
    "config",
    [
        RnnsearchConfig(3, 2, 2, 4),
        CslmConfig(4, 3, 4, 3),
        CslmConfig(4, 3, 4, 3, self_normalization=0.3),
        EncoderDecoderConfig(4, 3, 3, 2),
        GrconvConfig(4, 3, 3, 3, 2),
        LstmConfig(1, 4, 2),
        LstmConfig(2, 3, 2),
        TransformerConfig(1, 4, 2, 3, "pre", dropout=0.0),
    ],
    ids=lambda config: type(config).__name__,
)
def test_gradients_are_those_of_finite_differences(config: Any) -> None:
    network = build(config, 5, 6).double()
    generator = torch.Generator().manual_seed(2)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    pairs = [([2, 3, 4], [3, 2]), ([], [5]), ([4], []), ([1, 2], [2, 3, 4]), ([], [])]
    batch = batch_pairs(pairs)
    names = [name for name, _ in network.named_parameters()]

    def scores(*parameters: torch.Tensor) -> torch.Tensor:
        values = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(network, values, (batch,))

    # Along random directions of all parameters together.
    assert torch.autograd.gradcheck(scores, tuple(network.parameters()), fast_mode=True)


# Sums by hand, K ids a side.
SIZES_OF_THE_PAPERS = [
    # Bahdanau et al. (2014), n = n' = 1000, m = 620, l = 500: embeddings 2 x K x 620; three gated
    # units of 3 x (620,000 + 1,000 + 1 M); C C_z C_r 6 M; W_s 1,001,000; W_a 1 M, U_a 2 M + 1,000,
    # v_a 1,000; U_o 1 M, V_o 620,000, C_o 2 M, bias 1,000; W_o K x 500 + K.
    (
        *(RnnsearchConfig(), 30_002, 30_002),
        37_202_480 + 3 * 4_863_000 + 6_000_000 + 1_001_000 + 3_002_000 + 3_621_000 + 15_031_002,
    ),
    # Cho et al. (2014), 4.1.2: 6 x 512 = 3072 -> 1536 -> 1024 -> K, each with biases.
    (
        *(CslmConfig(), 2, 15_002),
        15_002 * 512 + 3072 * 1536 + 1536 + 1536 * 1024 + 1024 + 1024 * 15_002 + 15_002,
    ),
    # Cho et al. (2014), 4.1.1: embeddings 2 x K x 100; gated units: inputs 2 x (3 x 100,000 +
    # 3,000), recurrent 2 x 3 M, C C_z C_r 3 M; V and V' 2 x 1,001,000; O_h O_c 2 M, O_y 100,000,
    # their bias 1,000; G_r 50,000; G_l K x 100 + K.
    (
        *(EncoderDecoderConfig(), 15_002, 15_002),
        3_000_400 + 606_000 + 6_000_000 + 3_000_000 + 2_002_000 + 2_101_000 + 50_000 + 1_515_202,
    ),
    # Cho et al. (2014b), 3: embeddings 2 x K x 620; U 620 x 2000 + 2000; W^l W^r 2 x 4 M + 2000;
    # G^l G^r 2 x 6000 + 3; V' 2 M + 1000; decoder's inputs 3 x (620,000 + 1000), recurrent 3 M,
    # context 6 M; O_h 1 M, O_c 2 M, O_y 620,000, their bias 1000; G_r 250,000; G_l K x 500 + K.
    (
        *(GrconvConfig(), 30_002, 30_002),
        37_202_480
        + (1_242_000 + 8_002_000 + 12_003 + 2_001_000 + 1_863_000 + 9_000_000 + 3_621_000)
        + (250_000 + 15_031_002),
    ),
    # Sutskever et al. (2014), 3.4: "384M parameters of which 64M are pure recurrent connections":
    # 160M + 80M of embeddings, 80M of the softmax, 2 x 32M. Ours has 4 symbols more and the biases,
    # which the paper leaves out: 8 layers x 4,000 and 80,002.
    (
        *(LstmConfig(), 160_002, 80_002),
        384_000_000 + 2 * 1000 + 2 * (1000 + 1000) + 8 * 4000 + 80_002,
    ),
    # Vaswani et al. (2017), table 3, base: d = 512, d_ff = 2048. An attention has 4 (d^2 + d), a
    # feed-forward network 2 d d_ff + d_ff + d, a norm 2 d. 6 encoder layers of one attention and 2
    # norms, 6 decoder layers of two and 3. Embeddings of 37,000 pieces each, one of them tied, and
    # the bias of the softmax.
    (
        *(TransformerConfig(), 37_000, 37_000),
        6 * (3 * 1_050_624 + 2 * 2_099_712 + 5 * 1_024) + 2 * 37_000 * 512 + 37_000,
    ),
]


@pytest.mark.parametrize(("config", "source_size", "target_size", "expected"), SIZES_OF_THE_PAPERS)
def test_the_papers_sizes_have_the_number_of_parameters_that_their_equations_say(
    config: Any, source_size: int, target_size: int, expected: int
) -> None:
    with torch.device("meta"):
        network = build(config, source_size, target_size)
    assert sum(parameter.numel() for parameter in network.parameters()) == expected


# Orthogonal matrices by their singular value; the deviations of the others, 0.01 by default.
RADII = {"left.weight": 0.4, "right.weight": 0.4}
DEVIATIONS = {"alignment.state.weight": 0.001, "alignment.annotation.weight": 0.001}


@pytest.mark.parametrize(
    "config",
    [
        RnnsearchConfig(50, 40, 30, 20),
        EncoderDecoderConfig(50, 40, 30, 20),
        GrconvConfig(60, 50, 40, 30, 20),
    ],
    ids=str,
)
def test_gated_networks_start_as_in_their_papers(config: Any) -> None:
    network = build(config, 200, 300)
    network.initialize(torch.Generator().manual_seed(0))
    for name, parameter in network.named_parameters():
        if ".recurrent_" in name or name in RADII:
            identity = torch.eye(len(parameter))
            expected = RADII.get(name, 1.0) ** 2 * identity
            torch.testing.assert_close(parameter @ parameter.t(), expected, msg=name)
        elif name.endswith("bias") or name == "alignment.energy":
            assert not parameter.any()
        else:
            deviation = DEVIATIONS.get(name, 0.01)
            # The deviation of n samples is within 5 of its own deviations, d / sqrt(2 n).
            error = 5 * deviation / math.sqrt(2 * parameter.numel())
            assert parameter.std().item() == pytest.approx(deviation, abs=error), name


@pytest.mark.parametrize(
    ("config", "bound"), [(LstmConfig(2, 60, 50), 0.08), (CslmConfig(7, 50, 60, 70), 0.01)]
)
def test_other_networks_start_uniformly_in_the_range_of_their_papers(
    config: Any, bound: float
) -> None:
    network = build(config, 200, 300)
    network.initialize(torch.Generator().manual_seed(0))
    for name, parameter in network.named_parameters():
        assert parameter.abs().max().item() <= bound, name
        # A uniform distribution has the standard deviation range / sqrt(3).
        assert parameter.std().item() == pytest.approx(bound / 3**0.5, rel=0.15), name
        assert parameter.mean().item() == pytest.approx(0.0, abs=0.15 * bound), name


SMALL: dict[str, Callable[[float], Any]] = {
    "rnnsearch": lambda share: RnnsearchConfig(6, 12, 16, 6, 0.3, 0.3, share),
    "cslm": lambda share: CslmConfig(3, 12, 16, 16, 0.8, share),
    "encoder-decoder": lambda share: EncoderDecoderConfig(6, 12, 16, 8, 0.3, share),
    "grconv": lambda share: GrconvConfig(6, 6, 12, 16, 8, 0.4, 0.3, share),
    "lstm": lambda share: LstmConfig(2, 6, 5, True, 0.8, share),
    "transformer": lambda share: TransformerConfig(2, 8, 2, 12, dropout=share),
}


@pytest.mark.parametrize("kind", SMALL)
def test_the_same_seed_starts_from_the_same_weights(kind: str) -> None:
    network = build(SMALL[kind](0.0))
    runs = []
    for seed in (1, 1, 2):
        network.initialize(torch.Generator().manual_seed(seed))
        runs.append(torch.cat([parameter.flatten().clone() for parameter in network.parameters()]))
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


@pytest.mark.parametrize("kind", SMALL)
def test_dropout_is_for_training_alone_and_drawn_from_torch_s_seed(kind: str) -> None:
    network = build(SMALL[kind](0.4))
    network.initialize(torch.Generator().manual_seed(0))
    batch = batch_pairs([([2, 3], [4, 5])] * 20)
    scores = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        scores.append(network(batch))
    assert torch.equal(scores[0], scores[1])
    assert not torch.equal(scores[0], scores[2])
    assert len(set(scores[0].tolist())) > 1
    assert len(set(network.eval()(batch).tolist())) == 1


def test_dropped_units_leave_the_average_of_the_others_as_it_was() -> None:
    network = build(SMALL["encoder-decoder"](0.75))
    torch.manual_seed(0)
    dropped = network.drop(torch.ones(10_000))
    # 10,000 times 0 or 4, with a deviation of the mean of 4 sqrt(0.25 * 0.75 / 10,000) = 0.017.
    assert set(dropped.tolist()) == {0.0, 4.0}
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.1)


def test_dropped_units_have_no_gradient_and_differ_from_call_to_call() -> None:
    network = build(SMALL["encoder-decoder"](0.25))
    units = torch.ones(40, 50, requires_grad=True)
    dropped = network.drop(units)
    (dropped * torch.arange(50.0)).sum().backward()
    assert units.grad is not None
    assert torch.equal(units.grad, dropped.detach() * torch.arange(50.0))
    # Two masks agree in 0.25^2 + 0.75^2 of the units, with a deviation of 0.011.
    agreement = ((network.drop(units) == 0) == (dropped == 0)).double().mean().item()
    assert agreement == pytest.approx(0.625, abs=0.055)


def learn(network: PairNetwork, task: Callable[[list[int]], list[int]]) -> float:
    generator = random.Random(0)

    def draw(count: int) -> Pairs:
        made = []
        for _ in range(count):
            source = [generator.randrange(2, 8) for _ in range(generator.randrange(1, 5))]
            made.append((source, task(source)))
        return made

    network.initialize(torch.Generator().manual_seed(1))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(200):
        (-network(batch_pairs(draw(64))).mean()).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    test = draw(300)
    with torch.no_grad():
        total = network(batch_pairs(test)).sum().item()
    return math.exp(-total / sum(len(target) + 1 for _, target in test))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "config",
    [
        EncoderDecoderConfig(48, 12, 16, 8, 0.3),
        GrconvConfig(48, 48, 12, 16, 8, 0.4, 0.3),
        LstmConfig(2, 40, 16, True, 0.15),
        TransformerConfig(2, 32, 4, 64, "pre", dropout=0.0),
    ],
    ids=["encoder-decoder", "grconv", "lstm", "transformer"],
)
@pytest.mark.parametrize(
    "task",
    [pytest.param(list, marks=pytest.mark.slow), lambda source: source[::-1]],
    ids=["copy", "reversal"],
)
def test_a_small_network_learns_to_copy_and_to_reverse(
    config: Any, task: Callable[[list[int]], list[int]]
) -> None:
    # A guess that knows nothing has a perplexity of about 6.
    assert learn(build(config), task) < 1.3


def test_dropout_leaves_the_recurrent_connections_whole() -> None:
    # All that comes from embeddings and from the layer below is dropped (or nearly: at 0.9 of 5 or
    # 6 units by far most). Were the last h dropped as well, a long copy of one state would differ
    # from row to row; with embeddings, weights from below and the softmax' weights at 0 only the
    # recurrent connections are left, and every row is the same.
    model = LstmNetwork(LstmConfig(2, 6, 5, init_range=0.8, dropout=0.9), 6, 7)
    model.initialize(torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.source_embedding.zero_()
        model.target_embedding.zero_()
        for stack in (model.encoder, model.decoder):
            stack.get_parameter("layers.1.input.weight").zero_()
    batch = batch_pairs([([2, 3, 4, 5], [])] * 20)
    torch.manual_seed(0)
    steps_seen: list[torch.Tensor] = []
    model.decoder.register_forward_hook(lambda _module, _inputs, out: steps_seen.append(out[1]))
    model(batch)
    hidden = steps_seen[0]  # (layers, batch, hidden)
    assert torch.equal(hidden, hidden[:, :1].expand_as(hidden))
    assert hidden.abs().min().item() > 0


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
    levels = model.soft_parse(ids)
    _, expected = encode(parameters, ids)
    assert [level.shape for level in levels] == [(length - t, 3) for t in range(1, length)]
    for level, gates in zip(levels, expected, strict=True):
        np.testing.assert_allclose(level.numpy(), np.array(gates), atol=1e-12)
        np.testing.assert_allclose(level.sum(1).numpy(), 1.0)
