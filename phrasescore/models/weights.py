"""The weights of a network as a file of safetensors, which holds numbers and no code."""

import errno
from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor, nn

from phrasescore.errors import ModelError


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors.

    :raises OSError: if the disk does not take them; safetensors has an error of its own for that.
    """
    on_cpu = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    try:
        safetensors.torch.save_file(on_cpu, path)
    except safetensors.SafetensorError as error:
        raise OSError(errno.EIO, str(error)) from error


def load_weights(network: nn.Module, path: Path, device: str) -> None:
    """Read the weights of a network that has none yet.

    :raises ModelError: if they are not those of such a network, or not all finite.
    """
    try:
        weights = safetensors.torch.load_file(path, device=device)
    except safetensors.SafetensorError as error:
        raise ModelError(f"{path}: expected safetensors: {error}") from error
    empty = network.state_dict()
    for name in [*empty, *weights]:
        expected, found = _describe(empty.get(name)), _describe(weights.get(name))
        if found != expected:
            problem = f"expected {expected} from config.toml and the vocabularies, got {found}"
            raise ModelError(f"{path}: {name}: {problem}")
        if not bool(weights[name].isfinite().all()):
            raise ModelError(f"{path}: the weights {name!r} are not all finite numbers")
    network.load_state_dict(weights, assign=True)


def _describe(tensor: Tensor | None) -> str:
    return "no weights" if tensor is None else f"{tensor.dtype} of shape {tuple(tensor.shape)}"
