"""The LSTM's decoder over trees, against the network itself and the independent implementation."""

import numpy as np
import pytest
import torch

from phrasescore.config.settings import LstmConfig
from phrasescore.kernels import precision as precisions
from phrasescore.kernels.precision import Precision, PrecisionName
from phrasescore.models.lstm import LstmNetwork
from phrasescore.scoring.decoders.lstm import LstmDecoder
from phrasescore.scoring.products import FixedProducts
from tests.reference_lstm import random_parameters, word_log_probs
from tests.tree_lists import (
    CPU,
    SOURCE_SIZE,
    TARGET_SIZE,
    assert_bits_are_the_same_alone_and_among_others,
    assert_close,
    assert_scores_are_the_network_s,
    make_lists,
    make_scorer,
    score,
)


def make_network(
    layers: int = 2, *, reverse_source: bool = True, hidden: int = 21
) -> tuple[LstmNetwork, dict[str, np.ndarray]]:
    parameters = random_parameters(
        np.random.default_rng(layers),
        layers=layers,
        hidden_size=hidden,
        embedding_size=10,
        source_size=SOURCE_SIZE,
        target_size=TARGET_SIZE,
        std=0.4,
    )
    config = LstmConfig(layers, hidden, 10, reverse_source)
    network = LstmNetwork(config, SOURCE_SIZE, TARGET_SIZE)
    network.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    return network.eval(), parameters


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("reverse_source", [True, False])
def test_every_word_scores_as_in_the_reference(layers: int, reverse_source: bool) -> None:
    network, parameters = make_network(layers, reverse_source=reverse_source)
    lists = make_lists(layers)
    scored = score(make_scorer("lstm", network), lists)
    for (source, targets), found in zip(lists, scored, strict=True):
        for target, values in zip(targets, found, strict=True):
            expected = word_log_probs(parameters, source, target, reverse_source=reverse_source)
            assert values.tolist() == pytest.approx(expected, abs=1e-5)


def test_targets_score_as_in_the_network() -> None:
    assert_scores_are_the_network_s("lstm", make_network()[0])


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_value_has_the_same_bits_alone_and_among_others(precision: PrecisionName) -> None:
    # Enough units for vector instructions.
    network, _ = make_network(hidden=48)
    assert_bits_are_the_same_alone_and_among_others(make_scorer("lstm", network, precision))


def test_plain_torch_computes_the_same_as_the_compiled_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, _ = make_network()
    lists = make_lists(4)
    compiled = score(make_scorer("lstm", network), lists)
    monkeypatch.setattr(precisions, "FUSED_DEVICES", ())
    plain = score(make_scorer("lstm", network), lists)
    assert_close(compiled, plain)


def test_a_table_that_would_be_too_large_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    network, _ = make_network()
    lists = make_lists(4)
    with_table = score(make_scorer("lstm", network), lists)
    monkeypatch.setattr("phrasescore.scoring.decoders.lstm.TABLE_SIZE", TARGET_SIZE * 4 * 21 - 1)
    products = FixedProducts(Precision("float32", CPU), CPU)
    assert not LstmDecoder(network, products)._decoder._has_table
    without = score(make_scorer("lstm", network), lists)
    assert_close(with_table, without)


def test_large_sums_leave_the_gates_finite() -> None:
    # Beyond where e^x overflows float32, both ways.
    network, parameters = make_network(1)
    for name in ("encoder", "decoder"):
        parameters[f"{name}.layers.0.input.bias"] *= 1000
    network.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
    values = score(make_scorer("lstm", network), [([2, 3], [[4, 5]])])[0][0]
    assert values.tolist() == pytest.approx(word_log_probs(parameters, [2, 3], [4, 5]), abs=1e-4)
