"""Sums over a shortlist for a softmax, in one pass over the logits."""

import numba
import numpy as np
import torch
from numpy.polynomial import Chebyshev, Polynomial
from torch import Tensor

from phrasescore.kernels.precision import Product, arrays, is_fused, widen
from phrasescore.kernels.vector_math import SUMMING, exp, use_widest_registers

# The bits of the float32 number 2^x are (x + 127) * 2^23. Powers are limited to exponents from -126
# to 126.
_STEP, _OFFSET = np.float32(1 << 23), np.float32(127 << 23)
_LOWEST, _HIGHEST = np.float32(1 << 23), np.float32(253 << 23)
_EXPONENT, _MANTISSA, _ONE = np.int32(0x7F800000), np.int32(0x007FFFFF), np.int32(0x3F800000)
# 2^(m - 1) for 1 <= m <= 2: the polynomial through the Chebyshev nodes, exact to 2e-4 of the value.
_D0, _D1, _D2, _D3 = (
    Chebyshev.interpolate(lambda m: np.exp2(m - 1), 3, domain=[1, 2])
    .convert(kind=Polynomial)
    .coef.astype(np.float32)
)


@numba.njit(inline="always")
def _power(bits):  # type: ignore[no-untyped-def]
    """Return 2^x with a relative error of 2e-4, given (x + 127) * 2^23."""
    # This error is far below the error of x, whose factors were rounded. The upper bits of the
    # given number are the exponent of 2^x, and the lower bits the mantissa m = 1 + f of a number
    # from 1 to 2, where f is the fraction of x.
    whole = np.int32(min(max(bits, _LOWEST), _HIGHEST))
    power = np.int32(whole & _EXPONENT).view(np.float32)
    m = np.int32((whole & _MANTISSA) | _ONE).view(np.float32)
    return power * (((_D3 * m + _D2) * m + _D1) * m + _D0)


@SUMMING
def _add_sums_of_powers(exponents, bias, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    offsets = bias * _STEP + _OFFSET
    for row in range(len(exponents)):
        total = np.float32(0)
        bits = exponents[row]
        for column in range(len(bits)):
            total += _power(widen(bits[column]) * _STEP + offsets[column])
        out[row] += total


@SUMMING
def _add_sums_of_scaled_powers(values, units, scales, bias, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    offsets = bias * _STEP + _OFFSET
    for row in range(len(out)):
        total = np.float32(0)
        value, unit = values[row], units[row] * _STEP
        for column in range(len(scales)):
            total += _power(np.float32(value[column]) * (unit * scales[column]) + offsets[column])
        out[row] += total


@SUMMING
def _add_sums_of_exp(logits, bias, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    for row in range(len(out)):
        total = np.float32(0)
        values = logits[row]
        for column in range(len(values)):
            total += exp(values[column] + bias[column])
        out[row] += total


@SUMMING
def _chosen_products(rows, places, weight, words, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    for i in range(len(out)):
        row, column = rows[places[i]], weight[words[i]]
        total = np.float32(0)
        for j in range(len(row)):
            total += row[j] * column[j]
        out[i] = total


def add_sums(logits: Product, bias: Tensor, out: Tensor) -> None:
    """Add the sum of e^(logit + bias) over each row to ``out``, ``(rows,)``.

    Powers of 2 are summed in place of powers of e in bfloat16 and for products of integers.
    """
    if logits.columns is not None:
        _add_sums_of_scaled_powers(*arrays(*logits.parts(), bias, out))
    elif logits.values.dtype == torch.bfloat16:
        _add_sums_of_powers(*arrays(logits.values, bias, out))
    elif is_fused(out):
        _add_sums_of_exp(*arrays(logits.values, bias, out))
    else:
        out += (logits.values + bias).exp_().sum(1)


def chosen_products(rows: Tensor, places: Tensor, weight: Tensor, words: Tensor) -> Tensor:
    """Return the product of row ``places[i]`` and the weight of ``words[i]``, ``(len(words),)``.

    :param rows: ``(rows, width)`` float32; ``weight``: ``(all words, width)``.
    """
    if not is_fused(rows):
        return (rows.index_select(0, places) * weight.index_select(0, words)).sum(1)
    out = rows.new_empty(len(words))
    _chosen_products(*arrays(rows, places, weight, words, out))
    return out
