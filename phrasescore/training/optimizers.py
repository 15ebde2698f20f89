"""Optimizers: Adadelta in one pass over memory, and torch's optimizers.

Torch computes a step of Adadelta (Zeiler, 2012) as about ten operations on whole tensors, which can
cost as much as computing the gradients. Here a step, including clipping, reads the weight, gradient
and averages once and writes the weight and averages once.
"""

import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.optim.adadelta import adadelta
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from phrasescore.errors import ModelError
from phrasescore.io.kernel_cache import kept_njit
from phrasescore.settings.config import OptimizerName, TrainingConfig

# Number of weights that are updated together. The norm is summed by pieces of this size, so that it
# does not depend on the number of threads.
_PIECE = 1 << 17

_Floats = npt.NDArray[np.float32]


# Torch's names for what a parameter has besides its weights, in the order of its functions.
_STATES = {
    "adam": ("exp_avg", "exp_avg_sq", "step"),
    "adadelta": ("square_avg", "acc_delta", "step"),
    "sgd": (),
}


def build_optimizer(network: nn.Module, config: TrainingConfig) -> "TorchOptimizer":
    """Return the configured optimizer for the parameters of a network, on their device."""
    parameters = dict(network.named_parameters())
    kind, epsilon = config.optimizer, config.epsilon
    if kind == "adam":
        return TorchOptimizer(parameters, kind, beta1=config.beta1, beta2=config.beta2, eps=epsilon)
    if kind == "sgd":
        return TorchOptimizer(parameters, kind)
    if all(weight.device.type == "cpu" for weight in parameters.values()):
        return FusedAdadelta(parameters, rho=config.rho, epsilon=epsilon)
    return TorchOptimizer(parameters, kind, rho=config.rho, eps=epsilon)


