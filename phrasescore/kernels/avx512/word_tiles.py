"""Multiply tiles of rows and words, and convert the products to powers of 2 in registers.

The loops are in the same file as the tiles: numba caches a loop until the loop's own file changes,
and a loop with another tile shape than its arrays would write outside of them.
"""

from collections.abc import Callable
from functools import reduce
from inspect import Parameter, Signature
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.extending import intrinsic
from numpy.polynomial import Chebyshev, Polynomial

from phrasescore.io.kernel_cache import kept_njit
from phrasescore.kernels.avx512.vector_code import (
    FLOAT,
    INT32,
    INT64,
    INTEGERS,
    LANES,
    NUMBERS,
    Value,
    VectorCode,
    memory_of,
    use_avx512,
    use_vnni,
)

# A tile of 6 rows times 64 words is accumulated in 24 of 32 registers.
TILE_ROWS = 6
_TILE_VECTORS = 4
TILE_WORDS = _TILE_VECTORS * LANES
# Number of bytes that one instruction multiplies and adds up per 32-bit number.
GROUP = 4
# The instruction takes unsigned bytes on one side. LIFT is added to the bytes of the words, and
# each row starts with a sum that compensates for it.
LIFT = 128
# Size of a number, and of a group of bytes, in bytes.
_SIZE = 4
# A panel is prefetched this many steps before it is read. The processor's own prefetching stops at
# the end of a memory page, which has 16 steps.
_AHEAD = 16
# The powers of this many words are summed in float32; these sums are summed in float64.
_TOTAL_WORDS = 8192


def _series(degree: int) -> list[float]:
    """Return coefficients of 2^f for -0.5 <= f <= 0.5 at Chebyshev nodes, highest power first."""
    series = Chebyshev.interpolate(np.exp2, degree, domain=[-0.5, 0.5])
    return [float(coefficient) for coefficient in series.convert(kind=Polynomial).coef[::-1]]


# With relative errors of 1e-4 and 1e-8; the second, of even degree, is 1 at 0.
_SERIES_OF_BYTES, _SERIES_OF_NUMBERS = _series(3), _series(6)


def _offsets(code: VectorCode, start: Value) -> list[Value]:
    return [code.builder.add(start, INT64(_SIZE * LANES * i)) for i in range(_TILE_VECTORS)]


def _vectors(code: VectorCode, array: Value, start: Value) -> list[Value]:
    """Load a tile's vectors from a panel's row, or from an array with one number per word."""
    return [code.load(array, offset, NUMBERS) for offset in _offsets(code, start)]


def _multiply(
    code: VectorCode,
    rows: Value,
    panel: Value,
    width: Value,
    starts: list[Value],
    multiply: Callable[[Value, Value, Value], Value],
) -> list[Value]:
    """Return a tile's products added to ``starts``, as the vectors of each row.

    :param width: the size of a row in bytes.
    :param multiply: called with a sum, a row's number in each lane, and a vector of words; returns
        the new sum.
    """
    builder = code.builder
    steps = builder.sdiv(builder.add(width, INT64(_SIZE - 1)), INT64(_SIZE))

    def step(i: Value, sums: list[Value]) -> list[Value]:
        words = _vectors(code, panel, builder.mul(i, INT64(_SIZE * TILE_WORDS)))
        ahead = builder.add(i, INT64(_AHEAD))
        for offset in _offsets(code, builder.mul(ahead, INT64(_SIZE * TILE_WORDS))):
            code.prefetch(panel, offset)
        added = []
        for row in range(TILE_ROWS):
            offset = builder.add(builder.mul(width, INT64(row)), builder.mul(i, INT64(_SIZE)))
            number = code.splat(code.load(rows, offset, FLOAT))
            added += [
                multiply(sums[row * _TILE_VECTORS + j], number, word)
                for j, word in enumerate(words)
            ]
        return added

    return code.repeat(steps, starts, step)


