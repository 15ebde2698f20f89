"""RNNsearch over trees, against the network itself and the independent implementation."""

import numpy as np
import pytest
import torch

from phrasescore.config.settings import AttentionConfig
from phrasescore.kernels import precision as precisions
from phrasescore.kernels.precision import PrecisionName
from phrasescore.models import alignment
from phrasescore.models.attention import AttentionNetwork
from tests.reference_attention import log_probs, random_parameters
from tests.tree_lists import (
    SOURCE_SIZE,
    TARGET_SIZE,
    assert_bits_are_the_same_alone_and_among_others,
    assert_close,
    assert_scores_are_the_network_s,
    make_lists,
    make_scorer,
    score,
)

WORDS = {"source_size": SOURCE_SIZE, "target_size": TARGET_SIZE}


def make_network(hidden: int = 21, seed: int = 1) -> tuple[AttentionNetwork, dict[str, np.ndarray]]:
    parameters = random_parameters(
        np.random.default_rng(seed),
        hidden_size=hidden,
        embedding_size=10,
        maxout_units=13,
        alignment_size=19,
        **WORDS,
        std=0.4,
    )
    config = AttentionConfig(hidden, embedding_size=10, maxout_size=13, alignment_size=19)
    network = AttentionNetwork(config, **WORDS)
    network.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    return network.eval(), parameters


@pytest.mark.parametrize("seed", [1, 2])
def test_every_word_scores_as_in_the_reference(seed: int) -> None:
    network, parameters = make_network(seed=seed)
    lists = make_lists(seed)
    scored = score(make_scorer("attention", network), lists)
    for (source, targets), found in zip(lists, scored, strict=True):
        for target, values in zip(targets, found, strict=True):
            expected = log_probs(parameters, source, target)
            assert values.tolist() == pytest.approx(expected, abs=2e-5)


def test_targets_score_as_in_the_network() -> None:
    assert_scores_are_the_network_s("attention", make_network()[0])


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_value_has_the_same_bits_alone_and_among_others(precision: PrecisionName) -> None:
    # Enough units for vector instructions.
    network, _ = make_network(hidden=48)
    assert_bits_are_the_same_alone_and_among_others(make_scorer("attention", network, precision))


def test_plain_torch_computes_the_same_as_the_compiled_loops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, _ = make_network()
    lists = make_lists(4)
    compiled = score(make_scorer("attention", network), lists)
    for module in (alignment, precisions):
        monkeypatch.setattr(module, "FUSED_DEVICES", ())
    plain = score(make_scorer("attention", network), lists)
    assert_close(compiled, plain)


def test_large_sums_leave_gates_and_alignments_finite() -> None:
    # Beyond where e^x overflows float32, both ways.
    network, parameters = make_network()
    for name in (
        "forward_encoder.input_update.bias",
        "decoder.input_reset.bias",
        "alignment.annotation.bias",
        "alignment.energy",
    ):
        parameters[name] *= 1000
    network.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    values = score(make_scorer("attention", network), [([2, 3], [[4, 5]])])[0][0]
    assert values.tolist() == pytest.approx(log_probs(parameters, [2, 3], [4, 5]), abs=1e-4)
