"""Sums over a shortlist from products of bytes, in one pass, by a processor's dot products (VNNI).

Such a processor multiplies bytes so fast that writing the products, reading them again and calling
for each block of words takes as long as the products themselves. Here some rows times some words
are added up in registers, become powers of 2 there, and are added to the rows' sums: no logit is
ever in memory. numba has no types for vectors, so the innermost part is written in LLVM's own
language, and is compiled with the loops around it.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba.extending import intrinsic
from numpy.polynomial import Chebyshev, Polynomial
from torch import Tensor

from phrasescore.models.vector_math import add_attribute

LANES = 16  # numbers of 32 bits in a register
GROUP = 4  # bytes that one instruction multiplies and adds up for each of them
# What is added up at once: with 24 of 32 registers, 6 rows times 64 words.
TILE_ROWS = 6
_TILE_VECTORS = 4
TILE_WORDS = _TILE_VECTORS * LANES
# The instruction takes bytes without sign from one side. Those of the words have this much added,
# and each row starts at what takes it away again.
_LIFT = 128
# The logarithm, to base 2, of what stands behind the last word: nothing, but a normal number yet.
_NOTHING = -120.0
# 2^f for 0 <= f <= 1, highest power first: the polynomial through the Chebyshev nodes, exact to
# 1e-4 of the value.
_SERIES = (
    Chebyshev.interpolate(np.exp2, 3, domain=[0, 1]).convert(kind=Polynomial).coef[::-1].tolist()
)
# Round down, and raise nothing.
_ROUND_DOWN = 9
_KEEP_ROUNDING = 4

_Value = Any  # of llvmlite, which has no types
_INT8, _INT32, _INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_INTEGERS = ir.VectorType(_INT32, LANES)
_NUMBERS = ir.VectorType(ir.FloatType(), LANES)
_MASK = ir.IntType(LANES)
_SIGNATURES = {
    # As LLVM had it before 22, which still knows it: of bytes, four in each number.
    "llvm.x86.avx512.vpdpbusd.512": ir.FunctionType(_INTEGERS, [_INTEGERS] * 3),
    "llvm.x86.avx512.mask.reduce.ps.512": ir.FunctionType(
        _NUMBERS, [_NUMBERS, _INT32, _NUMBERS, _MASK, _INT32]
    ),
    "llvm.x86.avx512.mask.scalef.ps.512": ir.FunctionType(
        _NUMBERS, [_NUMBERS, _NUMBERS, _NUMBERS, _MASK, _INT32]
    ),
    "llvm.fma.v16f32": ir.FunctionType(_NUMBERS, [_NUMBERS] * 3),
}
# What LLVM lets a function use, whatever processor numba was told to compile for.
_FEATURES = "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512vnni"


def is_fastest() -> bool:
    """Return whether dot products of 512 bits are this processor's fastest products of bytes.

    One that has matrix units (AMX) multiplies much faster with these. Where torch has been told to
    do without AVX-512 (``ATEN_CPU_CAPABILITY``), so does this.
    """
    has = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    may = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return may and bool(has.get("avx512_vnni")) and not has.get("amx_int8")


class _Code:
    """Emits the instructions of a tile."""

    def __init__(self, builder: _Value) -> None:
        self.builder = builder

    def call(self, name: str, *arguments: _Value) -> _Value:
        function = self.builder.module.declare_intrinsic(name, (), _SIGNATURES[name])
        return self.builder.call(function, arguments)

    def constant(self, value: float) -> _Value:
        return ir.Constant(_NUMBERS, [value] * LANES)

    def place(self, array: _Value, offset: _Value, kind: _Value) -> _Value:
        """Return where ``kind`` lies in an array, so many bytes behind its start."""
        start = self.builder.bitcast(array, _INT8.as_pointer())
        return self.builder.bitcast(self.builder.gep(start, [offset]), kind.as_pointer())

    def load(self, array: _Value, offset: _Value, kind: _Value) -> _Value:
        value = self.builder.load(self.place(array, offset, kind))
        value.align = 1
        return value

    def store(self, value: _Value, array: _Value, offset: _Value) -> None:
        self.builder.store(value, self.place(array, offset, value.type)).align = 1

    def splat(self, value: _Value) -> _Value:
        """Return a vector that has the value in each lane."""
        kind = ir.VectorType(value.type, LANES)
        first = self.builder.insert_element(kind(ir.Undefined), value, _INT32(0))
        return self.builder.shuffle_vector(first, kind(ir.Undefined), _INTEGERS([0] * LANES))

    def repeat(
        self, count: _Value, starts: list[_Value], body: Callable[[_Value, list[_Value]], Any]
    ) -> list[_Value]:
        """Replace values by ``body(i, values)`` for each i below ``count``, which is above 0."""
        builder = self.builder
        before = builder.block
        loop, after = builder.append_basic_block("tile"), builder.append_basic_block("tile.end")
        builder.branch(loop)
        builder.position_at_end(loop)
        i = builder.phi(_INT64)
        values = [builder.phi(start.type) for start in starts]
        ends = body(i, values)
        following = builder.add(i, _INT64(1))
        for phi, start, end in zip(
            [i, *values], [_INT64(0), *starts], [following, *ends], strict=True
        ):
            phi.add_incoming(start, before)
            phi.add_incoming(end, loop)
        builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
        builder.position_at_end(after)
        return list(ends)

    def power(self, x: _Value) -> _Value:
        """Return 2^x to 1e-4 of its value: infinity or 0 where float32 ends, NaN of NaN."""
        all_lanes, as_ever = _MASK(-1), _INT32(_KEEP_ROUNDING)
        fraction = self.call(
            "llvm.x86.avx512.mask.reduce.ps.512", x, _INT32(_ROUND_DOWN), x, all_lanes, as_ever
        )
        series = self.constant(_SERIES[0])
        for coefficient in _SERIES[1:]:
            series = self.call("llvm.fma.v16f32", series, fraction, self.constant(coefficient))
        # It takes the whole part of x by itself.
        return self.call(
            "llvm.x86.avx512.mask.scalef.ps.512", series, x, series, all_lanes, as_ever
        )


def _generate_tile(context: Any, builder: _Value, signature: Any, arguments: Any) -> _Value:
    code = _Code(builder)
    rows, starts, units, panel, scales, bias, sums = (
        context.make_array(kind)(context, builder, value).data
        for kind, value in zip(signature.args[:-1], arguments[:-1], strict=True)
    )
    width = arguments[-1]
    groups = builder.sdiv(builder.add(width, _INT64(GROUP - 1)), _INT64(GROUP))

    def multiply(group: _Value, products: list[_Value]) -> list[_Value]:
        vectors = [
            code.load(
                panel,
                builder.add(
                    builder.mul(group, _INT64(TILE_WORDS * GROUP)), _INT64(i * LANES * GROUP)
                ),
                _INTEGERS,
            )
            for i in range(_TILE_VECTORS)
        ]
        added = []
        for row in range(TILE_ROWS):
            offset = builder.add(builder.mul(width, _INT64(row)), builder.mul(group, _INT64(GROUP)))
            row_bytes = code.splat(code.load(rows, offset, _INT32))
            for i, vector in enumerate(vectors):
                product = products[row * _TILE_VECTORS + i]
                added.append(code.call("llvm.x86.avx512.vpdpbusd.512", product, vector, row_bytes))
        return added

    lifted = [code.splat(code.load(starts, _INT64(4 * row), _INT32)) for row in range(TILE_ROWS)]
    products = code.repeat(
        groups, [start for start in lifted for _ in range(_TILE_VECTORS)], multiply
    )
    for row in range(TILE_ROWS):
        here = _INT64(4 * LANES * row)
        total = code.load(sums, here, _NUMBERS)
        unit = code.splat(code.load(units, _INT64(4 * row), ir.FloatType()))
        for i in range(_TILE_VECTORS):
            words = _INT64(4 * LANES * i)
            product = builder.sitofp(products[row * _TILE_VECTORS + i], _NUMBERS)
            scale = builder.fmul(unit, code.load(scales, words, _NUMBERS))
            logit = code.call("llvm.fma.v16f32", product, scale, code.load(bias, words, _NUMBERS))
            total = builder.fadd(total, code.power(logit))
        code.store(total, sums, here)
    return context.get_dummy_value()


# numba counts the arguments, and takes no others.
def _type_tile(
    _typing: Any,
    rows: Any,
    starts: Any,
    units: Any,
    panel: Any,
    scales: Any,
    bias: Any,
    sums: Any,
    width: Any,
) -> Any:
    kinds = rows, starts, units, panel, scales, bias, sums, width
    return numba.types.void(*kinds), _generate_tile


def _type_features(_typing: Any) -> Any:
    def generate(context: Any, builder: _Value, _signature: Any, _arguments: Any) -> _Value:
        add_attribute(builder, "target-features", _FEATURES)
        return context.get_dummy_value()

    return numba.types.void(), generate


# Adds the powers of a tile's logits to ``sums``, ``(TILE_ROWS, LANES)``.
_add_tile: Any = intrinsic(_type_tile)
_use_dot_products: Any = intrinsic(_type_features)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _sums_of_powers(rows, units, panels, scales, bias, out):  # type: ignore[no-untyped-def]
    _use_dot_products()
    count, width = rows.shape
    starts = np.zeros(count, np.int32)
    for row in range(len(out)):
        total = np.int32(0)
        for j in range(width):
            total += np.int32(rows[row, j])
        starts[row] = -_LIFT * total
    sums = np.zeros((count, LANES), np.float32)
    for panel in range(len(panels)):
        word = panel * TILE_WORDS
        # All rows meet a panel while it is in the first cache.
        for row in range(0, len(out), TILE_ROWS):
            _add_tile(
                rows[row:],
                starts[row:],
                units[row:],
                panels[panel],
                scales[word:],
                bias[word:],
                sums[row:],
                np.int64(width),
            )
    for row in range(len(out)):
        total_of_row = np.float32(0)
        for lane in range(LANES):
            total_of_row += sums[row, lane]
        out[row] = total_of_row


class PackedWords:
    """The weights of all words of a shortlist, in the order in which the dot products read them.

    :param words: ``(words, width)`` int8.
    :param scales: ``(words,)``: what 1 is worth in each word, times what it is worth in a row.
    :param bias: ``(words,)``. Logits are to base 2.
    """

    def __init__(self, words: Tensor, scales: Tensor, bias: Tensor) -> None:
        count, width = words.shape
        behind = -count % TILE_WORDS
        # Bytes of rows behind their ends meet zeros here.
        lifted = np.zeros((count + behind, width + -width % GROUP), np.uint8)
        lifted[:count, :width] = words.numpy().astype(np.int16) + _LIFT
        by_group = lifted.reshape(-1, TILE_WORDS, lifted.shape[1] // GROUP, GROUP)
        self._panels = np.ascontiguousarray(by_group.transpose(0, 2, 1, 3))
        self._scales = np.pad(scales.numpy(), (0, behind))
        self._bias = np.pad(bias.numpy(), (0, behind), constant_values=_NOTHING)

    @staticmethod
    def padded_count(count: int) -> int:
        """Return the number of rows, of which ``count`` are of use, that must lie in memory."""
        # One more: a row is read in groups of bytes, and the last one's end is not the last's.
        return count + -count % TILE_ROWS + 1

    def sums_of_powers(self, rows: Tensor, units: Tensor, out: Tensor) -> Tensor:
        """Write the sum of 2^logit over all words for each row into ``out``, and return it.

        A sum that float32 cannot hold is infinite; that of a row with a unit of NaN is NaN. Each
        has the same bits whatever rows are beside it.

        :param rows: ``(rows, width)`` int8, at least :meth:`padded_count` of them; whatever is in
            those behind the ones that count.
        :param units: ``(rows,)`` float32: what 1 is worth in each row.
        :param out: ``(count,)`` float32.
        :raises ValueError: if there is less memory than the loop reads.
        """
        groups = -(-rows.shape[1] // GROUP)
        if min(len(rows), len(units)) < self.padded_count(len(out)):
            raise ValueError(f"{len(rows)} rows in memory are too few for {len(out)}")
        if groups != self._panels.shape[1]:
            raise ValueError(f"rows of {rows.shape[1]} numbers do not fit the words")
        numbers = self._panels, self._scales, self._bias
        _sums_of_powers(rows.numpy(), units.numpy(), *numbers, out.numpy())
        return out
