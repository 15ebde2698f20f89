"""The element-wise parts of a decoder step, each in one pass over memory.

Between two matrix products a step reads rows that belong to a node's parent, its root and its last
word, adds them up and squashes the sums. As separate tensor operations that costs as much time as
the products themselves; here each node's rows are read once, where they lie. On a GPU the same
functions are plain torch.
"""

import numba
import numpy as np
import torch
from numba.extending import overload
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.models.vector_math import ELEMENTWISE, EXACT, SUMMING, exp, sigmoid, tanh
from phrasescore.scoring.precision import Product

# Devices whose memory numba can reach.
FUSED_DEVICES: tuple[str, ...] = ("cpu",)

# 1.5 * 2^23: of the float32 numbers around it, each is 1 from the next.
_TO_WHOLE = np.float32(3 << 22)
_EXPONENT = np.int32(23)  # the bits of a float32 below its exponent
# 2^f for |f| <= 1/2: the polynomial through the Chebyshev nodes, exact to 2e-4 of the value.
_D0, _D1, _D2, _D3 = (
    Chebyshev.interpolate(np.exp2, 3, domain=[-0.5, 0.5])
    .convert(kind=Polynomial)
    .coef.astype(np.float32)
)


def _widen(x):  # type: ignore[no-untyped-def]
    """Return a float32 for a float32 or for the bits of a bfloat16, which are its upper half."""
    raise NotImplementedError("for compiled code only")


@overload(_widen, inline="always")
def _compile_widen(x):  # type: ignore[no-untyped-def]
    if isinstance(x, numba.types.Integer):
        return lambda x: np.uint32(np.uint32(x) << np.uint32(16)).view(np.float32)
    return lambda x: x


def _unit(products, units, row):  # type: ignore[no-untyped-def]
    """Return what 1 is worth in a row of products; see :func:`_read`."""
    raise NotImplementedError("for compiled code only")


# numba wants all of an overload's implementations to name the same arguments.
@overload(_unit, inline="always")
def _compile_unit(products, units, row):  # type: ignore[no-untyped-def]  # noqa: ARG001
    if products.dtype == numba.types.int32:
        return lambda products, units, row: units[row]  # noqa: ARG005
    return lambda products, units, row: np.float32(1)  # noqa: ARG005


def _read(product, j, unit, scales):  # type: ignore[no-untyped-def]
    """Return a number of a product: of 8-bit integers, or as :func:`_widen` reads it."""
    raise NotImplementedError("for compiled code only")


@overload(_read, inline="always")
def _compile_read(product, j, unit, scales):  # type: ignore[no-untyped-def]  # noqa: ARG001
    if product.dtype == numba.types.int32:
        return lambda product, j, unit, scales: np.float32(product[j]) * (unit * scales[j])
    return lambda product, j, unit, scales: _widen(product[j])  # noqa: ARG005


@numba.njit(inline="always")
def thirds(row):  # type: ignore[no-untyped-def]
    """Return the three parts of a row: of z, of r and of the candidate.

    An index like ``j + size`` compiles to a gather, because it might be negative and count from
    the end; parts of their own are read eight or sixteen numbers at a time.
    """
    size = len(row) // 3
    return row[:size], row[size : 2 * size], row[2 * size :]


@ELEMENTWISE
def _decoder_step(  # type: ignore[no-untyped-def]
    products, units, scales, positions, context, roots, table, words, old, parents, out
):
    size = old.shape[1]
    scales_z, scales_r, scales_h = thirds(scales)
    for node in range(len(out)):
        product, outer = products[positions[node]], context[roots[node]]
        unit = _unit(products, units, positions[node])
        word, before, after = table[words[node]], old[parents[node]], out[node]
        product_z, product_r, product_h = thirds(product)
        outer_z, outer_r, outer_h = thirds(outer)
        word_z, word_r, word_h = thirds(word)
        for j in range(size):
            z = _read(product_z, j, unit, scales_z) + _widen(outer_z[j]) + _widen(word_z[j])
            r = _read(product_r, j, unit, scales_r) + _widen(outer_r[j]) + _widen(word_r[j])
            update, reset = sigmoid(z), sigmoid(r)
            inner = _read(product_h, j, unit, scales_h) + _widen(outer_h[j])
            candidate = tanh(_widen(word_h[j]) + reset * inner)
            after[j] = candidate + update * (before[j] - candidate)


