"""Products of states with a network's matrices, where a row's bits depend only on the row.

The score of a pair must not depend on the pairs that are scored with it. A matrix library may
choose its kernel by the number of rows, and kernels add in different orders. Each shape is
therefore tested once, when its matrix is prepared: if a row has the same bits for any number of
rows, all rows are multiplied in one call; otherwise, a fixed number is multiplied at a time.

A decoder step (:mod:`phrasescore.scoring.decoders`) rounds its rows once with
:meth:`Products.round`, and multiplies them with several matrices.
"""

import functools
import itertools
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from phrasescore.arguments import PrecisionName
from phrasescore.kernels.precision import Factor, Precision, Product, Workspace

# Maximum number of rows of a level, or phrase pairs, computed together, which bounds the memory.
LEVEL_ROWS = {"cpu": 2048, "cuda": 16384}
# Number of rows whose logits are computed together; a GPU has larger caches and slower calls.
SOFTMAX_ROWS = {"cpu": 1024, "cuda": 8192}
# Number of rows in a product whose bits depend on this number: the lowest for a CPU's full speed.
FIXED_ROWS = {"cpu": 64, "cuda": 1024}
# Numbers of rows to test; a product never has more rows than the last number.
_TRIED_ROWS = {"cpu": (16, 17, 31, 64, 65, 127, 300, 1024), "cuda": (16, 17, 128, 300, 1024, 8192)}
# Minimum number of columns in a fixed product, the size of a vector register. In MKL's kernels for
# narrower products, the bits depend on the position of a row.
_COLUMNS = 16
# Operands begin at a cache line, like torch's own memory, because the bits depend on it.
_ALIGNMENT = 64


class Rows(NamedTuple):
    """The first factor of a product, from :meth:`Products.round`."""

    factor: Factor  # may have padding after the rows
    size: int  # number of rows without padding


class Products:
    """Multiplies rows with prepared matrices. Several threads may share an instance.

    A result is in a buffer, which is valid until the thread's next call with the same name.
    """

    def __init__(self, precision: Precision, device: torch.device) -> None:
        self.precision = precision
        self.device = device
        self.level_rows = LEVEL_ROWS[device.type]
        self.workspace = Workspace(device)

    def place(self, weight: Tensor) -> Tensor:
        """Return a weight in float32 on the device."""
        return weight.detach().to(self.device, torch.float32).contiguous()

    def prepare(self, matrix: Tensor) -> Factor:
        """Prepare an ``(in, out)`` matrix for :meth:`product`, on the device."""
        # A view of another tensor may begin anywhere.
        prepared = self.precision.prepare(
            _aligned(matrix.detach().to(self.device, torch.float32).contiguous())
        )
        self._has_free_rows(prepared)
        return prepared

    def round(self, name: str, rows: Tensor) -> Rows:
        """Round float32 rows, as the first factor of several products."""
        padded_count = self.precision.padded_count(len(rows))
        is_factor = self.precision.factor_type == rows.dtype and padded_count == len(rows)
        if is_factor and rows.data_ptr() % _ALIGNMENT == 0 and rows.is_contiguous():
            return Rows(Factor(rows), len(rows))
        padded = self._take(name, padded_count, rows.shape[1])
        self.precision.round_into(rows, padded)
        return Rows(padded, len(rows))

    def select(self, name: str, rows: Rows, chosen: Tensor) -> Rows:
        """Return the rows at the ``chosen`` indices, which are distinct and ascending."""
        count = len(chosen)
        if count == rows.size:
            return rows
        padded = functional.pad(chosen, (0, self.precision.padded_count(count) - count))
        out = self._take(name, len(padded), rows.factor.values.shape[1])
        return Rows(rows.factor.select(padded, out), count)

    def product(self, name: str, rows: Rows | Tensor, matrix: Factor) -> Product:
        """Return ``rows @ matrix`` for a prepared matrix, maybe unscaled and with padding rows."""
        if isinstance(rows, Tensor):
            rows = self.round("rounded for one product", rows)
        values, scales = rows.factor.values, rows.factor.scales
        size = len(values), matrix.values.shape[1]
        out = self.workspace.take(name, *size, self.precision.product_type)
        if not self._has_free_rows(matrix):
            self._multiply_fixed_rows(values, matrix, out)
            return Product(out)
        few = self.precision.padded_count(1)
        starts = list(range(0, len(values), _TRIED_ROWS[self.device.type][-1]))
        if starts and len(values) - starts[-1] < few < len(values):
            # The last product must not have too few rows. A multiple of 16 rows is aligned.
            starts[-1] -= few
        for part in itertools.starmap(slice, itertools.pairwise([*starts, len(values)])):
            some = Factor(values[part], None if scales is None else scales[part])
            self.precision.multiply(some, matrix, out[part])
        return Product(out, scales, matrix.scales)

    def multiply(self, name: str, rows: Rows | Tensor, matrix: Factor) -> Tensor:
        """Return ``rows @ matrix``, ``(rows, out)`` float32."""
        count = len(rows) if isinstance(rows, Tensor) else rows.size
        product = self.product(name, rows, matrix).first(count)
        if product.values.dtype == torch.float32:
            return product.values
        return product.read(self.workspace.take(f"{name}, read", *product.values.shape))

    def _has_free_rows(self, matrix: Factor) -> bool:
        return _has_free_rows(*matrix.values.shape, self.precision.name, self.device)

    def _multiply_fixed_rows(self, rows: Tensor, matrix: Factor, out: Tensor) -> None:
        count, columns = FIXED_ROWS[self.device.type], out.shape[1]
        if columns < _COLUMNS:
            matrix = Factor(functional.pad(matrix.values, (0, _COLUMNS - columns)))
        wide = self.workspace.take("fixed", count, max(columns, _COLUMNS), out.dtype)
        for start in range(0, len(rows), count):
            some = rows[start : start + count]
            if len(some) < count:
                some = functional.pad(some, (0, 0, 0, count - len(some)))
            self.precision.multiply(Factor(_aligned(some)), matrix, wide)
            out[start : start + count] = wide[: len(out) - start, :columns]

    def _take(self, name: str, rows: int, columns: int) -> Factor:
        take = self.workspace.take
        values = take(name, rows, columns, self.precision.factor_type)
        in_integers = self.precision.name == "int8"
        return Factor(values, take(f"scales of {name}", 1, rows)[0] if in_integers else None)


@functools.cache
def _has_free_rows(size: int, columns: int, name: PrecisionName, device: torch.device) -> bool:
    """Return whether a product's rows have the same bits for any number of rows."""
    # Sums of integers are exact. Other products are tested with several numbers of rows, at the
    # beginning and at the end of the rows.
    if name == "int8":
        return True
    precision = Precision(name, device)
    generator = torch.Generator().manual_seed(size * columns)
    *tried, most = _TRIED_ROWS[device.type]
    rows = torch.randn(most, size, generator=generator).to(device)
    matrix = precision.prepare(torch.randn(size, columns, generator=generator).to(device))

    def multiply(first: int, after: int) -> Tensor:
        out = rows.new_empty(after - first, columns, dtype=precision.product_type)
        return precision.multiply(precision.round(_aligned(rows[first:after])), matrix, out).values

    with precision.active():
        expected = multiply(0, most)
        return all(
            torch.equal(multiply(first, first + count), expected[first : first + count])
            for count in tried
            for first in (0, most - count)
        )


def _aligned(values: Tensor) -> Tensor:
    """Return the tensor, or a copy that begins at a cache line."""
    return values.clone() if values.data_ptr() % _ALIGNMENT else values
