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

from phrasescore.errors import ModelError
from phrasescore.io.kernel_cache import kept_njit
from phrasescore.settings.config import TrainingConfig

# Number of weights that are updated together. The norm is summed by pieces of this size, so that it
# does not depend on the number of threads.
_PIECE = 1 << 17

_Floats = npt.NDArray[np.float32]


def build_optimizer(network: nn.Module, config: TrainingConfig) -> "TorchOptimizer":
    """Return the configured optimizer for the parameters of a network, on their device."""
    parameters = dict(network.named_parameters())
    weights, optimizer = parameters.values(), config.optimizer
    if optimizer == "adadelta" and all(weight.device.type == "cpu" for weight in weights):
        return FusedAdadelta(parameters, rho=config.rho, epsilon=config.epsilon)
    steps: torch.optim.Optimizer
    if optimizer == "adam":
        betas = (config.beta1, config.beta2)
        # A fused step makes one pass over memory.
        steps = torch.optim.Adam(weights, betas=betas, eps=config.epsilon, fused=True)
    elif optimizer == "sgd":
        # Without momentum; each step has its own learning rate.
        steps = torch.optim.SGD(weights, fused=True)
    else:
        steps = torch.optim.Adadelta(weights, rho=config.rho, eps=config.epsilon, foreach=True)
    return TorchOptimizer(parameters, steps)


# Torch's names for the state of a parameter.
_STATES: dict[type[torch.optim.Optimizer], set[str]] = {
    torch.optim.Adadelta: {"step", "square_avg", "acc_delta"},
    torch.optim.Adam: {"step", "exp_avg", "exp_avg_sq"},
    torch.optim.SGD: set(),
}


class TorchOptimizer:
    """Updates the parameters with one of torch's optimizers."""

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer
    ) -> None:
        self._parameters = dict(parameters)
        self._optimizer = optimizer
        self._keys = _STATES[type(optimizer)]

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
            for group in self._optimizer.param_groups:
                group["lr"] = learning_rate
            self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return norm.item() if on_cpu else norm

    def state(self) -> dict[str, Tensor]:
        """Return everything on which a step depends besides weights and gradients."""
        saved = self._optimizer.state_dict()["state"]
        return {
            f"{name}/{key}": value
            for index, name in enumerate(self._parameters)
            for key, value in saved.get(index, {}).items()
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state from :meth:`state` of the same kind of optimizer and parameters."""
        indices = {name: index for index, name in enumerate(self._parameters)}
        saved: dict[int, dict[str, Tensor]] = {}
        wrong = []
        for full_name, value in state.items():
            name, _, key = full_name.rpartition("/")
            shapes = ((), self._parameters[name].shape) if name in indices else ()
            if value.shape not in shapes or key not in self._keys:
                wrong.append(full_name)
            else:
                saved.setdefault(indices[name], {})[key] = value.clone()
        # A parameter that never had a gradient has no state.
        wrong += [
            name
            for name, index in indices.items()
            if index in saved and saved[index].keys() != self._keys
        ]
        if wrong:
            raise ModelError(f"the optimizer's state does not match this network: {wrong[0]!r}")
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": saved, "param_groups": groups})


class FusedAdadelta(TorchOptimizer):
    """Adadelta on a CPU, with the same steps as ``torch.optim.Adadelta``.

    It uses as many threads as torch; the result does not depend on their number. A parameter
    without a gradient does not change.

    :param parameters: contiguous float32 parameters on the CPU.
    """

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], *, rho: float, epsilon: float
    ) -> None:
        for name, parameter in parameters.items():
            if parameter.dtype != torch.float32 or not parameter.is_contiguous():
                raise ValueError(f"{name}: expected contiguous float32 weights on the CPU")
        # Torch's optimizer only holds the averages; it makes no step.
        super().__init__(parameters, torch.optim.Adadelta(parameters.values()))
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
            for state in self._optimizer.state.values():
                state["step"] += 1
        for parameter in self._parameters.values():
            parameter.grad = None
        return norm

    def _pieces(self) -> list[tuple[_Floats, ...]]:
        """Return the weights in pieces, with their gradients and both averages."""
        pieces = []
        for parameter in self._parameters.values():
            if parameter.grad is None:
                continue
            state = self._optimizer.state[parameter]
            if not state:
                state["step"] = torch.zeros(())
                state["square_avg"] = torch.zeros(parameter.shape)
                state["acc_delta"] = torch.zeros(parameter.shape)
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