@ELEMENTWISE
def _maxout(products, units, scales, context, roots, table, words, out):  # type: ignore[no-untyped-def]
    size = out.shape[1]
    other_scales = scales[size:]
    for node in range(len(out)):
        product, outer = products[node], context[roots[node]]
        unit = _unit(products, units, node)
        word, after = table[words[node]], out[node]
        other_product, other_outer, other_word = product[size:], outer[size:], word[size:]
        for j in range(size):
            first = _read(product, j, unit, scales) + _widen(outer[j]) + word[j]
            second = _read(other_product, j, unit, other_scales)
            second += _widen(other_outer[j]) + other_word[j]
            after[j] = max(first, second)


@ELEMENTWISE
def _encoder_gates(  # type: ignore[no-untyped-def]
    products, units, scales, table, words, old, parents, update, masked
):
    size = update.shape[1]
    scales_r = scales[size:]
    for node in range(len(update)):
        product, word = products[parents[node]], table[words[node]]
        unit = _unit(products, units, parents[node])
        before = old[parents[node]]
        product_r, word_r = product[size:], word[size : 2 * size]
        for j in range(size):
            update[node, j] = sigmoid(_read(product, j, unit, scales) + word[j])
            reset = sigmoid(_read(product_r, j, unit, scales_r) + word_r[j])
            masked[node, j] = before[j] * reset


@ELEMENTWISE
def _encoder_blend(  # type: ignore[no-untyped-def]
    products, units, scales, table, words, old, parents, update, out
):
    size = update.shape[1]
    for node in range(len(update)):
        product, unit = products[node], _unit(products, units, node)
        word_h, before = table[words[node], 2 * size :], old[parents[node]]
        for j in range(size):
            candidate = tanh(word_h[j] + _read(product, j, unit, scales))
            out[node, j] = candidate + update[node, j] * (before[j] - candidate)


# Not inline="always": what inlines it would lend it its own fast-math, which takes the rounding
# number away again. LLVM inlines it all the same.
@numba.njit(nogil=True, error_model="numpy", fastmath=EXACT)
def _power(x):  # type: ignore[no-untyped-def]
    """Return 2^x to 2e-4 of its value: beside the 8 bits of what x is made of, that is nothing.

    2^x = 2^k 2^f with |f| <= 1/2; k is added to the exponent bits of 2^f. A large number leaves no
    bits for fractions: added to x, it rounds it to k, which then stands in the lowest bits.
    """
    x = min(max(x, np.float32(-126)), np.float32(126))
    rounded = x + _TO_WHOLE
    f = x - (rounded - _TO_WHOLE)
    series = _D3 * f + _D2
    series = series * f + _D1
    series = series * f + _D0
    power = np.float32(series).view(np.int32) + (np.float32(rounded).view(np.int32) << _EXPONENT)
    return np.int32(power).view(np.float32)


@SUMMING
def _add_sums_of_powers(exponents, out):  # type: ignore[no-untyped-def]
    for row in range(len(exponents)):
        total = np.float32(0)
        bits = exponents[row]
        for column in range(len(bits)):
            total += _power(_widen(bits[column]))
        out[row] += total


@SUMMING
def _add_sums_of_scaled_powers(values, units, scales, bias, out):  # type: ignore[no-untyped-def]
    for row in range(len(out)):
        total = np.float32(0)
        value, unit = values[row], units[row]
        for column in range(len(scales)):
            total += _power(np.float32(value[column]) * (unit * scales[column]) + bias[column])
        out[row] += total


@SUMMING
def _add_sums_of_exp(logits, bias, out):  # type: ignore[no-untyped-def]
    for row in range(len(out)):
        total = np.float32(0)
        values = logits[row]
        for column in range(len(values)):
            total += exp(values[column] + bias[column])
        out[row] += total


