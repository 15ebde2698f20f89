"""Products of states with a network's matrices, in one of two shapes.

A library for matrix products chooses its kernel by the number of rows, and another kernel adds up
in another order: the last bits of a row's product depend on how many rows are beside it.

- :class:`LevelProducts`, for phrase tables: one product per level of a tree. The fastest; the last
  bits of a value depend on the block of pairs that it was computed in.
- :class:`FixedProducts`, for n-best lists and searches: every product has the same number of rows,
  and so a row has the same bits wherever it stands. The score of a sentence must not depend on the
  sentences scored beside it, nor a cached score differ from one computed again.

A decoder (:mod:`phrasescore.scoring.decoders`) and a softmax (:mod:`.word_probabilities`) run with
either. With both, a step is: :meth:`Products.round` the rows, multiply them with several matrices.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from phrasescore.kernels import gates
from phrasescore.kernels.precision import Factor, Precision, Product, Workspace

# Rows of a level that are computed together, at most; it bounds memory.
LEVEL_ROWS = {"cpu": 2048, "cuda": 16384}
# Of these, rows whose logits are held at once; on a GPU the caches are larger, and calls cost more.
SOFTMAX_ROWS = {"cpu": 1024, "cuda": 8192}
# Rows of a fixed product: as few as run at a CPU's full speed.
FIXED_ROWS = {"cpu": 64, "cuda": 1024}
# Rows of a fixed product of integers at most, which bounds its memory.
_INTEGER_ROWS = 1024
# Columns of a fixed product at least: those of a vector register.
_COLUMNS = 16
# Bytes of a cache line, where operands of fixed products begin; torch's own memory does.
_ALIGNMENT = 64


class Rows(NamedTuple):
    """The first factor of a product, as :meth:`Products.round` returns it."""

    factor: Factor  # maybe with padding behind the rows
    size: int  # rows without the padding


class Products(ABC):
    """Products of rows with prepared matrices. Several threads may use one instance at once.

    A result is in a buffer: valid until the same thread asks for one of the same name.

    :param level_rows: rows of a level that are computed together, at most; `LEVEL_ROWS` if None.
    """

    # Whether a row has the same bits whatever rows are beside it.
    fixed: ClassVar[bool]
    # Of the sums over a shortlist, and of the log-probabilities that are made with them.
    sum_type: ClassVar[torch.dtype]
    # Of the largest tables, which are added to products.
    table_type: torch.dtype
    # Rows of a product with the words of a shortlist.
    rows: int

    def __init__(
        self, precision: Precision, device: torch.device, level_rows: int | None = None
    ) -> None:
        self.precision = precision
        self.device = device
        self.level_rows = level_rows or LEVEL_ROWS[device.type]
        self.workspace = Workspace(device)

    def place(self, weight: Tensor) -> Tensor:
        """Return a weight in float32 on the device."""
        return weight.detach().to(self.device, torch.float32).contiguous()

    def prepare(self, matrix: Tensor) -> Factor:
        """Return an ``(in, out)`` matrix as :meth:`product` takes it, on the device."""
        # A view of a part of another tensor may begin anywhere.
        return self.precision.prepare(_aligned(matrix.detach().to(self.device, torch.float32)))

    @abstractmethod
    def round(self, name: str, rows: Tensor) -> Rows:
        """Return float32 rows as a product's first factor, for several products."""

    @abstractmethod
    def select(self, name: str, rows: Rows, chosen: Tensor) -> Rows:
        """Return some of the rows.

        :param chosen: their numbers, rising; not copied where these are all.
        """

    @abstractmethod
    def product(self, name: str, rows: Rows | Tensor, matrix: Factor) -> Product:
        """Return ``rows @ matrix`` as it lies in memory; it may have padding behind the rows.

        :param matrix: from :meth:`prepare`.
        """

    def multiply(self, name: str, rows: Rows | Tensor, matrix: Factor) -> Tensor:
        """Return ``rows @ matrix``, ``(rows, out)``: of integers their float32 values."""
        count = len(rows) if isinstance(rows, Tensor) else rows.size
        product = self.product(name, rows, matrix).first(count)
        if product.columns is None:
            return product.values
        return product.read(self.workspace.take(f"{name}, read", *product.values.shape))

    def add_bias(self, name: str, product: Tensor, bias: Tensor) -> Tensor:
        """Return product + bias, ``(rows, columns)`` float32."""
        return torch.add(product, bias, out=self.workspace.take(name, *product.shape))

    @abstractmethod
    def tanh_with_bias(self, name: str, product: Tensor, bias: Tensor) -> Tensor:
        """Return tanh(product + bias), ``(rows, columns)`` float32."""


