"""Matrix products in a chosen precision: how they are computed, stored, and read by loops.

Compiled loops read a product directly from memory: numbers, the bits of bfloat16, or integers with
scales (:func:`widen`, :func:`unit_of`, :func:`read`), depending on the types of the arrays.
"""

import contextlib
import functools
import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.arguments import PrecisionName
from phrasescore.errors import PhrasescoreError
from phrasescore.io.kernel_cache import kept_overload
from phrasescore.kernels import integers

_logger = logging.getLogger(__name__)

# Devices whose memory compiled loops can reach; elsewhere the same functions are plain torch.
FUSED_DEVICES: tuple[str, ...] = ("cpu",)

# The largest change of a product of two vectors due to rounding, as a share of the product of their
# norms: twice the error from rounding the factors, and for float32 the error from some thousand
# additions. In int8, a word's own product is rounded just like its product in the sum over words.
_ROUNDING = {"float32": 2.0**-20, "tf32": 2.0**-9, "bfloat16": 2.0**-7, "int8": 2.0**-20}

# Relative error of a sum of powers of 2; see softmax_sums.
_POWERS = 2.0**-11

# Minimum number of rows in a product.
_FEW_ROWS = 16

# Instructions that multiply faster than float32, with less precision, by torch's names for them.
_UNITS = {"bfloat16": ("amx_bf16", "avx512_bf16"), "int8": ("amx_int8", "avx512_vnni", "avx_vnni")}


@dataclass(frozen=True, slots=True)
class Factor:
    """A rounded factor of a product: the rows, or the matrix with which they are multiplied."""

    values: Tensor
    # int8 only: the scale of each row of the rows, or of each column of the matrix.
    scales: Tensor | None = None

    def select(self, rows: Tensor, out: "Factor") -> "Factor":
        """Write the selected rows into ``out``, and return ``out``."""
        torch.index_select(self.values, 0, rows, out=out.values)
        if self.scales is not None and out.scales is not None:
            torch.index_select(self.scales, 0, rows, out=out.scales)
        return out


