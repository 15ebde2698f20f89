"""exp, sigmoid and tanh for numba's loops, in a form that compiles to vector instructions."""

from typing import Any

import numba
import numpy as np
from numba.extending import intrinsic
from numpy.polynomial import Chebyshev, Polynomial

from phrasescore.io.kernel_cache import kept_njit

_ONE = np.float32(1)
_LOG2_E = np.float32(1.4426950408889634)
# ln 2 in two parts; the first has few bits, so that x - k ln 2 is exact (Cody and Waite).
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(0.6931471805599453 - 0.693359375)
# exp() overflows or underflows float32 outside this range.
_LOWEST, _HIGHEST = np.float32(-86), np.float32(88)
# A compiled loop has vector and scalar code, and the alignment of the arrays decides which one runs
# for an element. With these flags of fast-math, and no others, both give the same bits. A sum must
# be reordered to be vectorised; its single result does not depend on the alignment.
EXACT = {"contract", "nnan", "nsz"}
ELEMENTWISE = kept_njit(fastmath=EXACT)
SUMMING = kept_njit(fastmath=True)


def _widen_registers(_typing: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        # LLVM's attributes of the function that is being compiled. llvmlite writes everything in
        # this set, but its own add() accepts only known names.
        attributes = builder.function.attributes
        if isinstance(attributes, set):
            set.add(attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return numba.types.none(), generate


# Called in a compiled function, it lets the function's loops use registers of 512 bits, if there
# are any. LLVM uses half of them by default, because the first processors with such registers
# lowered their clock for them; here the matrix products lower it anyway.
use_widest_registers: Any = intrinsic(_widen_registers)

# 1.5 * 2^23: consecutive float32 numbers around it differ by 1.
_TO_WHOLE = np.float32(3 << 22)
_EXPONENT = np.int32(23)  # the bits of a float32 below its exponent
# e^r for |r| <= ln(2)/2: the polynomial through the Chebyshev nodes, with a relative error of 3e-9.
_C0, _C1, _C2, _C3, _C4, _C5, _C6 = (
    Chebyshev.interpolate(np.exp, 6, domain=[-np.log(2) / 2, np.log(2) / 2])
    .convert(kind=Polynomial)
    .coef.astype(np.float32)
)


# Not inline="always": the calling loop's fast-math would apply here and might remove the rounding
# number. LLVM inlines it anyway.
@numba.njit(nogil=True, error_model="numpy", fastmath=EXACT)
def exp(x):  # type: ignore[no-untyped-def]
    """Return e^x with a relative error of 1.2e-7.

    x = k ln 2 + r with |r| <= ln(2)/2, and k is added to the exponent bits of e^r. Adding a large
    number, which leaves no bits for fractions, rounds x / ln 2 to k; the sum has k in its lowest
    bits.
    """
    x = min(max(x, _LOWEST), _HIGHEST)
    rounded = x * _LOG2_E + _TO_WHOLE
    k = rounded - _TO_WHOLE
    r = x - k * _LN2_HIGH - k * _LN2_LOW
    series = _C6 * r + _C5
    series = series * r + _C4
    series = series * r + _C3
    series = series * r + _C2
    series = series * r + _C1
    series = series * r + _C0
    power = np.float32(series).view(np.int32) + (np.float32(rounded).view(np.int32) << _EXPONENT)
    return np.int32(power).view(np.float32)


@numba.njit(inline="always", fastmath=EXACT)
def sigmoid(x):  # type: ignore[no-untyped-def]
    """Return 1 / (1 + e^-x)."""
    return _ONE / (_ONE + exp(-x))


@numba.njit(inline="always", fastmath=EXACT)
def tanh(x):  # type: ignore[no-untyped-def]
    """Return tanh x with an absolute error of 2e-7."""
    return _ONE - np.float32(2) / (exp(x + x) + _ONE)


@SUMMING
def dot(left, right):  # type: ignore[no-untyped-def]
    """Return the dot product of two vectors of float32."""
    use_widest_registers()
    total = np.float32(0)
    for k in range(len(left)):
        total += left[k] * right[k]
    return total
