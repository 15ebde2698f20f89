"""Generate LLVM vector instructions for the innermost part of a numba loop.

numba has no vector types. Code that must keep its values in registers, or needs an instruction that
LLVM does not select by itself, is generated here and compiled with the surrounding loop. Registers
have 512 bits (AVX-512).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

from phrasescore.kernels.vector_math import add_attribute

LANES = 16  # 32-bit numbers in a register

Value = Any  # from llvmlite, which has no type annotations
INT8, INT32, INT64, FLOAT = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
INTEGERS, NUMBERS = ir.VectorType(INT32, LANES), ir.VectorType(FLOAT, LANES)
_MASK = ir.IntType(LANES)
_SIGNATURES = {
    "prefetch": ir.FunctionType(ir.VoidType(), [INT8.as_pointer(), INT32, INT32, INT32]),
    "fma.v16f32": ir.FunctionType(NUMBERS, [NUMBERS] * 3),
    # LLVM's form before version 22, which still accepts it; each number contains four bytes.
    "x86.avx512.vpdpbusd.512": ir.FunctionType(INTEGERS, [INTEGERS] * 3),
    "x86.avx512.mask.reduce.ps.512": ir.FunctionType(
        NUMBERS, [NUMBERS, INT32, NUMBERS, _MASK, INT32]
    ),
    "x86.avx512.mask.scalef.ps.512": ir.FunctionType(
        NUMBERS, [NUMBERS, NUMBERS, NUMBERS, _MASK, INT32]
    ),
}
_ALL_LANES = -1
# Round to the nearest integer, without an exception.
_TO_NEAREST = 8
_DEFAULT_ROUNDING = 4


class VectorCode:
    """Adds instructions to a function that is being compiled."""

    def __init__(self, builder: Value) -> None:
        self.builder = builder

    def multiply_add(self, x: Value, y: Value, z: Value) -> Value:
        """Return x * y + z with a single rounding."""
        return self._call("fma.v16f32", x, y, z)

    def multiply_bytes(self, total: Value, unsigned: Value, signed: Value) -> Value:
        """Add four products of bytes to each integer of ``total``, exactly."""
        return self._call("x86.avx512.vpdpbusd.512", total, unsigned, signed)

    def power(self, x: Value, series: Sequence[float]) -> Value:
        """Return 2^x: infinity on overflow, 0 on underflow, NaN for NaN.

        :param series: coefficients of 2^f for -0.5 <= f <= 0.5, highest power first.
        """
        every, usual = _MASK(_ALL_LANES), INT32(_DEFAULT_ROUNDING)
        fraction = self._call(
            "x86.avx512.mask.reduce.ps.512", x, INT32(_TO_NEAREST), x, every, usual
        )
        result = self.constant(series[0])
        for coefficient in series[1:]:
            result = self.multiply_add(result, fraction, self.constant(coefficient))
        whole = self.builder.fsub(x, fraction)
        return self._call("x86.avx512.mask.scalef.ps.512", result, whole, result, every, usual)

    def constant(self, value: float) -> Value:
        """Return a vector with the number in each lane."""
        return ir.Constant(NUMBERS, [value] * LANES)

    def splat(self, value: Value) -> Value:
        """Return a vector with the value in each lane."""
        kind = ir.VectorType(value.type, LANES)
        first = self.builder.insert_element(kind(ir.Undefined), value, INT32(0))
        return self.builder.shuffle_vector(first, kind(ir.Undefined), INTEGERS([0] * LANES))

    def load(self, array: Value, offset: Value | int, kind: Value) -> Value:
        """Return the value at a byte offset of an array."""
        value = self.builder.load(self._pointer(array, offset, kind))
        value.align = 1
        return value

    def prefetch(self, array: Value, offset: Value) -> None:
        """Prefetch the cache line at a byte offset of an array."""
        read, first_cache, data = INT32(0), INT32(3), INT32(1)
        self._call("prefetch", self._pointer(array, offset, INT8), read, first_cache, data)

    def store(self, value: Value, array: Value, offset: Value | int) -> None:
        """Write a value at a byte offset of an array."""
        self.builder.store(value, self._pointer(array, offset, value.type)).align = 1

    def repeat(
        self, count: Value, starts: list[Value], body: Callable[[Value, list[Value]], list[Value]]
    ) -> list[Value]:
        """Loop over i below ``count``, at least 1, replacing values by ``body(i, values)``."""
        builder, before = self.builder, self.builder.block
        loop, after = builder.append_basic_block("tile"), builder.append_basic_block("tile.end")
        builder.branch(loop)
        builder.position_at_end(loop)
        i = builder.phi(INT64)
        values = [builder.phi(start.type) for start in starts]
        ends = body(i, values)
        following = builder.add(i, INT64(1))
        incoming = zip([i, *values], [INT64(0), *starts], [following, *ends], strict=True)
        for phi, start, end in incoming:
            phi.add_incoming(start, before)
            phi.add_incoming(end, loop)
        builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
        builder.position_at_end(after)
        return ends

    def _call(self, name: str, *arguments: Value) -> Value:
        signature = _SIGNATURES[name]
        function = self.builder.module.declare_intrinsic(f"llvm.{name}", (), signature)
        return self.builder.call(function, arguments)

    def _pointer(self, array: Value, offset: Value | int, kind: Value) -> Value:
        start = self.builder.bitcast(array, INT8.as_pointer())
        distance = INT64(offset) if isinstance(offset, int) else offset
        return self.builder.bitcast(self.builder.gep(start, [distance]), kind.as_pointer())


def memory_of(context: Any, builder: Value, kinds: Any, arrays: Any) -> list[Value]:
    """Return pointers to the memory of numba arrays; None stays None."""
    return [
        None
        if isinstance(kind, numba.types.NoneType)
        else context.make_array(kind)(context, builder, array).data
        for kind, array in zip(kinds, arrays, strict=True)
    ]


def _use(*features: str) -> Any:
    def type_call(_typing: Any) -> Any:
        def generate(context: Any, builder: Value, _signature: Any, _arguments: Any) -> Value:
            # These names replace numba's own list of the processor's features.
            known = getattr(context.codegen(), "_tm_features", "")
            names = [name for name in [known, *(f"+{name}" for name in features)] if name]
            add_attribute(builder, "target-features", ",".join(names))
            return context.get_dummy_value()

        return numba.types.void(), generate

    return intrinsic(type_call)


# Called in a compiled function, they let LLVM use these instructions there, even if numba was told
# to compile for another processor.
_AVX512 = "avx512f", "avx512bw", "avx512dq", "avx512vl"
use_avx512: Any = _use(*_AVX512)
use_vnni: Any = _use(*_AVX512, "avx512vnni")
