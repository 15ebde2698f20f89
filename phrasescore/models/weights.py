"""Read and write the weights of a network as safetensors, which contain numbers and no code."""

import errno
from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor, nn

from phrasescore.errors import ModelError


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors.

    :raises OSError: if writing fails, in place of safetensors' own error.
    """
    on_cpu = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    try:
        safetensors.torch.save_file(on_cpu, path)
    except safetensors.SafetensorError as error:
        raise OSError(errno.EIO, str(error)) from error


def load_weights(network: nn.Module, path: Path, device: str) -> None:
    """Read the weights of a network that :func:`~phrasescore.models.checkpoint.empty_network` made.

    :raises ModelError: if their names, types or shapes do not fit it, or not all are finite.
    """
    try:
        weights = safetensors.torch.load_file(path, device=device)
    except safetensors.SafetensorError as error:
        raise ModelError(f"{path}: expected safetensors: {error}") from error
    empty = network.state_dict()
    for name in [*empty, *weights]:
        expected, actual = _describe(empty.get(name)), _describe(weights.get(name))
        if actual != expected:
            raise ModelError(
                f"{path}: {name}: expected {expected} from config.toml and the vocabularies, "
                f"got {actual}"
            )
        if not bool(weights[name].isfinite().all()):
            raise ModelError(f"{path}: the weights {name!r} are not all finite numbers")
    network.load_state_dict(weights, assign=True)


def _describe(tensor: Tensor | None) -> str:
    return "no weights" if tensor is None else f"{tensor.dtype} of shape {tuple(tensor.shape)}"