class LevelProducts(Products):
    """Products of as many rows as there are, rounded once for several of them."""

    fixed = False
    sum_type = torch.float32

    def __init__(
        self, precision: Precision, device: torch.device, level_rows: int | None = None
    ) -> None:
        super().__init__(precision, device, level_rows)
        # No wider than the products that they are added to are exact: less memory to read.
        self.table_type = precision.table_type
        self.rows = SOFTMAX_ROWS[device.type]

    def round(self, name: str, rows: Tensor) -> Rows:
        """See :class:`Products`."""
        precision = self.precision
        if precision.factor_type == rows.dtype:
            return Rows(Factor(rows), len(rows))
        padded = self._take(name, precision.padded_count(len(rows)), rows.shape[1])
        precision.round_into(rows, padded)
        return Rows(padded, len(rows))

    def select(self, name: str, rows: Rows, chosen: Tensor) -> Rows:
        """See :class:`Products`."""
        count = len(chosen)
        if count == rows.size:
            return rows
        padded = functional.pad(chosen, (0, self.precision.padded_count(count) - count))
        out = self._take(name, len(padded), rows.factor.values.shape[1])
        return Rows(rows.factor.select(padded, out), count)

    def product(self, name: str, rows: Rows | Tensor, matrix: Factor) -> Product:
        """See :class:`Products`."""
        if isinstance(rows, Tensor):
            rows = self.round("rounded for one product", rows)
        factor = rows.factor
        size = len(factor.values), matrix.values.shape[1]
        out = self.workspace.take(name, *size, self.precision.product_type)
        return self.precision.multiply(factor, matrix, out)

    def tanh_with_bias(self, name: str, product: Tensor, bias: Tensor) -> Tensor:
        """See :class:`Products`; by torch's tanh, whose last bits depend on a row's place, too."""
        return self.add_bias(name, product, bias).tanh_()

    def _take(self, name: str, rows: int, columns: int) -> Factor:
        take = self.workspace.take
        values = take(name, rows, columns, self.precision.factor_type)
        in_integers = self.precision.name == "int8"
        return Factor(values, take(f"scales of {name}", 1, rows)[0] if in_integers else None)


class FixedProducts(Products):
    """Products of a fixed number of rows, whose bits do not depend on one another.

    Kernels also depend on where operands begin in memory, and narrow products on the row (MKL on
    AMD, up to 11 columns): operands begin at a cache line, and no product has fewer than 16
    columns. Integers add up exactly in any order: products of them may have any number of rows.
    Products are float32; rows are rounded as they are multiplied, some at a time.
    """

    fixed = True
    sum_type = torch.float64
    table_type = torch.float32

    def __init__(
        self, precision: Precision, device: torch.device, level_rows: int | None = None
    ) -> None:
        super().__init__(precision, device, level_rows)
        # A product of integers takes so little time that the cost of a call counts for more.
        self.rows = FIXED_ROWS[device.type] * (2 if precision.name == "int8" else 1)

    def round(self, name: str, rows: Tensor) -> Rows:  # noqa: ARG002
        """See :class:`Products`: nothing to do here."""
        return Rows(Factor(rows), len(rows))

    def select(self, name: str, rows: Rows, chosen: Tensor) -> Rows:
        """See :class:`Products`."""
        if len(chosen) == rows.size:
            return rows
        values = rows.factor.values
        out = self.workspace.take(name, len(chosen), values.shape[1])
        return Rows(Factor(torch.index_select(values, 0, chosen, out=out)), len(chosen))

    def product(self, name: str, rows: Rows | Tensor, matrix: Factor) -> Product:
        """See :class:`Products`."""
        return Product(self.multiply(name, rows, matrix))

    def multiply(self, name: str, rows: Rows | Tensor, matrix: Factor) -> Tensor:
        """Return ``rows @ matrix``, ``(rows, out)`` float32."""
        values = rows if isinstance(rows, Tensor) else rows.factor.values
        count, columns = len(values), matrix.values.shape[1]
        if self.precision.name == "int8":
            return self._multiply_integers(
                values, matrix, self.workspace.take(name, count, columns)
            )
        out = self.workspace.take(name, count + -count % self.rows, columns)
        for start in range(0, count, self.rows):
            part = slice(start, start + self.rows)
            self._multiply(values[part], matrix, out[part])
        return out[:count]

    def tanh_with_bias(self, name: str, product: Tensor, bias: Tensor) -> Tensor:  # noqa: ARG002
        """See :class:`Products`; by a loop that gives the same bits in every place."""
        return gates.tanh_of_sums(product, bias)

    def _multiply_integers(self, rows: Tensor, matrix: Factor, out: Tensor) -> Tensor:
        take = self.workspace.take
        for start in range(0, len(rows), _INTEGER_ROWS):
            part = rows[start : start + _INTEGER_ROWS]
            values = take("int8 rows", len(part), part.shape[1], torch.int8)
            rounded = Factor(values, take("int8 scales", 1, len(part))[0])
            self.precision.round_into(part, rounded)
            sums = take("int8 sums", len(part), out.shape[1], self.precision.product_type)
            product = self.precision.multiply(rounded, matrix, sums)
            product.read(out[start : start + len(part)])
        return out

    def _multiply(self, rows: Tensor, matrix: Factor, out: Tensor) -> None:
        if len(rows) < self.rows:
            rows = torch.cat([rows, rows.new_zeros(self.rows - len(rows), rows.shape[1])])
        kind = self.precision.product_type
        rounded = self.precision.round(_aligned(rows))
        columns = out.shape[1]
        if kind == out.dtype and columns >= _COLUMNS:
            self.precision.multiply(rounded, matrix, out)
            return
        product = self.workspace.take("fixed product", self.rows, max(columns, _COLUMNS), kind)
        if columns < _COLUMNS:
            matrix = Factor(functional.pad(matrix.values, (0, _COLUMNS - columns)))
        out.copy_(self.precision.multiply(rounded, matrix, product).values[:, :columns])


def _aligned(values: Tensor) -> Tensor:
    """Return a tensor that begins at a cache line, the same one where it does."""
    return values.clone() if values.data_ptr() % _ALIGNMENT else values
