"""Matrix products with 8-bit integers: round the factors, and scale the products.

A row of numbers, or a column of a matrix, is quantised to integers from -127 to 127 times a scale,
which is its largest absolute value divided by 127. Sums of integers are exact in any order, so a
product does not depend on other rows, the number of threads or the processor. The only error comes
from rounding the factors: up to 1/254 of the largest value in a row.
"""

import functools

import numba
import numpy as np
import torch
from torch import Tensor

from phrasescore.errors import PhrasescoreError
from phrasescore.kernels.vector_math import ELEMENTWISE, use_widest_registers

LARGEST = 127
_CHECKED_ROWS = 16
_SMALLEST = np.float32(1e-30)
_HALF = np.float32(0.5)
_INFINITE = np.int32(0x7F800000)
_MAGNITUDE = np.int32(0x7FFFFFFF)  # all bits of a float32 except its sign


@numba.njit(nogil=True, error_model="numpy")
def _largest(row):  # type: ignore[no-untyped-def]
    """Return the bits of a row's largest absolute value; a NaN is larger than any number."""
    # Without the sign bit, floats sort like their bit patterns, which vector instructions compare.
    bits = row.view(np.int32)
    largest = np.int32(0)
    for j in range(len(bits)):
        magnitude = np.int32(bits[j] & _MAGNITUDE)
        if magnitude > largest:
            largest = magnitude
    return np.int32(largest)


@ELEMENTWISE
def _round_rows(rows, values, scales):  # type: ignore[no-untyped-def]
    use_widest_registers()
    for i in range(len(rows)):
        row, value = rows[i], values[i]
        bits = _largest(row)
        if bits >= _INFINITE:
            # All products of this row will be NaN, which callers check.
            value[:] = 0
            scales[i] = np.nan
            continue
        largest = np.int32(bits).view(np.float32)
        # 127 divided by a much smaller number would be infinite.
        inverse = np.float32(LARGEST) / largest if largest > _SMALLEST else np.float32(0)
        scales[i] = largest / np.float32(LARGEST) if largest > _SMALLEST else np.float32(0)
        for j in range(len(row)):
            value[j] = np.int8(np.int32(np.floor(row[j] * inverse + _HALF)))


@ELEMENTWISE
def _scale(values, rows, columns, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    for i in range(len(out)):
        value, scaled, scale = values[i], out[i], rows[i]
        for j in range(len(columns)):
            scaled[j] = np.float32(value[j]) * (scale * columns[j])


def round_rows(rows: Tensor, values: Tensor, scales: Tensor) -> None:
    """Quantise rows to integers with a scale each; a row is about ``values * scale``.

    :param rows: ``(rows, columns)`` float32. A row that is not finite gets the scale NaN.
    :param values: ``(rows, columns)`` int8.
    :param scales: ``(rows,)`` float32; 0 for a row whose absolute values are at most 1e-30.
    """
    _round_rows(rows.numpy(), values.numpy(), scales.numpy())


def scale(values: Tensor, rows: Tensor, columns: Tensor, out: Tensor) -> Tensor:
    """Write integer products as float32 values into ``out``, and return ``out``.

    :param values: ``(rows, columns)`` int32.
    :param rows: ``(rows,)``: the scale of each row; likewise ``columns``, ``(columns,)``.
    """
    _scale(values.numpy(), rows.numpy(), columns.numpy(), out.numpy())
    return out


def multiply(rows: Tensor, matrix: Tensor, out: Tensor) -> Tensor:
    """Write the product of int8 matrices into ``out``, int32, and return ``out``."""
    if rows.shape[1] == 1:
        # torch 2.13 confuses the strides of a one-row matrix that is stored by columns.
        return torch.mul(rows.int(), matrix.int(), out=out)
    return torch._int_mm(rows, matrix, out=out) if len(rows) else out


@functools.cache
def check_exact(size: int, columns: int) -> None:
    """Check that products of extreme integers with a ``(size, columns)`` matrix are exact.

    Some processors add up products of bytes in 16 bits with saturation, and the library has
    different kernels for different sizes, so each size is checked once.
    """
    generator = torch.Generator().manual_seed(1)
    shape = (_CHECKED_ROWS + columns, size)
    bits = torch.randint(0, 2, shape, generator=generator, dtype=torch.int8)
    left, right = ((2 * bits - 1) * LARGEST).split([_CHECKED_ROWS, columns])
    left[:8], right[:8] = LARGEST, LARGEST
    expected = (left.double() @ right.double().t()).int()
    result = torch.empty_like(expected)
    multiply(left, right.t(), result)
    if not torch.equal(result, expected):
        raise PhrasescoreError(
            f"this processor's products of 8-bit integers are not exact ({size} x {columns})"
        )
