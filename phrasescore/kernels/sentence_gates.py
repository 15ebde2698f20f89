"""The element-wise parts of LSTM cells, RNNsearch's decoder step and grConv cells.

As in :mod:`phrasescore.kernels.gates`, each node's rows are read once, in place, and a result does
not depend on other rows. In RNNsearch, nodes with the same parent (a *family*) share the values
that depend only on the parent: the parent's products, and the context.
"""

import numba
import numpy as np
import torch
from torch import Tensor

from phrasescore.kernels.gates import TreeStep
from phrasescore.kernels.precision import arrays, is_fused
from phrasescore.kernels.vector_math import ELEMENTWISE, exp, sigmoid, tanh, use_widest_registers

_ZERO = np.float32(0)
# The gates of a grConv cell: for the new activation, the left child and the right child.
_JOIN_GATES = 3


@numba.njit(inline="always")
def _quarters(row):  # type: ignore[no-untyped-def]
    """Return the parts of i, f, o and g; see :func:`phrasescore.kernels.gates.thirds`."""
    size = len(row) // 4
    return row[:size], row[size : 2 * size], row[2 * size : 3 * size], row[3 * size :]


@ELEMENTWISE
def _lstm_cell(  # type: ignore[no-untyped-def]
    recurrent, positions, below, places, bias, old, parents, hidden, cell
):
    use_widest_registers()
    size = hidden.shape[1]
    bias_i, bias_f, bias_o, bias_g = _quarters(bias)
    for node in range(len(hidden)):
        upper, lower, before = recurrent[positions[node]], below[places[node]], old[parents[node]]
        upper_i, upper_f, upper_o, upper_g = _quarters(upper)
        lower_i, lower_f, lower_o, lower_g = _quarters(lower)
        for j in range(size):
            admit = sigmoid(upper_i[j] + lower_i[j] + bias_i[j])
            keep = sigmoid(upper_f[j] + lower_f[j] + bias_f[j])
            show = sigmoid(upper_o[j] + lower_o[j] + bias_o[j])
            candidate = tanh(upper_g[j] + lower_g[j] + bias_g[j])
            inner = keep * before[j] + admit * candidate
            cell[node, j] = inner
            hidden[node, j] = show * tanh(inner)


def lstm_cell(
    recurrent: Tensor,
    step: TreeStep,
    below: Tensor,
    places: Tensor,
    bias: Tensor,
    old: Tensor,
    hidden: Tensor,
    cell: Tensor,
) -> None:
    """Write h and c of the nodes into ``hidden`` and ``cell``, ``(nodes, hidden)`` each.

    Zaremba et al. (2014), equation 3. A row of ``4 * hidden`` has the parts i, f, o and g.

    :param recurrent: the gates' input from this layer's previous h, ``(families, 4 * hidden)``.
    :param below: the gates' input from the layer below; ``places`` contains the row of each node.
    :param old: c of the level above; it must not overlap with ``cell``.
    """
    positions, parents = step.families, step.parents
    if is_fused(hidden):
        _lstm_cell(*arrays(recurrent, positions, below, places, bias, old, parents, hidden, cell))
        return
    size = hidden.shape[1]
    total = recurrent.index_select(0, positions).add_(below.index_select(0, places)).add_(bias)
    admit, keep, show = total[:, : 3 * size].sigmoid_().split(size, dim=1)
    candidate = total[:, 3 * size :].tanh_()
    cell.copy_(old.index_select(0, parents).mul_(keep).addcmul_(admit, candidate))
    hidden.copy_(show * cell.tanh())


