"""Write numbers as C's ``%g`` does, to the last digit, in compiled code.

Six digits of a number are the integer next to its product with a power of ten. The product is
computed as a sum of two float64 without error (Dekker, 1971), so that ties are recognised; as in
glibc, a tie goes to the even digit.
"""

import math

import numpy as np

from phrasescore.io.kernel_cache import kept_njit

_KERNEL = kept_njit()

_POWERS = np.array([float(f"1e{power}") for power in range(23)])  # exact in float64
_SPLITTER = 134217729.0  # 2^27 + 1
_ZERO, _POINT, _MINUS, _PLUS, _E = 48, 46, 45, 43, 101
# Bytes of the longest text of a number, such as 1.23457e-05.
MAX_NUMERAL = 12


@_KERNEL
def _multiply(high, low, factor):  # type: ignore[no-untyped-def]
    """Return ``(high + low) * factor`` as a sum of two float64; exact if ``low`` is 0."""
    product = high * factor
    big = _SPLITTER * high
    upper = big - (big - high)
    lower = high - upper
    big = _SPLITTER * factor
    factor_upper = big - (big - factor)
    factor_lower = factor - factor_upper
    error = upper * factor_upper - product
    error += upper * factor_lower
    error += lower * factor_upper
    error += lower * factor_lower
    error += low * factor
    total = product + error
    return total, error - (total - product)


@_KERNEL
def _scale(value, power):  # type: ignore[no-untyped-def]
    high, low = value, 0.0
    while power > 0:
        step = min(power, 22)
        high, low = _multiply(high, low, _POWERS[step])
        power -= step
    return high, low


@_KERNEL
def _put_digits(out, at, digits, exponent):  # type: ignore[no-untyped-def]
    """Write a number of six digits; ``exponent`` is the one of its first digit."""
    length = 6
    while length > 1 and digits % 10 == 0:
        digits //= 10
        length -= 1
    is_scientific = not -4 <= exponent < 6
    if exponent < 0 and not is_scientific:
        out[at], out[at + 1] = _ZERO, _POINT
        at += 2
        for _ in range(-exponent - 1):
            out[at] = _ZERO
            at += 1
    first_digits = length if exponent < 0 and not is_scientific else 1
    if exponent >= 0 and not is_scientific:
        first_digits = exponent + 1
        while length < first_digits:
            digits *= 10
            length += 1
    divisor = 1
    for _ in range(length - 1):
        divisor *= 10
    for index in range(length):
        if index == first_digits:
            out[at] = _POINT
            at += 1
        out[at] = _ZERO + digits // divisor % 10
        divisor //= 10
        at += 1
    if is_scientific:
        out[at], out[at + 1] = _E, _MINUS if exponent < 0 else _PLUS
        out[at + 2], out[at + 3] = _ZERO + abs(exponent) // 10, _ZERO + abs(exponent) % 10
        at += 4
    return at


@_KERNEL
def put_number(out, at, value):  # type: ignore[no-untyped-def]
    """Write a number from 0 to 999,999 at position ``at``; return the position after it."""
    if value == 0.0:
        out[at] = _ZERO
        return at + 1
    exponent = math.floor(math.log10(value))
    high, low = _scale(value, 5 - exponent)
    # The logarithm may be off by one near a power of ten.
    if high < 1e5 or (high == 1e5 and low < 0.0):
        exponent -= 1
        high, low = _scale(value, 5 - exponent)
    elif high > 1e6 or (high == 1e6 and low >= 0.0):
        exponent += 1
        high, low = _scale(value, 5 - exponent)
    digits = math.floor(high)
    beyond = (high - digits - 0.5) + low
    if beyond > 0.0 or (beyond == 0.0 and digits % 2 == 1):
        digits += 1
    if digits == 1_000_000:
        digits = 100_000
        exponent += 1
    return _put_digits(out, at, digits, exponent)


@_KERNEL
def round_count(count):  # type: ignore[no-untyped-def]
    """Return a count rounded to six digits: Moses reads the counts that it has written."""
    unit = 1
    while count // unit >= 1_000_000:
        unit *= 10
    digits, rest = count // unit, count % unit
    if 2 * rest > unit or (2 * rest == unit and digits % 2 == 1):
        digits += 1
    return digits * unit


@_KERNEL
def put_count(out, at, count):  # type: ignore[no-untyped-def]
    """Write a rounded count (`round_count`) at position ``at``; return the position after it."""
    if count < 1_000_000:
        return put_number(out, at, np.float64(count))
    exponent = 6
    unit = 10
    while count // unit >= 1_000_000:
        unit *= 10
        exponent += 1
    return _put_digits(out, at, count // unit, exponent)