class TorchOptimizer:
    """Updates the parameters with the function of one of torch's optimizers.

    The classes in torch.optim import torch._dynamo, which takes as long as to import torch.

    :param numbers: of the function, by its own names.
    """

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], kind: OptimizerName, **numbers: float
    ) -> None:
        self._parameters = dict(parameters)
        self._kind, self._numbers, self._keys = kind, numbers, _STATES[kind]
        self._states: dict[str, dict[str, Tensor]] = {}

    def step(self, learning_rate: float, clip_norm: float) -> float | Tensor:
        """Make one step, clear the gradients and return their norm before clipping.

        :param clip_norm: gradients with a larger Euclidean norm are scaled down to it; 0 for no
            clipping.
        :return: on a CPU a number, and no step is made if it is not finite; otherwise a tensor on
            the device.
        """
        # Without a limit, only the norm is computed.
        norm = nn.utils.clip_grad_norm_(self._parameters.values(), clip_norm or math.inf)
        on_cpu = norm.device.type == "cpu"
        if not on_cpu or math.isfinite(norm.item()):
            self._update(learning_rate)
        for parameter in self._parameters.values():
            parameter.grad = None
        return norm.item() if on_cpu else norm

    @torch.no_grad()
    def _update(self, learning_rate: float) -> None:
        trained = {name: each for name, each in self._parameters.items() if each.grad is not None}
        weights: Any = [*trained.values()]
        inputs = (weights, [weight.grad for weight in weights])
        states = [self._state_of(name) for name in trained]
        averages = [[state[key] for state in states] for key in self._keys]
        more: Any = {"lr": learning_rate, "weight_decay": 0.0, "maximize": False, **self._numbers}
        # Fused steps make one pass over memory.
        if self._kind == "adam":
            first, second, steps = averages
            adam(*inputs, first, second, [], steps, fused=True, amsgrad=False, **more)
        elif self._kind == "adadelta":
            first, second, steps = averages
            adadelta(*inputs, first, second, steps, foreach=True, **more)
        else:
            # Without momentum.
            buffers: Any = [None] * len(weights)
            sgd(*inputs, buffers, fused=True, momentum=0.0, dampening=0.0, nesterov=False, **more)

    def _state_of(self, name: str) -> dict[str, Tensor]:
        if name not in self._states:
            weight = self._parameters[name].detach()
            state = {key: torch.zeros_like(weight) for key in self._keys}
            if "step" in state:
                device = weight.device if self._kind == "adam" else torch.device("cpu")
                state["step"] = torch.zeros((), device=device)
            self._states[name] = state
        return self._states[name]

    def state(self) -> dict[str, Tensor]:
        """Return everything on which a step depends besides weights and gradients."""
        return {
            f"{name}/{key}": value
            for name, state in self._states.items()
            for key, value in state.items()
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state from :meth:`state` of the same kind of optimizer and parameters."""
        for full_name, value in state.items():
            name, _, key = full_name.rpartition("/")
            try:
                own = self._state_of(name)[key]
                own.copy_(value.view(own.shape))
            except (KeyError, RuntimeError) as error:
                problem = f"the optimizer's state does not match this network: {full_name!r}"
                raise ModelError(problem) from error


class FusedAdadelta(TorchOptimizer):
    """Adadelta on a CPU, with the same steps as ``torch.optim.Adadelta``.

    It uses as many threads as torch; the result does not depend on their number. A parameter
    without a gradient does not change.

    :param parameters: contiguous float32 parameters on the CPU.
    """

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], *, rho: float, epsilon: float
    ) -> None:
        super().__init__(parameters, "adadelta")
        self._rho, self._epsilon = rho, epsilon
        self._threads = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(self._threads)

    def step(self, learning_rate: float, clip_norm: float) -> float:
        pieces = self._pieces()
        norm = math.sqrt(sum(self._each(lambda piece: float(_square_sum(piece[1])), pieces)))
        if math.isfinite(norm):
            # The same factor as in torch.nn.utils.clip_grad_norm_.
            scale = min(1.0, clip_norm / (norm + 1e-6)) if clip_norm else 1.0
            numbers = [
                np.float32(number)
                for number in (scale, self._rho, 1 - self._rho, self._epsilon, learning_rate)
            ]
            self._each(lambda piece: _adadelta(*piece, *numbers), pieces)
            for state in self._states.values():
                state["step"] += 1
        for parameter in self._parameters.values():
            parameter.grad = None
        return norm

    def _pieces(self) -> list[tuple[_Floats, ...]]:
        """Return the weights in pieces, with their gradients and both averages."""
        pieces = []
        for name, parameter in self._parameters.items():
            if parameter.grad is None:
                continue
            state = self._state_of(name)
            tensors = (parameter.detach(), parameter.grad, state["square_avg"], state["acc_delta"])
            flat = [tensor.contiguous().view(-1).numpy() for tensor in tensors]
            pieces += [
                tuple(array[start : start + _PIECE] for array in flat)
                for start in range(0, parameter.numel(), _PIECE)
            ]
        return pieces

    def _each(
        self, work: Callable[[tuple[_Floats, ...]], Any], pieces: list[tuple[_Floats, ...]]
    ) -> list[Any]:
        size = -(-len(pieces) // self._threads) or 1
        shares = [pieces[start : start + size] for start in range(0, len(pieces), size)]
        done = self._pool.map(lambda share: [work(piece) for piece in share], shares)
        return [result for results in done for result in results]


# The sum may be in any order, but must keep NaN and infinity.
@kept_njit(fastmath={"reassoc", "contract"})
def _square_sum(gradient):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(gradient.size):
        value = np.float64(gradient[i])
        total += value * value
    return total


# Likewise.
@kept_njit(fastmath={"contract", "arcp", "nsz"})
def _adadelta(  # type: ignore[no-untyped-def]
    weight, gradient, square, change, scale, rho, one_minus_rho, epsilon, learning_rate
):
    # Zeiler (2012), algorithm 1. The averages of words that do not occur would become subnormal,
    # which is slow on a CPU. Compared with epsilon they are 0 long before.
    tiny = np.float32(1e-36)
    zero = np.float32(0)
    for i in range(weight.size):
        g = gradient[i] * scale
        s = rho * square[i] + one_minus_rho * (g * g)
        square[i] = s if s > tiny else zero
        delta = np.sqrt(change[i] + epsilon) / np.sqrt(s + epsilon) * g
        c = rho * change[i] + one_minus_rho * (delta * delta)
        change[i] = c if c > tiny else zero
        weight[i] -= learning_rate * delta