@SUMMING
def _chosen_logits(rows, places, weight, bias, words, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        row, column = rows[places[i]], weight[words[i]]
        total = np.float32(0)
        for j in range(len(row)):
            total += row[j] * column[j]
        out[i] = total + bias[words[i]]


def _arrays(*tensors: Tensor) -> list[NDArray[np.generic]]:
    return [
        (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
        for tensor in tensors
    ]


def _parts(product: Product) -> tuple[Tensor, Tensor, Tensor]:
    """Return a product's numbers, and what 1 is worth in its rows and columns, if integers."""
    nothing = product.values.new_empty(0, dtype=torch.float32)
    rows = nothing if product.rows is None else product.rows
    return product.values, rows, nothing if product.columns is None else product.columns


def add_sums_of_powers(exponents: Tensor, out: Tensor) -> None:
    """Add the sum of 2^x over each row of bfloat16 ``exponents`` to ``out``, ``(rows,)``."""
    _add_sums_of_powers(*_arrays(exponents, out))


def add_sums_of_scaled_powers(exponents: Product, bias: Tensor, out: Tensor) -> None:
    """Add the sum of 2^(x + bias) over each row of a product of integers to ``out``."""
    _add_sums_of_scaled_powers(*_arrays(*_parts(exponents), bias, out))


def add_sums_of_exp(logits: Tensor, bias: Tensor, out: Tensor) -> None:
    """Add the sum of e^(logit + bias) over each row to ``out``, ``(rows,)`` float64."""
    if out.device.type in FUSED_DEVICES:
        _add_sums_of_exp(*_arrays(logits, bias, out))
        return
    out += (logits[: len(out)] + bias).exp_().sum(1)


def chosen_logits(
    rows: Tensor, places: Tensor, weight: Tensor, bias: Tensor, words: Tensor
) -> Tensor:
    """Return the logit of ``words[i]`` at row ``places[i]``, ``(len(words),)`` float32.

    :param weight: ``(all words, width)``; ``rows`` are ``(rows, width)``.
    """
    if rows.device.type not in FUSED_DEVICES:
        chosen = rows.index_select(0, places) * weight.index_select(0, words)
        return chosen.sum(1) + bias.index_select(0, words)
    out = rows.new_empty(len(words))
    _chosen_logits(*_arrays(rows, places, weight, bias, words, out))
    return out


def decoder_step(
    products: Product,
    positions: Tensor,
    context: Tensor,
    roots: Tensor,
    table: Tensor,
    words: Tensor,
    old: Tensor,
    parents: Tensor,
    out: Tensor,
) -> None:
    """Write the nodes' states into ``out``, ``(nodes, hidden)``.

    Cho et al. (2014), appendix A.1.1: z', r', h~' and their blend.

    :param products: U'_z h', U'_r h' and U' h' of the parents that go on, ``(rows, 3 * hidden)``.
    :param positions: ``(nodes,)``: the row of ``products`` of each node's parent.
    :param context: C_z c, C_r c and C c of each root, ``(roots, 3 * hidden)``.
    :param roots: ``(nodes,)``: each node's root.
    :param table: W'_z e, W'_r e and W' e of each word with the biases, ``(words, 3 * hidden)``.
    :param words: ``(nodes,)``: each node's last word.
    :param old: states of the level above, ``(rows, hidden)``.
    :param parents: ``(nodes,)``: the row of ``old`` of each node's parent.
    """
    if out.device.type in FUSED_DEVICES:
        numbers = (positions, context, roots, table, words, old, parents, out)
        _decoder_step(*_arrays(*_parts(products), *numbers))
        return
    size = out.shape[1]
    total = products.values.index_select(0, positions).add_(context.index_select(0, roots))
    word = table.index_select(0, words)
    gates = total[:, : 2 * size].add_(word[:, : 2 * size]).sigmoid_()
    candidate = word[:, 2 * size :].addcmul_(gates[:, size:], total[:, 2 * size :]).tanh_()
    torch.lerp(candidate, old.index_select(0, parents), gates[:, :size], out=out)


def maxout(
    products: Product, context: Tensor, roots: Tensor, table: Tensor, words: Tensor, out: Tensor
) -> None:
    """Write s, the maxout units, into ``out``, ``(nodes, units)``.

    Column j of the first half and column j of the second are the two inputs of unit j.

    :param products: O_h h', ``(nodes, 2 * units)``.
    :param context: O_c c with the bias of each root, ``(roots, 2 * units)``.
    :param table: O_y y of each word, ``(words, 2 * units)``.
    """
    if out.device.type in FUSED_DEVICES:
        _maxout(*_arrays(*_parts(products), context, roots, table, words, out))
        return
    total = products.values + context.index_select(0, roots)
    total += table.index_select(0, words)
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

    :param products: U_z h and U_r h of all states of the level above, ``(rows, 2 * hidden)``.
    :param table: W_z e, W_r e and W e of each word with the biases, ``(words, 3 * hidden)``.
    """
    if update.device.type in FUSED_DEVICES:
        numbers = (table, words, old, parents, update, masked)
        _encoder_gates(*_arrays(*_parts(products), *numbers))
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
    if out.device.type in FUSED_DEVICES:
        numbers = (table, words, old, parents, update, out)
        _encoder_blend(*_arrays(*_parts(products), *numbers))
        return
    size = update.shape[1]
    candidate = table[:, 2 * size :].index_select(0, words).add_(products.values).tanh_()
    torch.lerp(candidate, old.index_select(0, parents), update, out=out)
