"""Read decimal numbers from bytes, in compiled code."""

import numpy as np

from phrasescore.io.kernel_cache import kept_njit

_KERNEL = kept_njit()

_PLUS, _MINUS, _POINT, _ZERO, _LARGE_E, _E = 43, 45, 46, 48, 69, 101

# Integers below 10^15 and powers of ten up to 10^22 are exact in float64. Their product or quotient
# is therefore the nearest float64, the same that float() returns (Clinger, 1990).
_LARGEST = 10**15
_MOST_DIGITS = 15  # of an exponent
_POWERS = np.array([float(f"1e{power}") for power in range(23)])


@_KERNEL
def read_digits(text, begin, end):  # type: ignore[no-untyped-def]
    """Return where the digits at ``begin`` end, and their number."""
    number = np.int64(0)
    while begin < end:
        digit = np.int64(text[begin]) - _ZERO
        if not 0 <= digit <= 9:
            break
        number = 10 * number + digit
        begin += 1
    return begin, number


@_KERNEL
def _skip_sign(text, begin, end):  # type: ignore[no-untyped-def]
    """Return where the text after a sign begins, and whether the sign is a minus."""
    is_negative = begin < end and text[begin] == _MINUS
    is_sign = is_negative or (begin < end and text[begin] == _PLUS)
    return begin + 1 if is_sign else begin, is_negative


@_KERNEL
def read_number(text, begin, end):  # type: ignore[no-untyped-def]
    """Return where a number such as -12, .5 or 1.25e-07 ends, its value, and whether it is exact.

    The end is -1 for any other text.
    """
    position, is_negative = _skip_sign(text, begin, end)
    mantissa, scale, digits, point = np.int64(0), 0, 0, end
    while position < end:
        digit = np.int64(text[position]) - _ZERO
        if 0 <= digit <= 9:
            digits += 1
            if mantissa < _LARGEST:
                mantissa = 10 * mantissa + digit
                if position > point:
                    scale -= 1
            elif position < point:
                scale += 1
        elif text[position] == _POINT and point == end:
            point = position
        else:
            break
        position += 1
    if digits == 0:
        return -1, 0.0, False
    if position < end and (text[position] == _E or text[position] == _LARGE_E):
        first, is_small = _skip_sign(text, position + 1, end)
        position, size = read_digits(text, first, end)
        if not 0 < position - first < _MOST_DIGITS:
            return -1, 0.0, False
        scale += -size if is_small else size
    is_exact = mantissa < _LARGEST and abs(scale) < len(_POWERS)
    power = _POWERS[abs(scale)] if is_exact else 10.0 ** abs(scale)
    value = mantissa / power if scale < 0 else mantissa * power
    return position, -value if is_negative else value, is_exact
