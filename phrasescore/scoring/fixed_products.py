"""Matrix products whose rows do not know of one another.

A library for matrix products chooses its kernel by the number of rows, and another kernel adds up
in another order: the last bits of a sentence's score would depend on which sentences happen to be
scored beside it, and a cached score could differ from one computed again. Here every product has
the same number of rows, so that a row gives the same bits wherever it stands.
"""

import torch
from torch import Tensor

from phrasescore.scoring.precision import Precision
from phrasescore.scoring.weights import Workspace

# Rows of a product: as few as run at a CPU's full speed; on a GPU each call costs more.
ROWS = {"cpu": 64, "cuda": 1024}


class FixedProducts:
    """Products with prepared matrices, in chunks of a fixed number of rows."""

    def __init__(self, precision: Precision, device: torch.device) -> None:
        self.precision = precision
        self.device = device
        self.rows = ROWS[device.type]
        self.workspace = Workspace(device)

    def prepare(self, matrix: Tensor) -> Tensor:
        """Return an ``(in, out)`` matrix as :meth:`multiply` wants it, on the device."""
        return self.precision.prepare(matrix.detach().to(self.device, torch.float32))

    def multiply(self, name: str, rows: Tensor, matrix: Tensor) -> Tensor:
        """Return ``rows @ matrix``, ``(rows, out)`` float32.

        :param name: of the buffer that holds the result, valid until it is asked for again by the
            same thread.
        :param rows: ``(rows, in)`` float32.
        :param matrix: from :meth:`prepare`.
        """
        count = len(rows)
        out = self.workspace.take(name, count + -count % self.rows, matrix.shape[1])
        for start in range(0, count, self.rows):
            self._multiply(rows[start : start + self.rows], matrix, out[start : start + self.rows])
        return out[:count]

    def _multiply(self, rows: Tensor, matrix: Tensor, out: Tensor) -> None:
        if len(rows) < self.rows:
            rows = torch.cat([rows, rows.new_zeros(self.rows - len(rows), rows.shape[1])])
        kind = self.precision.product_type
        if kind == out.dtype:
            self.precision.multiply(rows, matrix, out)
            return
        product = self.workspace.take("fixed product", self.rows, out.shape[1], kind)
        out.copy_(self.precision.multiply(rows, matrix, product))
