"""Matrix products whose rows do not know of one another.

A library for matrix products chooses its kernel by the number of rows, and another kernel adds up
in another order: the last bits of a sentence's score would depend on which sentences happen to be
scored beside it, and a cached score could differ from one computed again. Here every product has
the same number of rows, so that a row gives the same bits wherever it stands. Kernels also depend
on where operands begin in memory, and narrow products on the row (MKL on AMD, up to 11 columns):
operands begin at a cache line, and no product has fewer than 16 columns. Integers add up exactly
in any order: products of them may have any number of rows.
"""

import torch
from torch import Tensor
from torch.nn import functional

from phrasescore.kernels.precision import Factor, Precision
from phrasescore.kernels.workspace import Workspace

# Rows of a product: as few as run at a CPU's full speed; on a GPU each call costs more.
ROWS = {"cpu": 64, "cuda": 1024}
# Rows of a product of integers at most: what bounds its memory.
_INTEGER_ROWS = 1024
# Columns of a product at least: those of a vector register.
_COLUMNS = 16
# Bytes of a cache line, where operands begin; torch's own memory does.
_ALIGNMENT = 64


class FixedProducts:
    """Products with prepared matrices, in chunks of a fixed number of rows."""

    def __init__(self, precision: Precision, device: torch.device) -> None:
        self.precision = precision
        self.device = device
        # A product of integers is done so soon that what a call costs counts for more.
        self.rows = ROWS[device.type] * (2 if precision.name == "int8" else 1)
        self.workspace = Workspace(device)

    def prepare(self, matrix: Tensor) -> Factor:
        """Return an ``(in, out)`` matrix as :meth:`multiply` wants it, on the device."""
        # A view of a part of another tensor may begin anywhere.
        return self.precision.prepare(_aligned(matrix.detach().to(self.device, torch.float32)))

    def multiply(self, name: str, rows: Tensor, matrix: Factor) -> Tensor:
        """Return ``rows @ matrix``, ``(rows, out)`` float32.

        :param name: of the buffer that holds the result, valid until it is asked for again by the
            same thread.
        :param rows: ``(rows, in)`` float32.
        :param matrix: from :meth:`prepare`.
        """
        count, columns = len(rows), matrix.values.shape[1]
        if self.precision.name == "int8":
            return self._multiply_integers(rows, matrix, self.workspace.take(name, count, columns))
        out = self.workspace.take(name, count + -count % self.rows, columns)
        for start in range(0, count, self.rows):
            self._multiply(rows[start : start + self.rows], matrix, out[start : start + self.rows])
        return out[:count]

    def _multiply_integers(self, rows: Tensor, matrix: Factor, out: Tensor) -> Tensor:
        take = self.workspace.take
        for start in range(0, len(rows), _INTEGER_ROWS):
            part = rows[start : start + _INTEGER_ROWS]
            values = take("rounded", len(part), part.shape[1], torch.int8)
            rounded = Factor(values, take("scales", 1, len(part))[0])
            self.precision.round_into(part, rounded)
            sums = take("sums", len(part), out.shape[1], self.precision.product_type)
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
