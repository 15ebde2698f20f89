"""How exactly matrix products are computed when scoring."""

import contextlib
from collections.abc import Iterator
from typing import Literal, get_args

import torch
from torch import Tensor

from phrasescore.errors import PhrasescoreError

PrecisionName = Literal["float32", "tf32", "bfloat16"]
PRECISIONS: tuple[PrecisionName, ...] = get_args(PrecisionName)

# By how much rounding may change the product of two vectors, as a share of the product of their
# norms: twice the error of their rounded factors, and for float32 that of adding up some thousand.
_ROUNDING = {"float32": 2.0**-20, "tf32": 2.0**-9, "bfloat16": 2.0**-7}


class Precision:
    """Matrix products of a chosen precision. States, gates and sums are float32 always.

    ``float32``: as the type says. ``bfloat16``: factors have 8 bits of mantissa, and on a CPU the
    products too, though not the sums that make them. ``tf32``: factors of 11 bits, on CUDA devices.

    :raises PhrasescoreError: if the device does not have the precision.
    """

    def __init__(self, name: PrecisionName, device: torch.device) -> None:
        if name == "tf32" and device.type != "cuda":
            raise PhrasescoreError("precision tf32 needs a CUDA device")
        self.name = name
        self.device = device
        self.rounding = _ROUNDING[name]  # see at_most_certain()
        rounded = name == "bfloat16"
        self._factor_type = torch.bfloat16 if rounded else torch.float32
        # Half the memory to write and read, which on a CPU counts. A GPU adds up in float32 anyway.
        self.product_type = torch.bfloat16 if rounded and device.type == "cpu" else torch.float32

    def prepare(self, matrix: Tensor) -> Tensor:
        """Return a matrix as :meth:`multiply` wants its second factor."""
        return matrix.contiguous().to(self._factor_type)

    def round(self, rows: Tensor) -> Tensor:
        """Return rows as :meth:`multiply` makes them itself; worth it for more than one product."""
        return rows.to(self._factor_type)

    def padded_count(self, count: int) -> int:
        """Return the number of rows, at least ``count``, that a product had better have.

        The CPU's bfloat16 library compiles a product anew for each number of rows, which takes as
        long as computing it: with numbers that are multiples of 128 it soon has them all.
        """
        return count + -count % 128 if self.product_type == torch.bfloat16 else count

    def pad(self, rows: Tensor) -> Tensor:
        """Return rounded rows, with zero rows behind them as :meth:`padded_count` wants."""
        count = self.padded_count(len(rows))
        if count == len(rows):
            return self.round(rows)
        padded = rows.new_zeros(count, rows.shape[1], dtype=self._factor_type)
        padded[: len(rows)] = rows
        return padded

    def multiply(self, rows: Tensor, matrix: Tensor, out: Tensor) -> Tensor:
        """Write ``rows @ matrix`` into ``out`` and return it.

        :param rows: float32, or from :meth:`round`.
        :param matrix: from :meth:`prepare`.
        :param out: of :attr:`product_type`.
        """
        rows = self.round(rows)
        if out.dtype == self._factor_type:
            return torch.mm(rows, matrix, out=out)
        return out.copy_(torch.mm(rows, matrix, out_dtype=out.dtype))

    def at_most_certain(self, log_probs: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
        """Return log-probabilities, those at 0 that rounding alone has lifted above 0.

        A word's own logit is computed in float32, and the sum over all words, of which it is one,
        from rounded factors. Where the word is all but certain, the two may differ either way.

        :param log_probs: ``(count,)``.
        :param rows: ``(count, width)``; with ``weights``, what the words' own logits are made of.
        :param weights: ``(count, width)``.
        """
        bound = self.rounding * rows.norm(dim=1) * weights.norm(dim=1)
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
