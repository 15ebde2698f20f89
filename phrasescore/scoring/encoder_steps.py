"""Element-wise parts of encoders that read whole sentences, each in one pass over memory.

As in :mod:`phrasescore.kernels.gates`, a number depends on its own row alone, to the last bit; what
torch computes of the last numbers of an array may depend on where the array ends.
"""

import numpy as np
import torch
from torch import Tensor

from phrasescore.kernels import gates
from phrasescore.kernels.vector_math import ELEMENTWISE, exp, tanh, use_widest_registers
from phrasescore.models.recursive_convolution import GATES

_ZERO = np.float32(0)


@ELEMENTWISE
def _tanh_of_sums(products, bias, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    for row in range(len(out)):
        for j in range(len(bias)):
            out[row, j] = tanh(products[row, j] + bias[j])


@ELEMENTWISE
def _join_cells(products, bias, logits, gate_bias, old, left, right, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    size = out.shape[1]
    for cell in range(len(out)):
        a, b = left[cell], right[cell]
        new = logits[a, 0] + logits[b, 3] + gate_bias[0]
        first = logits[a, 1] + logits[b, 4] + gate_bias[1]
        second = logits[a, 2] + logits[b, 5] + gate_bias[2]
        highest = max(new, first, second)
        new, first, second = exp(new - highest), exp(first - highest), exp(second - highest)
        total = new + first + second
        new, first, second = new / total, first / total, second / total
        # A part of its own, as an index like j + size may compile to a gather: see gates.thirds().
        from_left, from_right = products[a], products[b, size:]
        before_left, before_right, after = old[a], old[b], out[cell]
        for j in range(size):
            activation = max(from_left[j] + from_right[j] + bias[j], _ZERO)
            after[j] = new * activation + first * before_left[j] + second * before_right[j]


def tanh_of_sums(products: Tensor, bias: Tensor) -> Tensor:
    """Return tanh(products + bias), ``(rows, columns)``."""
    if products.device.type not in gates.FUSED_DEVICES:
        return (products + bias).tanh_()
    out = torch.empty_like(products)
    _tanh_of_sums(products.numpy(), bias.numpy(), out.numpy())
    return out


def join_cells(
    products: Tensor,
    bias: Tensor,
    logits: Tensor,
    gate_bias: Tensor,
    old: Tensor,
    left: Tensor,
    right: Tensor,
) -> Tensor:
    """Return the cells of a level of a recursive convolution, ``(cells, size)``.

    Cho et al. (2014b), section 2.2; see :mod:`phrasescore.models.recursive_convolution`.

    :param products: W_l h and W_r h of the cells below, ``(below, 2 * size)``.
    :param logits: G_l h and G_r h of the same, ``(below, 6)``.
    :param old: the cells below, ``(below, size)``.
    :param left: ``(cells,)``: the row of each cell's left child; ``right``: of its right child.
    """
    size = old.shape[1]
    if old.device.type in gates.FUSED_DEVICES:
        out = old.new_empty(len(left), size)
        parts = (products, bias, logits, gate_bias, old, left, right, out)
        _join_cells(*(part.numpy() for part in parts))
        return out
    omega = logits[:, :GATES].index_select(0, left) + logits[:, GATES:].index_select(0, right)
    omega = torch.softmax(omega.add_(gate_bias), dim=1)
    new = products[:, :size].index_select(0, left)
    new.add_(products[:, size:].index_select(0, right)).add_(bias).relu_().mul_(omega[:, :1])
    new.addcmul_(old.index_select(0, left), omega[:, 1:2])
    return new.addcmul_(old.index_select(0, right), omega[:, 2:])
