"""exp and its kin in a form that compiles to vector instructions, for loops of numba's.

A loop that is compiled before this file changes keeps what it has: numba looks at the loop's own
file only.
"""

from typing import Any

import numba
import numpy as np
from numba.extending import intrinsic
from numpy.polynomial import Chebyshev, Polynomial

from phrasescore.io.kernel_cache import kept_njit

_ONE = np.float32(1)
_LOG2_E = np.float32(1.4426950408889634)
# ln 2 in two parts, the first exact in few bits: x - k ln 2 then loses nothing (Cody and Waite).
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(0.6931471805599453 - 0.693359375)
# exp() overflows and underflows float32 outside of this range.
_LOWEST, _HIGHEST = np.float32(-86), np.float32(88)
# A compiled loop exists as vector and as scalar instructions, and which of them runs depends on
# where the arrays happen to lie. With these flags of fast-math, and no others, both give the same
# bits. A sum has to be reordered to be vectorised; it is written to one place at its end, and has
# no such choice.
EXACT = {"contract", "nnan", "nsz"}
ELEMENTWISE = kept_njit(fastmath=EXACT)
SUMMING = kept_njit(fastmath=True)


def add_attribute(builder: Any, name: str, value: str) -> None:
    """Give one of LLVM's attributes to the function that is being compiled."""
    attributes = builder.function.attributes
    # llvmlite writes all that is in this set, but lets only names in that it knows.
    if isinstance(attributes, set):
        set.add(attributes, f'"{name}"="{value}"')


def _widen_registers(_typing: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        add_attribute(builder, "prefer-vector-width", "512")
        return context.get_dummy_value()

    return numba.types.none(), generate


# Called in a compiled function, it lets that one's loops have registers of 512 bits, where there
# are any. LLVM takes halves of them, because the first processors that had them lowered their clock
# for it; here the matrix products in between have it lowered anyway.
use_widest_registers: Any = intrinsic(_widen_registers)

# 1.5 * 2^23: of the float32 numbers around it, each is 1 from the next.
_TO_WHOLE = np.float32(3 << 22)
_EXPONENT = np.int32(23)  # the bits of a float32 below its exponent
# e^r for |r| <= ln(2)/2: the polynomial through the Chebyshev nodes, exact to 3e-9 of the value.
_C0, _C1, _C2, _C3, _C4, _C5, _C6 = (
    Chebyshev.interpolate(np.exp, 6, domain=[-np.log(2) / 2, np.log(2) / 2])
    .convert(kind=Polynomial)
    .coef.astype(np.float32)
)


# Not inline="always": the fast-math of the calling loop would hold for it, too, and might take the
# rounding number away again. LLVM inlines it all the same.
@numba.njit(nogil=True, error_model="numpy", fastmath=EXACT)
def exp(x):  # type: ignore[no-untyped-def]
    """Return e^x to 1.2e-7 of its value, by a form that compiles to vector instructions.

    x = k ln 2 + r with |r| <= ln(2)/2; k is added to the exponent bits of e^r. A large number
    leaves no bits for fractions: added to x / ln 2, it rounds it to k, which then stands in the
    lowest bits.
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
    """Return tanh x, exact to 2e-7 (of 1, not of its value)."""
    return _ONE - np.float32(2) / (exp(x + x) + _ONE)
