"""How exactly matrix products are computed when scoring."""

import contextlib
import functools
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from phrasescore.errors import PhrasescoreError
from phrasescore.kernels import integers

_logger = logging.getLogger(__name__)

PrecisionName = Literal["float32", "tf32", "bfloat16", "int8"]
PRECISIONS: tuple[PrecisionName, ...] = get_args(PrecisionName)

# By how much rounding may change the product of two vectors, as a share of the product of their
# norms: twice the error of their rounded factors, and for float32 that of adding up some thousand.
# In int8 a word's own product is rounded exactly as the one in the sum over all words.
_ROUNDING = {"float32": 2.0**-20, "tf32": 2.0**-9, "bfloat16": 2.0**-7, "int8": 2.0**-20}

# By how much a sum of powers of 2 may differ from that of its terms, as a share; see softmax_sums.
_POWERS = 2.0**-11

# Instructions that multiply with less precision faster than float32, by torch's names for them.
_UNITS = {
    "bfloat16": ("amx_bf16", "avx512_bf16"),
    "int8": ("amx_int8", "avx512_vnni", "avx_vnni"),
}


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of a product, rounded: the rows, or the matrix that they are multiplied with."""

    values: Tensor
    # int8 only: what 1 is worth in each row of the rows, or in each column of the matrix.
    scales: Tensor | None = None

    def select(self, rows: Tensor, out: "Factor") -> "Factor":
        """Write some of the rows into ``out``, and return it."""
        torch.index_select(self.values, 0, rows, out=out.values)
        if self.scales is not None and out.scales is not None:
            torch.index_select(self.scales, 0, rows, out=out.scales)
        return out


@dataclass(frozen=True, slots=True)
class Product:
    """A product as it lies in memory: numbers, or integers with what they are worth."""

    values: Tensor  # (rows, columns)
    rows: Tensor | None = None  # int8: what 1 is worth in each row, ...
    columns: Tensor | None = None  # ... times this, in each column

    def first(self, count: int) -> "Product":
        """Return the first rows."""
        rows = None if self.rows is None else self.rows[:count]
        return Product(self.values[:count], rows, self.columns)

    def read(self, out: Tensor) -> Tensor:
        """Write the first rows into ``out``, as float32, and return it."""
        values = self.values[: len(out)]
        if self.rows is None or self.columns is None:
            return out.copy_(values)
        return integers.scale(values, self.rows, self.columns, out)


class Precision:
    """Matrix products of a chosen precision. States, gates and sums are float32 always.

    ``float32``: as the type says. ``bfloat16``: factors have 8 bits of mantissa, and on a CPU the
    products too, though not the sums that make them. ``int8``: on a CPU; factors are integers, see
    :mod:`phrasescore.kernels.integers`. ``tf32``: factors of 11 bits, on CUDA devices.

    :raises PhrasescoreError: if the device does not have the precision.
    """

    def __init__(self, name: PrecisionName, device: torch.device) -> None:
        if name == "tf32" and device.type != "cuda":
            raise PhrasescoreError("precision tf32 needs a CUDA device")
        if name == "int8":
            if device.type != "cpu":
                raise PhrasescoreError("precision int8 needs the CPU; a GPU has bfloat16")
            integers.check_exact()
        if device.type == "cpu":
            _warn_of_missing_units(name)
        self.name = name
        self.device = device
        self.rounding = _ROUNDING[name]  # see at_most_certain()
        # Of factors, of products, and of tables, which are added to products and need not be more
        # exact. Half the memory to write and read counts on a CPU; a GPU adds up in float32 anyway.
        self.factor_type = self.product_type = self.table_type = torch.float32
        if name == "int8":
            self.factor_type, self.product_type = torch.int8, torch.int32
            self.table_type = torch.bfloat16
        elif name == "bfloat16":
            self.factor_type = torch.bfloat16
            if device.type == "cpu":
                self.product_type = self.table_type = torch.bfloat16

    def prepare(self, matrix: Tensor) -> Factor:
        """Return an ``(in, out)`` matrix as :meth:`multiply` wants its second factor."""
        if self.name != "int8":
            return Factor(matrix.contiguous().to(self.factor_type))
        columns = self.round(matrix.t().contiguous())
        # Stored by columns: the kernels of oneDNN are somewhat faster with it.
        return Factor(columns.values.t(), columns.scales)

    def round(self, rows: Tensor) -> Factor:
        """Return rows as :meth:`multiply` wants its first factor."""
        if self.name != "int8":
            return Factor(rows.to(self.factor_type))
        found = Factor(torch.empty_like(rows, dtype=self.factor_type), rows.new_empty(len(rows)))
        self.round_into(rows, found)
        return found

    def round_into(self, rows: Tensor, out: Factor) -> None:
        """Write rows, rounded, into the first rows of ``out``, and zeros into those behind them.

        Nobody looks at the products of these. But some CPUs' bfloat16 kernels read past a row's end
        and multiply what they find by 0: a NaN left there would spread.
        """
        count = len(rows)
        if out.scales is None:
            out.values[:count] = rows
        else:
            integers.round_rows(rows.contiguous(), out.values[:count], out.scales[:count])
        out.values[count:] = 0

    def pad(self, rows: Tensor) -> Factor:
        """Return rows, rounded, with rows of zeros behind them as :meth:`padded_count` wants."""
        count = self.padded_count(len(rows))
        if count == len(rows):
            return self.round(rows)
        padded = Factor(rows.new_empty(count, rows.shape[1], dtype=self.factor_type))
        self.round_into(rows, padded)
        return padded

    def seen(self, rows: Tensor) -> Tensor:
        """Return what products see of rows: the rounded values, as float32."""
        rounded = self.round(rows)
        values = rounded.values.float()
        return values if rounded.scales is None else values * rounded.scales.unsqueeze(1)

    def shown(self, products: Tensor) -> Tensor:
        """Return float32 products of vectors with as many bits as :meth:`multiply` leaves them."""
        return products.bfloat16().float() if self.product_type == torch.bfloat16 else products

    def padded_count(self, count: int) -> int:
        """Return the number of rows, at least ``count``, that a product had better have.

        The CPU's library compiles a product of bfloat16 anew for each number of rows, which takes
        as long as computing it: with numbers that are multiples of 128 it soon has them all.
        """
        return count + -count % 128 if self.product_type == torch.bfloat16 else count

    def multiply(self, rows: Factor, matrix: Factor, out: Tensor) -> Product:
        """Write the product of two factors into ``out``, and return it.

        :param out: ``(rows, columns)`` of :attr:`product_type`.
        """
        if rows.scales is not None:
            integers.multiply(rows.values, matrix.values, out)
            return Product(out, rows.scales, matrix.scales)
        if out.dtype == self.factor_type:
            return Product(torch.mm(rows.values, matrix.values, out=out))
        return Product(torch.mm(rows.values, matrix.values, out_dtype=out.dtype, out=out))

    def at_most_certain(self, log_probs: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
        """Return log-probabilities, those at 0 that rounding alone has lifted above 0.

        A word's own logit and the sum over all words, of which it is one, are not added up in the
        same order. Where the word is all but certain, the two may differ either way.

        :param log_probs: ``(count,)``.
        :param rows: ``(count, width)``; with ``weights``, what the words' own logits are made of.
        :param weights: ``(count, width)``.
        """
        bound = self.rounding * rows.norm(dim=1) * weights.norm(dim=1)
        if self.product_type != torch.float32:
            bound += _POWERS
        return torch.where(log_probs <= bound, log_probs.clamp(max=0), log_probs)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Let torch use TF32 meanwhile if that is the precision, in the whole process."""
        backend = torch.backends.cuda.matmul
        before = backend.fp32_precision
        backend.fp32_precision = "tf32" if self.name == "tf32" else "ieee"
        try:
            yield
        finally:
            backend.fp32_precision = before


def lacks_units(name: PrecisionName) -> bool:
    """Return whether this processor computes in float32 faster than in a smaller type.

    What torch does not tell (of another architecture, or an older torch) it is taken to have.
    """
    has = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    told = [has[unit] for unit in _UNITS.get(name, ()) if unit in has]
    return bool(told) and not any(told)


@functools.cache
def _warn_of_missing_units(name: PrecisionName) -> None:
    """Say once that another precision is better here, if so."""
    if lacks_units(name):
        _logger.warning(
            "this processor has no instructions for products in %s: float32 is likely faster", name
        )