@dataclass(frozen=True, slots=True)
class Product:
    """A product in memory: floating-point numbers, or integers with their scales."""

    values: Tensor  # (rows, columns)
    rows: Tensor | None = None  # int8: the scale of each row, (rows,), times ...
    columns: Tensor | None = None  # ... the scale of each column, (columns,)

    def first(self, count: int) -> "Product":
        """Return the first ``count`` rows."""
        rows = None if self.rows is None else self.rows[:count]
        return Product(self.values[:count], rows, self.columns)

    def read(self, out: Tensor) -> Tensor:
        """Write the first rows as float32 into ``out``, which they fill, and return ``out``."""
        values = self.values[: len(out)]
        if self.rows is None or self.columns is None:
            return out.copy_(values)
        return integers.scale(values, self.rows, self.columns, out)

    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return values and scales for compiled loops; missing scales are empty."""
        empty = self.values.new_empty(0, dtype=torch.float32)
        rows = empty if self.rows is None else self.rows
        return self.values, rows, empty if self.columns is None else self.columns


class Workspace(threading.local):
    """Buffers by name, reused from step to step; each thread has its own.

    Fresh memory has to be mapped page by page, which costs as much as filling it.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffers: dict[str, Tensor] = {}

    def take(
        self, name: str, rows: int, columns: int, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return a ``(rows, columns)`` buffer, not cleared, valid until ``name`` is taken again."""
        size = rows * columns
        buffer = self._buffers.get(name)
        if buffer is None or buffer.numel() < size or buffer.dtype != dtype:
            buffer = torch.empty(size, dtype=dtype, device=self._device)
            self._buffers[name] = buffer
        return buffer[:size].view(rows, columns)


class Precision:
    """Matrix products in a chosen precision. States, gates and sums are always float32.

    ``bfloat16``: factors have 8 bits of mantissa; on a CPU, so do the products, but not the sums
    within them. ``int8``, only on a CPU: factors are integers, see
    :mod:`phrasescore.kernels.integers`. ``tf32``, only on CUDA devices: factors have 11 bits.
    """

    def __init__(self, name: PrecisionName, device: torch.device) -> None:
        if name == "tf32" and device.type != "cuda":
            raise PhrasescoreError("precision tf32 needs a CUDA device")
        if name == "int8" and device.type != "cpu":
            raise PhrasescoreError("precision int8 needs the CPU; a GPU has bfloat16")
        if device.type == "cpu":
            _warn_of_missing_units(name)
        self.name = name
        self.device = device
        self.rounding = _ROUNDING[name]  # see at_most_certain()
        # Tables are added to products, and need not be more exact. Halving the memory traffic
        # speeds up a CPU; a GPU adds up in float32 anyway.
        self.factor_type = self.product_type = self.table_type = torch.float32
        if name == "int8":
            self.factor_type, self.product_type = torch.int8, torch.int32
            self.table_type = torch.bfloat16
        elif name == "bfloat16":
            self.factor_type = torch.bfloat16
            if device.type == "cpu":
                self.product_type = self.table_type = torch.bfloat16

    def prepare(self, matrix: Tensor) -> Factor:
        """Convert an ``(in, out)`` matrix to the second factor for :meth:`multiply`."""
        if self.name != "int8":
            return Factor(matrix.contiguous().to(self.factor_type))
        integers.check_exact(*matrix.shape)
        columns = self.round(matrix.t().contiguous())
        # Store by columns, with which oneDNN's kernels are slightly faster.
        return Factor(columns.values.t(), columns.scales)

    def round(self, rows: Tensor) -> Factor:
        """Convert rows to the first factor for :meth:`multiply`."""
        if self.name != "int8":
            return Factor(rows.to(self.factor_type))
        rounded = Factor(torch.empty_like(rows, dtype=self.factor_type), rows.new_empty(len(rows)))
        self.round_into(rows, rounded)
        return rounded

    def round_into(self, rows: Tensor, out: Factor) -> None:
        """Write rounded rows into the first rows of ``out``, and zeros into the other rows.

        On some CPUs, bfloat16 kernels read past a row's end and multiply the values there by 0, so
        that a NaN would propagate.
        """
        count = len(rows)
        if out.scales is None:
            out.values[:count] = rows
        else:
            integers.round_rows(rows.contiguous(), out.values[:count], out.scales[:count])
        out.values[count:] = 0

    def rounded_values(self, rows: Tensor) -> Tensor:
        """Return rows as float32, rounded in the same way as factors."""
        rounded = self.round(rows)
        values = rounded.values.float()
        return values if rounded.scales is None else values * rounded.scales.unsqueeze(1)

    def rounded_products(self, products: Tensor) -> Tensor:
        """Round float32 products of vectors as :meth:`multiply` does."""
        return products.bfloat16().float() if self.product_type == torch.bfloat16 else products

    def padded_count(self, count: int) -> int:
        """Return a number of rows, at least ``count``, for which a product is fast.

        A product with few rows uses another kernel, and its rows have different bits. The CPU's
        library compiles a bfloat16 product for each number of rows, which takes as long as
        computing it; numbers are therefore rounded up to multiples of 128.
        """
        if self.name == "int8":
            return count
        if self.product_type != torch.bfloat16:
            return max(count, _FEW_ROWS)
        return 64 if count <= 64 else count + -count % 128

    def multiply(self, rows: Factor, matrix: Factor, out: Tensor) -> Product:
        """Write the product of two factors into ``out``, and return the product.

        :param out: ``(rows, columns)``, with the dtype :attr:`product_type`.
        """
        if rows.scales is not None:
            integers.multiply(rows.values, matrix.values, out)
            return Product(out, rows.scales, matrix.scales)
        if out.dtype == self.factor_type:
            return Product(torch.mm(rows.values, matrix.values, out=out))
        return Product(torch.mm(rows.values, matrix.values, out_dtype=out.dtype, out=out))

    def at_most_certain(self, log_probs: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
        """Replace log-probabilities by 0 where rounding has raised them above 0.

        A word's logit and the sum over all words are computed in different orders, so either may be
        larger if the word is nearly certain.

        :param log_probs: ``(count,)``.
        :param rows: the first factor of each logit, ``(count, width)``; ``weights`` is the second.
        """
        bound = self.rounding * rows.norm(dim=1) * weights.norm(dim=1)
        if self.product_type != torch.float32:
            bound += _POWERS
        return torch.where(log_probs <= bound, log_probs.clamp(max=0), log_probs)

    def active(self) -> contextlib.AbstractContextManager[None]:
        """Let torch use TF32 for the duration of the block if the precision is tf32."""
        return products_in(torch.backends.cuda.matmul, "tf32" if self.name == "tf32" else "ieee")


@contextlib.contextmanager
def products_in(backend: Any, precision: str) -> Iterator[None]:
    """Let one of torch's backends compute float32 products in a precision within the block.

    The setting is global to the process. A nested block changes nothing; this includes blocks in
    threads that the outer block waits for.
    """
    before = backend.fp32_precision
    if before == precision:
        yield
        return
    backend.fp32_precision = precision
    try:
        yield
    finally:
        backend.fp32_precision = before


def widen(x):  # type: ignore[no-untyped-def]
    """Return a float32 from a float32, or from the bits of a bfloat16, which are its upper half."""
    raise NotImplementedError("for compiled code only")


@kept_overload(widen)
def _widen_overload(x):  # type: ignore[no-untyped-def]
    if isinstance(x, numba.types.Integer):
        return lambda x: np.uint32(np.uint32(x) << np.uint32(16)).view(np.float32)
    return lambda x: x


def unit_of(products, units, row):  # type: ignore[no-untyped-def]
    """Return the scale of a row in a product of integers; 1 for other products."""
    raise NotImplementedError("for compiled code only")


# numba requires the same argument names in all implementations of an overload.
@kept_overload(unit_of)
def _unit_of_overload(products, units, row):  # type: ignore[no-untyped-def]  # noqa: ARG001
    if products.dtype == numba.types.int32:
        return lambda products, units, row: units[row]  # noqa: ARG005
    return lambda products, units, row: np.float32(1)  # noqa: ARG005


def read(product, j, unit, scales):  # type: ignore[no-untyped-def]
    """Return number ``j`` in a row of a product, scaling integers and widening bfloat16."""
    raise NotImplementedError("for compiled code only")


@kept_overload(read)
def _read_overload(product, j, unit, scales):  # type: ignore[no-untyped-def]  # noqa: ARG001
    if product.dtype == numba.types.int32:
        return lambda product, j, unit, scales: np.float32(product[j]) * (unit * scales[j])
    return lambda product, j, unit, scales: widen(product[j])  # noqa: ARG005


def is_fused(values: Tensor) -> bool:
    """Return whether compiled loops can access a tensor."""
    return values.device.type in FUSED_DEVICES


def arrays(*tensors: Tensor) -> list[NDArray[np.generic]]:
    """Return tensors as arrays that share their memory; bfloat16 as its bits (uint16)."""
    return [
        (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
        for tensor in tensors
    ]


def lacks_units(name: PrecisionName) -> bool:
    """Return whether this processor computes faster in float32 than in the given precision.

    Instructions that torch does not report (other architectures, older versions) are assumed to
    exist.
    """
    has = _capabilities()
    reported = [has[unit] for unit in _UNITS.get(name, ()) if unit in has]
    return bool(reported) and not any(reported)


def has_matrix_units() -> bool:
    """Return whether this processor has AMX, which multiplies much faster in bfloat16."""
    return bool(_capabilities().get("amx_bf16"))


def _capabilities() -> Mapping[str, Any]:
    return torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}


@functools.cache
def _warn_of_missing_units(name: PrecisionName) -> None:
    """Warn once if float32 is likely faster on this processor."""
    if lacks_units(name):
        _logger.warning(
            "this processor has no instructions for products in %s: float32 is likely faster", name
        )
