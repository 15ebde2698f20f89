"""Matrix products whose rows do not know of one another.

A library for matrix products chooses its kernel by the number of rows, and another kernel adds up
in another order: the last bits of a sentence's score would depend on which sentences happen to be
scored beside it, and a cached score could differ from one computed again. Here every product has
the same number of rows, so that a row gives the same bits wherever it stands. Integers add up
exactly in any order: products of them may have any number of rows.
"""

import torch
from torch import Tensor

from phrasescore.scoring.precision import Factor, Precision
from phrasescore.scoring.workspace import Workspace

# Rows of a product: as few as run at a CPU's full speed; on a GPU each call costs more.
ROWS = {"cpu": 64, "cuda": 1024}
# Rows of a product of integers at most: what bounds its memory.
_INTEGER_ROWS = 1024


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
        return self.precision.prepare(matrix.detach().to(self.device, torch.float32))

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
        rounded = self.precision.round(rows)
        if kind == out.dtype:
            self.precision.multiply(rounded, matrix, out)
            return
        product = self.workspace.take("fixed product", self.rows, out.shape[1], kind)
        out.copy_(self.precision.multiply(rounded, matrix, product).values)
