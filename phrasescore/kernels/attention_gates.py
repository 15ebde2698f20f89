"""The element-wise parts of a step of RNNsearch's decoder, each in one pass over memory.

As in :mod:`phrasescore.kernels.gates`: each node's rows are read once, where they lie. Nodes with
the same parent (a *family*) share what depends on the parent alone: its products, and the context.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.kernels.vector_math import ELEMENTWISE, sigmoid, tanh, use_widest_registers

# Devices whose memory numba can reach.
FUSED_DEVICES: tuple[str, ...] = ("cpu",)


@ELEMENTWISE
def _gates(products, sums, families, table, words, old, update, masked):  # type: ignore[no-untyped-def]
    use_widest_registers()
    size = update.shape[1]
    units = products.shape[1] - 2 * size
    for node in range(len(update)):
        family = families[node]
        product, context, word = products[family, units:], sums[family], table[words[node]]
        before = old[family]
        # Parts of their own, as an index like j + size may compile to a gather: see gates.thirds().
        product_r, context_r, word_r = product[size:], context[size:], word[size:]
        for j in range(size):
            update[node, j] = sigmoid(product[j] + context[j] + word[j])
            masked[node, j] = before[j] * sigmoid(product_r[j] + context_r[j] + word_r[j])


@ELEMENTWISE
def _blend(products, sums, families, table, words, old, update, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    size = update.shape[1]
    for node in range(len(update)):
        family, product = families[node], products[node]
        context, word = sums[family, 2 * size :], table[words[node], 2 * size :]
        before = old[family]
        for j in range(size):
            candidate = tanh(product[j] + context[j] + word[j])
            out[node, j] = before[j] + update[node, j] * (candidate - before[j])


@ELEMENTWISE
def _maxout(products, sums, families, table, words, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    size = out.shape[1]
    others = sums.shape[1] - 2 * size
    for node in range(len(out)):
        product, context = products[node], sums[families[node], others:]
        word = table[words[node]]
        other_product, other_context, other_word = product[size:], context[size:], word[size:]
        for j in range(size):
            first = product[j] + context[j] + word[j]
            out[node, j] = max(first, other_product[j] + other_context[j] + other_word[j])


def _arrays(*tensors: Tensor) -> list[NDArray[np.generic]]:
    return [tensor.numpy() for tensor in tensors]


def attentive_gates(
    products: Tensor,
    sums: Tensor,
    families: Tensor,
    table: Tensor,
    words: Tensor,
    old: Tensor,
    update: Tensor,
    masked: Tensor,
) -> None:
    """Write z and r * s of the nodes into ``update`` and ``masked``, ``(nodes, hidden)`` each.

    :param products: W_a s, U_z s and U_r s, ``(families, units + 2 * hidden)``.
    :param sums: C_z c, C_r c, C c and C_o c, ``(families, 3 * hidden + 2 * maxout)``.
    :param families: ``(nodes,)``: which family each node is of.
    :param table: W_z e, W_r e and W e of each word with the biases, ``(words, 3 * hidden)``.
    :param words: ``(nodes,)``: each node's last word.
    :param old: s, the families' own states, ``(families, hidden)``.
    """
    if update.device.type in FUSED_DEVICES:
        _gates(*_arrays(products, sums, families, table, words, old, update, masked))
        return
    size = update.shape[1]
    shared = products[:, -2 * size :] + sums[:, : 2 * size]
    gates = shared.index_select(0, families)
    gates.add_(table[:, : 2 * size].index_select(0, words)).sigmoid_()
    update.copy_(gates[:, :size])
    torch.mul(gates[:, size:], old.index_select(0, families), out=masked)


def attentive_blend(
    products: Tensor,
    sums: Tensor,
    families: Tensor,
    table: Tensor,
    words: Tensor,
    old: Tensor,
    update: Tensor,
    out: Tensor,
) -> None:
    """Write the nodes' states into ``out``; ``products`` is U (r * s), ``(nodes, hidden)``."""
    if update.device.type in FUSED_DEVICES:
        _blend(*_arrays(products, sums, families, table, words, old, update, out))
        return
    size = update.shape[1]
    candidate = sums[:, 2 * size : 3 * size].index_select(0, families)
    candidate.add_(products).add_(table[:, 2 * size :].index_select(0, words)).tanh_()
    torch.lerp(old.index_select(0, families), candidate, update, out=out)


def attentive_maxout(
    products: Tensor, sums: Tensor, families: Tensor, table: Tensor, words: Tensor, out: Tensor
) -> None:
    """Write t, the maxout units, into ``out``, ``(nodes, units)``.

    Column j of the first half and column j of the second are the two inputs of unit j.

    :param products: U_o s, ``(nodes, 2 * units)``.
    :param table: V_o E y of each word with the bias, ``(words, 2 * units)``.
    """
    if out.device.type in FUSED_DEVICES:
        _maxout(*_arrays(products, sums, families, table, words, out))
        return
    total = sums[:, -2 * out.shape[1] :].index_select(0, families)
    total.add_(products).add_(table.index_select(0, words))
    torch.maximum(*total.chunk(2, dim=1), out=out)