class _Kept(NamedTuple):
    """Where to write logits: an array or None, the tile's offset in it, and the row stride."""

    array: Value
    start: Value
    stride: Value


def _add_powers(
    code: VectorCode, logits: list[Value], series: list[float], sums: Value, kept: _Kept
) -> None:
    builder = code.builder
    for row in range(TILE_ROWS):
        lane_offset = _SIZE * LANES * row
        of_row = logits[row * _TILE_VECTORS : (row + 1) * _TILE_VECTORS]
        if kept.array is not None:
            start = builder.add(kept.start, builder.mul(kept.stride, INT64(row)))
            for logit, offset in zip(of_row, _offsets(code, start), strict=True):
                code.store(logit, kept.array, offset)
        # Add small numbers first: the sum that they are added to has lost their low bits.
        powers = reduce(builder.fadd, [code.power(logit, series) for logit in of_row])
        code.store(builder.fadd(code.load(sums, lane_offset, NUMBERS), powers), sums, lane_offset)


def _generate_tile_of_numbers(
    context: Any, builder: Value, signature: Any, arguments: Any
) -> Value:
    code = VectorCode(builder)
    rows, panel, bias, sums, kept = memory_of(context, builder, signature.args[:-3], arguments[:-3])
    width, start, stride = (builder.mul(number, INT64(_SIZE)) for number in arguments[-3:])
    nothing = [code.constant(0.0)] * (TILE_ROWS * _TILE_VECTORS)
    products = _multiply(
        code, rows, panel, width, nothing, lambda total, x, y: code.multiply_add(x, y, total)
    )
    # Adding the bias last rounds the products once, even if the bias is large.
    biases = _vectors(code, bias, INT64(0)) * TILE_ROWS
    logits = [builder.fadd(*pair) for pair in zip(products, biases, strict=True)]
    _add_powers(code, logits, _SERIES_OF_NUMBERS, sums, _Kept(kept, start, stride))
    return context.get_dummy_value()


def _generate_tile_of_bytes(context: Any, builder: Value, signature: Any, arguments: Any) -> Value:
    code = VectorCode(builder)
    rows, starts, units, panel, scales, bias, sums, kept = memory_of(
        context, builder, signature.args[:-3], arguments[:-3]
    )
    start, stride = (builder.mul(number, INT64(_SIZE)) for number in arguments[-2:])

    def multiply(total: Value, row: Value, words: Value) -> Value:
        signed, unsigned = builder.bitcast(row, INTEGERS), builder.bitcast(words, INTEGERS)
        return code.multiply_bytes(total, unsigned, signed)

    lifted = [code.splat(code.load(starts, _SIZE * row, INT32)) for row in range(TILE_ROWS)]
    sums_before = [start for start in lifted for _ in range(_TILE_VECTORS)]
    products = _multiply(code, rows, panel, arguments[-3], sums_before, multiply)
    of_words, biases = _vectors(code, scales, INT64(0)), _vectors(code, bias, INT64(0))
    logits = []
    for i, product in enumerate(products):
        row, vector = divmod(i, _TILE_VECTORS)
        unit = code.splat(code.load(units, _SIZE * row, FLOAT))
        scale = builder.fmul(unit, of_words[vector])
        number = builder.sitofp(product, NUMBERS)
        logits.append(code.multiply_add(number, scale, biases[vector]))
    _add_powers(code, logits, _SERIES_OF_BYTES, sums, _Kept(kept, start, stride))
    return context.get_dummy_value()


def _tile(generate: Any, arguments: str) -> Any:
    """Return a function for compiled code, whose instructions ``generate`` emits."""

    def type_call(_typing: Any, *kinds: Any) -> Any:
        return numba.types.void(*kinds), generate

    # Numba takes the number of arguments from the signature.
    names = ["typing", *arguments.split()]
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    type_call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return intrinsic(type_call)


