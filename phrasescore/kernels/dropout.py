"""Dropout in one pass over memory, without a stored mask.

On a CPU, torch draws a mask number by number, which can cost as much as a layer's products. Here
the decision for a unit is a hash of its index and a key, and the backward pass computes it again.
"""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from phrasescore.kernels.precision import arrays, is_fused
from phrasescore.kernels.vector_math import ELEMENTWISE, use_widest_registers

_KEYS = 1 << 32
_8, _15, _16 = np.uint32(8), np.uint32(15), np.uint32(16)
_FIRST, _SECOND = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
_ZERO = np.float32(0)


@numba.njit(inline="always")
def _mixed(bits, shift, factor):  # type: ignore[no-untyped-def]
    # Each result is cast, because numba computes with 64 bits otherwise.
    bits = np.uint32(bits ^ np.uint32(bits >> shift))
    return np.uint32(bits * factor)


@ELEMENTWISE
def _drop(values, first_key, second_key, limit, scale, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    # The hash is lowbias32, https://github.com/skeeto/hash-prospector.
    for i in range(len(values)):
        bits = _mixed(np.uint32(np.uint32(i) ^ first_key), _16, _FIRST)
        bits = _mixed(bits, _15, _SECOND)
        bits = _mixed(np.uint32(bits + second_key), _16, _FIRST)
        # Signed numbers are compared faster.
        kept = np.int32(bits >> _8) >= limit
        out[i] = values[i] * scale if kept else _ZERO


class _Dropout(Function):
    @staticmethod
    def forward(ctx: Any, units: Tensor, share: float, keys: tuple[int, int]) -> Tensor:
        ctx.share, ctx.keys = share, keys
        return _dropped(units, share, keys)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _dropped(gradient, ctx.share, ctx.keys), None, None


def _dropped(units: Tensor, share: float, keys: tuple[int, int]) -> Tensor:
    units = units.detach().contiguous()
    out = torch.empty_like(units)
    # Only the upper 24 bits of the hash are compared.
    numbers = (*map(np.uint32, keys), np.int32(share * (1 << 24)), np.float32(1 / (1 - share)))
    _drop(*arrays(units.view(-1)), *numbers, *arrays(out.view(-1)))
    return out


def dropout(units: Tensor, share: float) -> Tensor:
    """Set a share of the units to 0, and scale the others so that the mean stays the same.

    Torch's generator draws the key, and so its seed determines the units.
    """
    if not share:
        return units
    if not is_fused(units) or units.dtype != torch.float32:
        return functional.dropout(units, share)
    first, second = torch.randint(_KEYS, (2,)).tolist()
    dropped: Tensor = _Dropout.apply(units, share, (first, second))
    return dropped
