"""Promises of the optimizers and of the objective of expected BLEU."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from phrasescore.errors import ModelError
from phrasescore.settings.config import OptimizerName, TrainingConfig
from phrasescore.training import expected_bleu, optimizers
from phrasescore.training.expected_bleu import expected_gains
from phrasescore.training.optimizers import FusedAdadelta, TorchOptimizer, build_optimizer
from phrasescore.training.stores import KnownScores

SHAPES = {"matrix": (7, 5), "vector": (11,), "nothing": (0, 3), "large": (300, 500)}


def make_parameters() -> dict[str, nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    return {
        name: nn.Parameter(torch.randn(shape, generator=generator))
        for name, shape in SHAPES.items()
    }


def set_gradients(parameters: dict[str, nn.Parameter], step: int, factor: float = 1.0) -> None:
    generator = torch.Generator().manual_seed(step)
    for parameter in parameters.values():
        parameter.grad = factor * torch.randn(parameter.shape, generator=generator)


def values(parameters: dict[str, nn.Parameter]) -> Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in parameters.values()])


def make_network() -> nn.Module:
    network = nn.Module()
    for name, parameter in make_parameters().items():
        network.register_parameter(name, parameter)
    return network


# The gradients of a step have a norm of about 390: without limit, always above, never above it.
@pytest.mark.parametrize(("clip_norm", "factor"), [(0.0, 1.0), (1.0, 1.0), (1.0, 1e-4)])
@pytest.mark.parametrize("learning_rate", [1.0, 0.3])
def test_the_fused_step_is_the_step_of_torch(
    clip_norm: float, factor: float, learning_rate: float
) -> None:
    fused, plain = make_parameters(), make_parameters()
    adadelta = FusedAdadelta(fused, rho=0.95, epsilon=1e-6)
    reference = torch.optim.Adadelta(plain.values(), lr=learning_rate, rho=0.95, eps=1e-6)
    for step in range(20):
        set_gradients(fused, step, factor)
        set_gradients(plain, step, factor)
        norm = adadelta.step(learning_rate, clip_norm)
        expected = nn.utils.clip_grad_norm_(plain.values(), clip_norm or math.inf)
        reference.step()
        assert norm == pytest.approx(expected.item(), rel=1e-5)
        torch.testing.assert_close(values(fused), values(plain), rtol=0, atol=1e-6)
    for name, parameter in plain.items():
        for key in ("square_avg", "acc_delta"):
            torch.testing.assert_close(
                adadelta.state()[f"{name}/{key}"],
                reference.state[parameter][key],
                rtol=1e-4,
                atol=1e-9,
            )


def test_a_step_of_sgd_is_the_rate_times_the_clipped_gradient() -> None:
    # Norm 5, scaled to 1: (0.6, 0.8); nothing is left of the step before (no momentum).
    network = nn.Module()
    for name in "ab":
        network.register_parameter(name, nn.Parameter(torch.zeros(1)))
    stepper = build_optimizer(network, TrainingConfig(optimizer="sgd"))
    parameters = dict(network.named_parameters())
    for rate, expected in ((0.5, [-0.3, -0.4]), (0.25, [-0.45, -0.6])):
        for parameter, gradient in zip(parameters.values(), (3.0, 4.0), strict=True):
            parameter.grad = torch.tensor([gradient])
        assert float(stepper.step(rate, 1.0)) == pytest.approx(5.0)
        assert values(parameters).tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "numbers", "steps"),
    [
        ("adam", {"beta1": 0.9, "beta2": 0.98, "eps": 1e-8}, partial(torch.optim.Adam, fused=True)),
        ("adadelta", {"rho": 0.95, "eps": 1e-6}, partial(torch.optim.Adadelta, foreach=True)),
        ("sgd", {}, partial(torch.optim.SGD, fused=True)),
    ],
)
def test_steps_have_the_bits_of_torch_s_optimizers(
    kind: OptimizerName, numbers: dict[str, Any], steps: Callable[..., torch.optim.Optimizer]
) -> None:
    own, plain = make_parameters(), make_parameters()
    stepper = TorchOptimizer(own, kind, **numbers)
    if kind == "adam":
        numbers = {"betas": (numbers["beta1"], numbers["beta2"]), "eps": numbers["eps"]}
    reference = steps(plain.values(), lr=0.1, **numbers)
    for step in range(5):
        for parameters in (own, plain):
            set_gradients(parameters, step)
            parameters["vector"].grad = None if step < 2 else parameters["vector"].grad
        stepper.step(0.1, 0.0)
        reference.step()
    assert torch.equal(values(own), values(plain))


@pytest.mark.parametrize("optimizer", ["adadelta", "adam", "sgd"])
def test_a_gradient_that_is_not_finite_changes_nothing(optimizer: OptimizerName) -> None:
    for bad in (math.nan, math.inf):
        network = make_network()
        stepper = build_optimizer(network, TrainingConfig(optimizer=optimizer))
        before = values(dict(network.named_parameters())).clone()
        set_gradients(dict(network.named_parameters()), 1)
        gradient = network.get_parameter("large").grad
        assert gradient is not None
        gradient[17, 3] = bad
        assert not math.isfinite(float(stepper.step(1.0, 1.0)))
        assert torch.equal(values(dict(network.named_parameters())), before)


@pytest.mark.parametrize("optimizer", ["adadelta", "adam", "sgd"])
def test_gradients_are_forgotten_after_a_step(optimizer: OptimizerName) -> None:
    network = make_network()
    stepper = build_optimizer(network, TrainingConfig(optimizer=optimizer))
    set_gradients(dict(network.named_parameters()), 1)
    stepper.step(1.0, 1.0)
    assert all(parameter.grad is None for parameter in network.parameters())


def test_a_parameter_without_a_gradient_stays() -> None:
    parameters = make_parameters()
    before = parameters["vector"].detach().clone()
    set_gradients(parameters, 1)
    parameters["vector"].grad = None
    FusedAdadelta(parameters, rho=0.95, epsilon=1e-6).step(1.0, 0.0)
    assert torch.equal(parameters["vector"], before)


def test_a_gradient_in_another_order_of_memory_is_read_right() -> None:
    plain, turned = make_parameters(), make_parameters()
    for parameters in (plain, turned):
        set_gradients(parameters, 1)
    gradient = turned["matrix"].grad
    assert gradient is not None
    turned["matrix"].grad = gradient.t().contiguous().t()
    for parameters in (plain, turned):
        FusedAdadelta(parameters, rho=0.95, epsilon=1e-6).step(1.0, 0.0)
    assert torch.equal(values(plain), values(turned))


def test_the_number_of_threads_does_not_change_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizers, "_PIECE", 1000)
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(torch, "get_num_threads", itertools.repeat(threads).__next__)
        parameters = make_parameters()
        adadelta = FusedAdadelta(parameters, rho=0.95, epsilon=1e-6)
        for step in range(3):
            set_gradients(parameters, step)
            adadelta.step(1.0, 1.0)
        results.append(values(parameters))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_averages_of_weights_that_are_never_touched_do_not_become_subnormal() -> None:
    parameter = nn.Parameter(torch.zeros(4))
    adadelta = FusedAdadelta({"p": parameter}, rho=0.5, epsilon=1e-6)
    for step in range(150):
        parameter.grad = torch.full((4,), 0.0 if step else 1.0)
        adadelta.step(1.0, 0.0)
    for average in adadelta.state().values():
        assert not ((average > 0) & (average < torch.finfo(torch.float32).tiny)).any()


@pytest.mark.parametrize("optimizer", ["adadelta", "adam", "sgd"])
def test_a_state_that_is_loaded_goes_on_to_the_same_bits(optimizer: OptimizerName) -> None:
    config = TrainingConfig(optimizer=optimizer)
    whole, resumed = make_network(), make_network()
    whole_stepper = build_optimizer(whole, config)
    for step in range(3):
        set_gradients(dict(whole.named_parameters()), step)
        whole_stepper.step(0.1, 1.0)
    resumed.load_state_dict(whole.state_dict())
    saved = {name: tensor.clone() for name, tensor in whole_stepper.state().items()}
    resumed_stepper = build_optimizer(resumed, config)
    resumed_stepper.load_state(saved)
    for network, stepper in ((whole, whole_stepper), (resumed, resumed_stepper)):
        for step in range(3, 6):
            set_gradients(dict(network.named_parameters()), step)
            stepper.step(0.1, 1.0)
    assert torch.equal(
        values(dict(whole.named_parameters())), values(dict(resumed.named_parameters()))
    )


def test_the_fused_state_is_one_that_torch_can_go_on_with() -> None:
    fused, plain = make_parameters(), make_parameters()
    adadelta = FusedAdadelta(fused, rho=0.95, epsilon=1e-6)
    set_gradients(fused, 0)
    adadelta.step(1.0, 1.0)
    with torch.no_grad():
        for name, parameter in plain.items():
            parameter.copy_(fused[name])
    reference = TorchOptimizer(plain, "adadelta", rho=0.95, eps=1e-6)
    reference.load_state(adadelta.state())
    for stepper, parameters in ((adadelta, fused), (reference, plain)):
        set_gradients(parameters, 1)
        stepper.step(1.0, 1.0)
    torch.testing.assert_close(values(fused), values(plain), rtol=0, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["adadelta", "adam", "sgd"])
def test_a_state_of_another_network_is_refused(optimizer: OptimizerName) -> None:
    stepper = build_optimizer(make_network(), TrainingConfig(optimizer=optimizer))
    with pytest.raises(ModelError, match="does not match this network: 'other/square_avg'"):
        stepper.load_state({**stepper.state(), "other/square_avg": torch.zeros(1)})


@pytest.mark.parametrize(
    ("name", "value"), [("vector/exp_avg", torch.zeros(12)), ("vector/other", torch.zeros(11))]
)
def test_a_state_of_torchs_optimizer_that_is_damaged_is_refused(name: str, value: Tensor) -> None:
    network = make_network()
    stepper = build_optimizer(network, TrainingConfig(optimizer="adam"))
    set_gradients(dict(network.named_parameters()), 1)
    stepper.step(0.1, 0.0)
    with pytest.raises(ModelError, match="does not match this network: 'vector"):
        stepper.load_state({**stepper.state(), name: value})


def scores(model_scores: list[float], gains: list[float], lists: list[int]) -> KnownScores:
    known, gained = (torch.tensor(each, dtype=torch.float64) for each in (model_scores, gains))
    return KnownScores(known, gained, torch.tensor(lists), max(lists) + 1)


def test_a_list_s_gain_is_the_mean_under_the_softmax_of_the_totals() -> None:
    known = scores([0.0, math.log(3.0), 5.0], [1.0, 0.2, 0.7], [0, 0, 1])
    # Totals 2 * (0 + 0.5 * ln 9) = ln 9 and 2 * (ln 3 + 0.5 * 0) = ln 9: both have one half.
    values = torch.tensor([math.log(9.0), 0.0, -1.0], dtype=torch.float64)
    found = expected_gains(known, values, weight=0.5, scale=2.0)
    assert found.tolist() == pytest.approx([0.6, 0.7], abs=1e-15)


def test_totals_of_any_size_have_a_softmax() -> None:
    known = scores([-1e4, -1e4 - 1, 3e3], [1.0, 0.0, 0.5], [0, 0, 1])
    found = expected_gains(known, torch.zeros(3, dtype=torch.float64), weight=1.0, scale=50.0)
    assert found.tolist() == pytest.approx([1 / (1 + math.exp(-50)), 0.5])


def test_the_gradient_is_that_of_the_papers_and_of_finite_differences() -> None:
    known = scores([0.3, -0.2, 1.1, 0.0, 0.4], [0.9, 0.1, 0.4, 0.3, 0.8], [0, 0, 0, 1, 1])
    values = torch.tensor([-3.0, -2.5, -4.0, -1.0, -1.5], dtype=torch.float64, requires_grad=True)

    def gain(given: torch.Tensor) -> torch.Tensor:
        return expected_gains(known, given, weight=0.4, scale=3.0)

    assert torch.autograd.gradcheck(gain, (values,), eps=1e-6, atol=1e-9)
    gain(values).sum().backward()
    wanted = []
    for rows in (range(3), range(3, 5)):
        totals = [3 * (known.model_scores[row] + 0.4 * values[row]).item() for row in rows]
        shares = [math.exp(total) / sum(map(math.exp, totals)) for total in totals]
        gains = [known.gains[row].item() for row in rows]
        mean = sum(share * one for share, one in zip(shares, gains, strict=True))
        wanted += [
            share * (one - mean) * 3.0 * 0.4 for share, one in zip(shares, gains, strict=True)
        ]
    assert values.grad is not None
    assert values.grad.tolist() == pytest.approx(wanted, abs=1e-12)


def test_the_deviation_is_inside_lists() -> None:
    known = scores([1.0, 3.0, 100.0], [0.0, 0.0, 0.0], [0, 0, 1])
    # Totals 1 and 5 in the first list, whose mean is 3; the list of one hypothesis has none.
    values = torch.tensor([0.0, 1.0, 7.0], dtype=torch.float64)
    lists = [(known, values)]
    assert expected_bleu._spread(lists, 2.0) == pytest.approx(math.sqrt(8 / 3))
    # One more list has totals -2 and 2.
    lists.append((scores([0.0, 0.0], [0.0, 0.0], [0, 0]), torch.tensor([-1.0, 1.0]).double()))
    assert expected_bleu._spread(lists, 2.0) == pytest.approx(math.sqrt(16 / 5))
