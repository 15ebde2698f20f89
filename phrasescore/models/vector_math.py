"""exp and its kin in a form that compiles to vector instructions, for loops of numba's.

A loop that is compiled before this file changes keeps what it has: numba looks at the loop's own
file only.
"""

import numba
import numpy as np

_ONE, _HALF = np.float32(1), np.float32(0.5)
_LOG2_E = np.float32(1.4426950408889634)
# ln 2 in two parts, the first exact in few bits: x - k ln 2 then loses nothing (Cody and Waite).
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(0.6931471805599453 - 0.693359375)
# exp() overflows and underflows float32 outside of this range.
_LOWEST, _HIGHEST = np.float32(-87), np.float32(88)
# A compiled loop exists as vector and as scalar instructions, and which of them runs depends on
# where the arrays happen to lie. With these flags of fast-math, and no others, both give the same
# bits. A sum has to be reordered to be vectorised; it is written to one place at its end, and has
# no such choice.
EXACT = {"contract", "nnan", "nsz"}
ELEMENTWISE = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=EXACT)
SUMMING = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=True)

_C2, _C3, _C4, _C5, _C6, _C7 = (np.float32(1 / n) for n in (2, 6, 24, 120, 720, 5040))


@numba.njit(inline="always", fastmath=EXACT)
def exp(x):  # type: ignore[no-untyped-def]
    """Return e^x to 2e-7 of its value, by a form that compiles to vector instructions.

    x = k ln 2 + r with |r| <= ln(2)/2; the series of e^r ends at r^7/7!; 2^k is set as the exponent
    bits of a float.
    """
    x = min(max(x, _LOWEST), _HIGHEST)
    k = np.floor(x * _LOG2_E + _HALF)
    r = x - k * _LN2_HIGH - k * _LN2_LOW
    series = _C7 * r + _C6
    series = series * r + _C5
    series = series * r + _C4
    series = series * r + _C3
    series = series * r + _C2
    series = series * r + _ONE
    series = series * r + _ONE
    power = np.int32((np.int32(k) + np.int32(127)) << np.int32(23))
    return series * power.view(np.float32)


@numba.njit(inline="always", fastmath=EXACT)
def sigmoid(x):  # type: ignore[no-untyped-def]
    """Return 1 / (1 + e^-x)."""
    return _ONE / (_ONE + exp(-x))


@numba.njit(inline="always", fastmath=EXACT)
def tanh(x):  # type: ignore[no-untyped-def]
    """Return tanh x, exact to 1e-7 (of 1, not of its value)."""
    return _ONE - np.float32(2) / (exp(x + x) + _ONE)
