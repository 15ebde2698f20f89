"""Sums over a shortlist, as a softmax needs them, in one pass over the logits."""

import numba
import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from torch import Tensor

from phrasescore.models.vector_math import EXACT, SUMMING, exp
from phrasescore.scoring import gates
from phrasescore.scoring.precision import Product
from phrasescore.scoring.product_reading import arrays, parts, widen

# 1.5 * 2^23: of the float32 numbers around it, each is 1 from the next.
_TO_WHOLE = np.float32(3 << 22)
_EXPONENT = np.int32(23)  # the bits of a float32 below its exponent
# 2^f for |f| <= 1/2: the polynomial through the Chebyshev nodes, exact to 2e-4 of the value.
_D0, _D1, _D2, _D3 = (
    Chebyshev.interpolate(np.exp2, 3, domain=[-0.5, 0.5])
    .convert(kind=Polynomial)
    .coef.astype(np.float32)
)


# Not inline="always": what inlines it would lend it its own fast-math, which takes the rounding
# number away again. LLVM inlines it all the same.
@numba.njit(nogil=True, error_model="numpy", fastmath=EXACT)
def _power(x):  # type: ignore[no-untyped-def]
    """Return 2^x to 2e-4 of its value: beside what rounding its factors does to x, that is nothing.

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
            total += _power(widen(bits[column]))
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
def _chosen_products(rows, places, weight, words, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        row, column = rows[places[i]], weight[words[i]]
        total = np.float32(0)
        for j in range(len(row)):
            total += row[j] * column[j]
        out[i] = total


def add_sums_of_powers(exponents: Tensor, out: Tensor) -> None:
    """Add the sum of 2^x over each row of bfloat16 ``exponents`` to ``out``, ``(rows,)``."""
    _add_sums_of_powers(*arrays(exponents, out))


def add_sums_of_scaled_powers(exponents: Product, bias: Tensor, out: Tensor) -> None:
    """Add the sum of 2^(x + bias) over each row of a product of integers to ``out``."""
    _add_sums_of_scaled_powers(*arrays(*parts(exponents), bias, out))


def add_sums_of_exp(logits: Tensor, bias: Tensor, out: Tensor) -> None:
    """Add the sum of e^(logit + bias) over each row to ``out``, ``(rows,)`` float64."""
    if out.device.type in gates.FUSED_DEVICES:
        _add_sums_of_exp(*arrays(logits, bias, out))
        return
    out += (logits[: len(out)] + bias).exp_().sum(1)


def chosen_products(rows: Tensor, places: Tensor, weight: Tensor, words: Tensor) -> Tensor:
    """Return the product of row ``places[i]`` and the weight of ``words[i]``, ``(len(words),)``.

    :param rows: ``(rows, width)`` float32; ``weight``: ``(all words, width)``.
    """
    if rows.device.type not in gates.FUSED_DEVICES:
        return (rows.index_select(0, places) * weight.index_select(0, words)).sum(1)
    out = rows.new_empty(len(words))
    _chosen_products(*arrays(rows, places, weight, words, out))
    return out