# Both take the first TILE_ROWS of ``rows``, ``(rows, width)``, and all words of ``panel``,
# ``(steps, TILE_WORDS, 1 or GROUP)``, and add each logit's power of 2 to ``sums``,
# ``(rows, LANES)``. A logit of numbers is the product plus ``bias``. A logit of bytes is the
# product plus the row's ``starts``, times the row's ``units`` and the word's ``scales``, plus
# ``bias``. ``kept`` is None or gets the logits from element ``start`` on; ``stride`` is its row
# stride in elements. Both are int64.
_add_tile_of_numbers = _tile(
    _generate_tile_of_numbers, "rows panel bias sums kept width start stride"
)
_add_tile_of_bytes = _tile(
    _generate_tile_of_bytes, "rows starts units panel scales bias sums kept width start stride"
)


@numba.njit(nogil=True, error_model="numpy")
def _add_up_lanes(sums, totals):  # type: ignore[no-untyped-def]
    """Add the sums to the rows' totals, and reset them."""
    for row in range(len(totals)):
        total = np.float32(0)
        for lane in range(LANES):
            total += sums[row, lane]
            sums[row, lane] = 0
        totals[row] += total


@kept_njit()
def sums_of_numbers(rows, panels, bias, out, kept):  # type: ignore[no-untyped-def]
    """Write each row's sum of 2^logit over all words into ``out``.

    :param rows: ``(rows, width)`` float32: a row per entry of ``out``, padded to whole tiles.
    :param panels: ``(panels, width, TILE_WORDS, 1)`` float32.
    :param bias: ``(panels * TILE_WORDS,)`` float32.
    :param out: ``(count,)`` float32 or float64.
    :param kept: None, or ``(rows, panels * TILE_WORDS)`` float32 for the logits.
    """
    use_avx512()
    sums, totals = np.zeros((len(rows), LANES), np.float32), np.zeros(len(out))
    width, stride = np.int64(rows.shape[1]), np.int64(len(bias))
    for panel in range(len(panels)):
        word = panel * TILE_WORDS
        # All rows use a panel while it is in the cache.
        for row in range(0, len(out), TILE_ROWS):
            _add_tile_of_numbers(
                rows[row:],
                panels[panel],
                bias[word:],
                sums[row:],
                kept,
                width,
                row * stride + word,
                stride,
            )
        if (word + TILE_WORDS) % _TOTAL_WORDS == 0:
            _add_up_lanes(sums, totals)
    _add_up_lanes(sums, totals)
    out[:] = totals


@kept_njit()
def sums_of_bytes(rows, units, panels, scales, bias, out, kept):  # type: ignore[no-untyped-def]
    """Write each row's sum of 2^logit over all words into ``out``.

    :param rows: ``(rows, width)`` int8: a row per entry of ``out``, padded to whole tiles; the last
        row must be readable to the end of its last group of bytes.
    :param units: ``(rows,)`` float32: the scale of each row.
    :param panels: ``(panels, groups, TILE_WORDS, GROUP)`` uint8: words, with LIFT added.
    :param scales: ``(panels * TILE_WORDS,)`` float32: the scale of each word.
    """
    use_vnni()
    sums, totals = np.zeros((len(rows), LANES), np.float32), np.zeros(len(out))
    starts = np.zeros(len(rows), np.int32)
    width, stride = np.int64(rows.shape[1]), np.int64(len(bias))
    for row in range(len(out)):
        total = np.int32(0)
        for j in range(width):
            total += np.int32(rows[row, j])
        starts[row] = -LIFT * total
    for panel in range(len(panels)):
        word = panel * TILE_WORDS
        for row in range(0, len(out), TILE_ROWS):
            _add_tile_of_bytes(
                rows[row:],
                starts[row:],
                units[row:],
                panels[panel],
                scales[word:],
                bias[word:],
                sums[row:],
                kept,
                width,
                row * stride + word,
                stride,
            )
        if (word + TILE_WORDS) % _TOTAL_WORDS == 0:
            _add_up_lanes(sums, totals)
    _add_up_lanes(sums, totals)
    out[:] = totals
