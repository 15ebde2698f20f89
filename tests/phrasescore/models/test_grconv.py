"""The encoder of grConv and its soft parses; other promises are in test_networks."""

import numpy as np
import pytest
import torch

from phrasescore.models.batches import batch_pairs
from phrasescore.models.grconv import GrconvNetwork
from phrasescore.settings.kinds import GrconvConfig
from tests.reference_grconv import encode, random_parameters

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
    levels = model.soft_parse(ids).levels
    _, expected = encode(parameters, ids)
    assert [level.shape for level in levels] == [(length - t, 3) for t in range(1, length)]
    for level, gates in zip(levels, expected, strict=True):
        np.testing.assert_allclose(level.numpy(), np.array(gates), atol=1e-12)
        np.testing.assert_allclose(level.sum(1).numpy(), 1.0)
