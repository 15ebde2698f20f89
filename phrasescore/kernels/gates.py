"""The element-wise parts of a decoder step, each in one pass over memory.

Between two matrix products, a step adds up the rows of a node's parent, root and last word, and
applies an activation function. With separate tensor operations, this would take as long as the
products; here each node's rows are read once, in place. On a GPU, the functions use plain torch.
"""

from typing import NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.devices import move
from phrasescore.kernels.precision import Product, arrays, is_fused, read, unit_of, widen
from phrasescore.kernels.vector_math import ELEMENTWISE, sigmoid, tanh, use_widest_registers

Ids = NDArray[np.int64]


class TreeStep(NamedTuple):
    """The nodes in a level, on the device. The children of a node (a *family*) are adjacent."""

    parents: Tensor  # (nodes,) int64: rows of the level above, in ascending order
    words: Tensor  # (nodes,) int64: the last word of each prefix
    roots: Tensor  # (nodes,) int64: the root of each prefix
    branching: Tensor  # (families,) int64: the distinct parents, ascending
    families: Tensor  # (nodes,) int64: the index of each node's parent in ``branching``

    @staticmethod
    def of(parents: Ids, words: Ids, roots: Ids, device: torch.device) -> "TreeStep":
        """Build the step for one level from its node arrays, and copy it to ``device``."""
        begins = np.diff(parents, prepend=-1) != 0
        parts = parents, words, roots, parents[begins], np.cumsum(begins) - 1
        return TreeStep(*move(device, *(torch.from_numpy(part) for part in parts)))

    @staticmethod
    def first(count: int, word: int, device: torch.device) -> "TreeStep":
        """Build the step to each root's empty prefix, as if ``word`` preceded it."""
        roots = np.arange(count)
        return TreeStep.of(roots, np.full(count, word), roots, device)


@numba.njit(inline="always")
def thirds(row):  # type: ignore[no-untyped-def]
    """Return the three parts of a row: for z, for r and for the candidate.

    An index like ``j + size`` often compiles to a gather, because it could be negative and count
    from the end; separate parts are read eight or sixteen numbers at a time.
    """
    size = len(row) // 3
    return row[:size], row[size : 2 * size], row[2 * size :]


@ELEMENTWISE
def _decoder_step(  # type: ignore[no-untyped-def]
    products, units, scales, positions, context, roots, table, words, old, parents, out
):
    use_widest_registers()
    size = old.shape[1]
    update, reset = np.empty(size, np.float32), np.empty(size, np.float32)
    scales_z, scales_r, scales_h = thirds(scales)
    for node in range(len(out)):
        product, outer = products[positions[node]], context[roots[node]]
        unit = unit_of(products, units, positions[node])
        word, before, after = table[words[node]], old[parents[node]], out[node]
        product_z, product_r, product_h = thirds(product)
        outer_z, outer_r, outer_h = thirds(outer)
        word_z, word_r, word_h = thirds(word)
        for j in range(size):
            z = read(product_z, j, unit, scales_z) + widen(outer_z[j]) + widen(word_z[j])
            r = read(product_r, j, unit, scales_r) + widen(outer_r[j]) + widen(word_r[j])
            update[j], reset[j] = sigmoid(z), sigmoid(r)
        # In a separate loop, all reset gates are ready.
        for j in range(size):
            inner = read(product_h, j, unit, scales_h) + widen(outer_h[j])
            candidate = tanh(widen(word_h[j]) + reset[j] * inner)
            after[j] = candidate + update[j] * (before[j] - candidate)


