"""Promises of phrasescore.scoring.products: a row's bits depend on nothing beside it."""

import pytest
import torch
from torch import Tensor

from phrasescore.arguments import PrecisionName
from phrasescore.kernels.precision import Factor, Precision, Product
from phrasescore.scoring.products import Products

CPU = torch.device("cpu")
# Float32 numbers of a cache line.
LINE = 16


def placed(values: Tensor, offset: int) -> Tensor:
    memory = torch.empty(values.numel() + 2 * LINE)
    start = -memory.data_ptr() // 4 % LINE + offset
    return memory[start : start + values.numel()].view(values.shape).copy_(values)


@pytest.mark.parametrize("columns", [1, 7, 9, 11, 16, 61, 100])
@pytest.mark.parametrize("size", [5, 9, 61, 100])
def test_a_row_has_the_same_bits_wherever_it_and_the_matrix_lie(size: int, columns: int) -> None:
    generator = torch.Generator().manual_seed(size * columns)
    weight = torch.randn(size, columns, generator=generator)
    row = torch.randn(size, generator=generator)
    found = set()
    for offset in (0, 1, 3, 8, 15):
        products = Products(Precision("float32", CPU), CPU)
        matrix = products.prepare(placed(weight, offset))
        for place in (0, 1, 2, 5, 62, 63, 64, 70):
            rows = torch.randn(71, size, generator=generator)
            rows[place] = row
            product = products.multiply("test", placed(rows, offset), matrix)
            found.add(product[place].numpy().tobytes())
    assert len(found) == 1
    assert torch.allclose(product[place].double(), row.double() @ weight.double(), atol=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("columns", [7, 61, 100])
def test_where_bits_depend_on_the_number_of_rows_a_fixed_number_is_multiplied(
    precision: PrecisionName, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phrasescore.scoring.products._has_free_rows", lambda *_: False)
    counts = []
    multiply = Precision.multiply

    def counted(self: Precision, rows: Factor, matrix: Factor, out: Tensor) -> Product:
        counts.append((len(rows.values), matrix.values.shape[1]))
        return multiply(self, rows, matrix, out)

    monkeypatch.setattr(Precision, "multiply", counted)
    generator = torch.Generator().manual_seed(columns)
    weight = torch.randn(61, columns, generator=generator)
    rows = torch.randn(150, 61, generator=generator)
    products = Products(Precision(precision, CPU), CPU)
    matrix = products.prepare(weight)
    found = products.multiply("test", rows, matrix).clone()
    assert set(counts) == {(64, max(columns, 16))}
    tolerance = 1e-4 if precision == "float32" else 0.5
    torch.testing.assert_close(found, rows @ weight, rtol=0, atol=tolerance)
    assert torch.equal(products.multiply("test", rows[70:71], matrix), found[70:71])


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("count", [1023, 1024, 1025, 1031, 1039, 1040, 2049])
def test_a_few_rows_beyond_a_whole_product_have_their_usual_bits(
    count: int, precision: PrecisionName
) -> None:
    generator = torch.Generator().manual_seed(count)
    products = Products(Precision(precision, CPU), CPU)
    matrix = products.prepare(torch.randn(64, 300, generator=generator))
    rows = torch.randn(count, 64, generator=generator)
    found = products.multiply("test", rows, matrix).clone()
    for start in range(count - 20, count):
        alone = products.multiply("test", rows[start : start + 1], matrix)
        assert torch.equal(alone[0], found[start])
