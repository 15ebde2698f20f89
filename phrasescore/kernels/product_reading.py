"""How compiled loops read matrix products: numbers, bits of bfloat16, or scaled integers.

The functions of a loop are chosen when it is compiled, by the types of its arrays. A loop that is
compiled before this file changes keeps what it has: numba looks at the loop's own file only.
"""

import numba
import numpy as np
import torch
from numba.extending import overload
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.kernels.precision import Product


def widen(x):  # type: ignore[no-untyped-def]
    """Return a float32 for a float32 or for the bits of a bfloat16, which are its upper half."""
    raise NotImplementedError("for compiled code only")


@overload(widen, inline="always")
def _compilewiden(x):  # type: ignore[no-untyped-def]
    if isinstance(x, numba.types.Integer):
        return lambda x: np.uint32(np.uint32(x) << np.uint32(16)).view(np.float32)
    return lambda x: x


def unit_of(products, units, row):  # type: ignore[no-untyped-def]
    """Return what 1 is worth in a row of products; see :func:`read`."""
    raise NotImplementedError("for compiled code only")


# numba wants all of an overload's implementations to name the same arguments.
@overload(unit_of, inline="always")
def _compileunit_of(products, units, row):  # type: ignore[no-untyped-def]  # noqa: ARG001
    if products.dtype == numba.types.int32:
        return lambda products, units, row: units[row]  # noqa: ARG005
    return lambda products, units, row: np.float32(1)  # noqa: ARG005


def read(product, j, unit, scales):  # type: ignore[no-untyped-def]
    """Return a number of a product: of 8-bit integers, or as :func:`widen` reads it."""
    raise NotImplementedError("for compiled code only")


@overload(read, inline="always")
def _compileread(product, j, unit, scales):  # type: ignore[no-untyped-def]  # noqa: ARG001
    if product.dtype == numba.types.int32:
        return lambda product, j, unit, scales: np.float32(product[j]) * (unit * scales[j])
    return lambda product, j, unit, scales: widen(product[j])  # noqa: ARG005


def arrays(*tensors: Tensor) -> list[NDArray[np.generic]]:
    """Return the tensors' memory as arrays; bfloat16, which numpy lacks, as its bits."""
    return [
        (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
        for tensor in tensors
    ]


def parts(product: Product) -> tuple[Tensor, Tensor, Tensor]:
    """Return a product's numbers, and what 1 is worth in its rows and columns, if integers."""
    nothing = product.values.new_empty(0, dtype=torch.float32)
    rows = nothing if product.rows is None else product.rows
    return product.values, rows, nothing if product.columns is None else product.columns
