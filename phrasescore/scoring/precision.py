"""How exactly matrix products are computed when scoring."""

import contextlib
from collections.abc import Iterator
from typing import Literal, get_args

import torch
from torch import Tensor

PrecisionName = Literal["float32", "tf32", "bfloat16"]
PRECISIONS: tuple[PrecisionName, ...] = get_args(PrecisionName)


class Precision:
    """Matrix products of a chosen precision. States, gates and sums are float32 always.

    ``float32``: as the type says. ``bfloat16``: the factors are rounded to 8 bits of mantissa, the
    sums are float32. ``tf32``: to 11 bits, on CUDA devices that have it.

    :param name: one of :data:`PRECISIONS`.
    """

    def __init__(self, name: PrecisionName, device: torch.device) -> None:
        self.name = name
        self.device = device
        self.rounds_on_cuda = name == "bfloat16" and device.type == "cuda"

    def prepare(self, matrix: Tensor) -> Tensor:
        """Return a matrix as :meth:`multiply` wants its second factor."""
        return matrix.bfloat16() if self.rounds_on_cuda else matrix

    def multiply(self, rows: Tensor, matrix: Tensor, out: Tensor) -> Tensor:
        """Write ``rows @ matrix`` into ``out`` and return it; all but ``matrix`` are float32."""
        if self.rounds_on_cuda:
            return out.copy_(torch.mm(rows.bfloat16(), matrix, out_dtype=torch.float32))
        return torch.mm(rows, matrix, out=out)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Let torch use this precision for float32 products meanwhile, in the whole process."""
        chosen = {"float32": "ieee", "tf32": "tf32", "bfloat16": "bf16"}[self.name]
        cpu, cuda = torch.backends.mkldnn.matmul, torch.backends.cuda.matmul
        before = cpu.fp32_precision, cuda.fp32_precision
        if self.device.type == "cuda":
            cuda.fp32_precision = "tf32" if self.name == "tf32" else "ieee"
        else:
            cpu.fp32_precision = chosen
        try:
            yield
        finally:
            cpu.fp32_precision, cuda.fp32_precision = before