@ELEMENTWISE
def _attentive_blend(products, sums, families, table, words, old, update, out):  # type: ignore[no-untyped-def]
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
def _attentive_maxout(products, sums, families, table, words, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    size = out.shape[1]
    others = sums.shape[1] - 2 * size
    for node in range(len(out)):
        product, context = products[node], sums[families[node], others:]
        word = table[words[node]]
        # Separate parts, because an index like j + size may compile to a gather: see gates.thirds.
        other_product, other_context, other_word = product[size:], context[size:], word[size:]
        for j in range(size):
            first = product[j] + context[j] + word[j]
            out[node, j] = max(first, other_product[j] + other_context[j] + other_word[j])


def attentive_blend(
    products: Tensor,
    step: TreeStep,
    sums: Tensor,
    table: Tensor,
    old: Tensor,
    update: Tensor,
    out: Tensor,
) -> None:
    """Write the nodes' states into ``out``, ``(nodes, hidden)``.

    :param products: U (r * s), ``(nodes, hidden)``.
    :param sums: C_z c, C_r c, C c and C_o c, ``(families, 3 * hidden + 2 * maxout)``.
    :param table: W_z e, W_r e and W e with biases for each word, ``(words, 3 * hidden)``.
    :param old: s for each family, ``(families, hidden)``.
    """
    families, words = step.families, step.words
    if is_fused(update):
        _attentive_blend(*arrays(products, sums, families, table, words, old, update, out))
        return
    size = update.shape[1]
    candidate = sums[:, 2 * size : 3 * size].index_select(0, families)
    candidate.add_(products).add_(table[:, 2 * size :].index_select(0, words)).tanh_()
    torch.lerp(old.index_select(0, families), candidate, update, out=out)


def attentive_maxout(
    products: Tensor, step: TreeStep, sums: Tensor, table: Tensor, out: Tensor
) -> None:
    """Write t, the maxout units, into ``out``, ``(nodes, units)``.

    The inputs of unit j are column j of the first half and column j of the second half.

    :param products: U_o s, ``(nodes, 2 * units)``.
    :param table: V_o E y with the bias for each word, ``(words, 2 * units)``.
    """
    if is_fused(out):
        _attentive_maxout(*arrays(products, sums, step.families, table, step.words, out))
        return
    total = sums[:, -2 * out.shape[1] :].index_select(0, step.families)
    total.add_(products).add_(table.index_select(0, step.words))
    torch.maximum(*total.chunk(2, dim=1), out=out)


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
        # Separate parts, because an index like j + size may compile to a gather: see gates.thirds.
        from_left, from_right = products[a], products[b, size:]
        before_left, before_right, after = old[a], old[b], out[cell]
        for j in range(size):
            activation = max(from_left[j] + from_right[j] + bias[j], _ZERO)
            after[j] = new * activation + first * before_left[j] + second * before_right[j]


def join_cells(
    products: Tensor,
    bias: Tensor,
    logits: Tensor,
    gate_bias: Tensor,
    old: Tensor,
    left: Tensor,
    right: Tensor,
) -> Tensor:
    """Return the cells in a level of a recursive convolution, ``(cells, size)``.

    Cho et al. (2014b), section 2.2; see :mod:`phrasescore.models.grconv`.

    :param products: W_l h and W_r h for the cells below, ``(below, 2 * size)``.
    :param logits: G_l h and G_r h for the cells below, ``(below, 6)``.
    :param old: the cells below, ``(below, size)``; ``left`` and ``right`` are the rows of the
        cells' children.
    """
    size = old.shape[1]
    if is_fused(old):
        out = old.new_empty(len(left), size)
        _join_cells(*arrays(products, bias, logits, gate_bias, old, left, right, out))
        return out
    omega = logits[:, :_JOIN_GATES].index_select(0, left) + logits[:, _JOIN_GATES:].index_select(
        0, right
    )
    omega = torch.softmax(omega.add_(gate_bias), dim=1)
    new = products[:, :size].index_select(0, left)
    new.add_(products[:, size:].index_select(0, right)).add_(bias).relu_().mul_(omega[:, :1])
    new.addcmul_(old.index_select(0, left), omega[:, 1:2])
    return new.addcmul_(old.index_select(0, right), omega[:, 2:])