@ELEMENTWISE
def _maxout(products, units, scales, context, roots, table, words, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    size = out.shape[1]
    other_scales = scales[size:]
    for node in range(len(out)):
        product, outer = products[node], context[roots[node]]
        unit = unit_of(products, units, node)
        word, after = table[words[node]], out[node]
        other_product, other_outer, other_word = product[size:], outer[size:], word[size:]
        for j in range(size):
            first = read(product, j, unit, scales) + widen(outer[j]) + word[j]
            second = read(other_product, j, unit, other_scales)
            second += widen(other_outer[j]) + other_word[j]
            after[j] = max(first, second)


@ELEMENTWISE
def _encoder_gates(  # type: ignore[no-untyped-def]
    products, units, scales, table, words, old, parents, update, masked
):
    use_widest_registers()
    size = update.shape[1]
    scales_r = scales[size:]
    for node in range(len(update)):
        product, word = products[parents[node]], table[words[node]]
        unit = unit_of(products, units, parents[node])
        before = old[parents[node]]
        product_r, word_r = product[size:], word[size : 2 * size]
        for j in range(size):
            update[node, j] = sigmoid(read(product, j, unit, scales) + word[j])
            reset = sigmoid(read(product_r, j, unit, scales_r) + word_r[j])
            masked[node, j] = before[j] * reset


@ELEMENTWISE
def _encoder_blend(  # type: ignore[no-untyped-def]
    products, units, scales, table, words, old, parents, update, out
):
    use_widest_registers()
    size = update.shape[1]
    for node in range(len(update)):
        product, unit = products[node], unit_of(products, units, node)
        word_h, before = table[words[node], 2 * size :], old[parents[node]]
        for j in range(size):
            candidate = tanh(word_h[j] + read(product, j, unit, scales))
            out[node, j] = candidate + update[node, j] * (before[j] - candidate)


@ELEMENTWISE
def _tanh_of_sums(products, bias, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    for row in range(len(out)):
        for j in range(len(bias)):
            out[row, j] = tanh(products[row, j] + bias[j])


def decoder_step(
    products: Product, step: TreeStep, context: Tensor, table: Tensor, old: Tensor, out: Tensor
) -> None:
    """Write the nodes' states into ``out``, ``(nodes, hidden)``.

    Cho et al. (2014), appendix A.1.1: z', r', h~' and their combination.

    :param products: U'_z h', U'_r h' and U' h' for each family, ``(families, 3 * hidden)``.
    :param context: C_z c, C_r c and C c for each root, ``(roots, 3 * hidden)``.
    :param table: W'_z e, W'_r e and W' e with biases for each word, ``(words, 3 * hidden)``.
    :param old: the states in the level above, ``(rows, hidden)``.
    """
    positions, roots, words, parents = step.families, step.roots, step.words, step.parents
    if is_fused(out):
        inputs = (positions, context, roots, table, words, old, parents, out)
        _decoder_step(*arrays(*products.parts(), *inputs))
        return
    size = out.shape[1]
    total = products.values.index_select(0, positions).add_(context.index_select(0, roots))
    word = table.index_select(0, words)
    gates = total[:, : 2 * size].add_(word[:, : 2 * size]).sigmoid_()
    candidate = word[:, 2 * size :].addcmul_(gates[:, size:], total[:, 2 * size :]).tanh_()
    torch.lerp(candidate, old.index_select(0, parents), gates[:, :size], out=out)


def tanh_of_sums(products: Tensor, bias: Tensor) -> Tensor:
    """Return tanh(products + bias), ``(rows, columns)``.

    On a CPU, the bits of torch's tanh depend on a row's position.
    """
    if not is_fused(products):
        return (products + bias).tanh_()
    out = torch.empty_like(products)
    _tanh_of_sums(*arrays(products, bias, out))
    return out


def maxout(products: Product, step: TreeStep, context: Tensor, table: Tensor, out: Tensor) -> None:
    """Write s, the maxout units, into ``out``, ``(nodes, units)``.

    The inputs of unit j are column j of the first half and column j of the second half.

    :param products: O_h h', ``(nodes, 2 * units)``.
    :param context: O_c c plus the bias for each root, ``(roots, 2 * units)``.
    :param table: O_y y for each word, ``(words, 2 * units)``.
    """
    if is_fused(out):
        _maxout(*arrays(*products.parts(), context, step.roots, table, step.words, out))
        return
    total = products.values + context.index_select(0, step.roots)
    total += table.index_select(0, step.words)
    torch.maximum(*total.chunk(2, dim=1), out=out)


def encoder_gates(
    products: Product,
    table: Tensor,
    words: Tensor,
    old: Tensor,
    parents: Tensor,
    update: Tensor,
    masked: Tensor,
) -> None:
    """Write z and r * h of the nodes into ``update`` and ``masked``, ``(nodes, hidden)`` each.

    :param products: U_z h and U_r h for all states in the level above, ``(rows, 2 * hidden)``.
    :param table: W_z e, W_r e and W e with biases for each word, ``(words, 3 * hidden)``.
    """
    if is_fused(update):
        _encoder_gates(*arrays(*products.parts(), table, words, old, parents, update, masked))
        return
    size = update.shape[1]
    gates = table[:, : 2 * size].index_select(0, words)
    gates.add_(products.values.index_select(0, parents)).sigmoid_()
    update.copy_(gates[:, :size])
    torch.mul(gates[:, size:], old.index_select(0, parents), out=masked)


def encoder_blend(
    products: Product,
    table: Tensor,
    words: Tensor,
    old: Tensor,
    parents: Tensor,
    update: Tensor,
    out: Tensor,
) -> None:
    """Write the nodes' states into ``out``, ``(nodes, hidden)``; ``products`` is U (r * h)."""
    if is_fused(out):
        _encoder_blend(*arrays(*products.parts(), table, words, old, parents, update, out))
        return
    size = update.shape[1]
    candidate = table[:, 2 * size :].index_select(0, words).add_(products.values).tanh_()
    torch.lerp(candidate, old.index_select(0, parents), update, out=out)
