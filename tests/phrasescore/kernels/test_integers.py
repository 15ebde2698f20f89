"""Products of 8-bit integers: phrasescore.kernels.integers and what precision makes of them."""

import numpy as np
import pytest
import torch
from torch import Tensor

from phrasescore.errors import PhrasescoreError
from phrasescore.kernels import gates, integers, softmax_sums
from phrasescore.kernels.precision import Factor, Precision, Product
from phrasescore.scoring.products import Products

CPU = torch.device("cpu")
HIDDEN, ROOTS, WORDS = 37, 4, 9  # 37: no multiple of a vector register's numbers


def numbers(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def round_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    values, scales = torch.empty(rows.shape, dtype=torch.int8), torch.empty(len(rows))
    integers.round_rows(rows, values, scales)
    return values, scales


def test_a_row_is_integers_times_a_scale_of_its_own() -> None:
    # By hand: 127 divided by the largest is 127, 12.7 and 63.5; halves go up.
    rows = torch.tensor([[1.0, -0.5, 0.25, 0.0], [2.0, -10.0, 5.0, 0.04], [-2.0, 1.99, 0.0, 1e-9]])
    values, scales = round_rows(rows)
    assert values.tolist() == [[127, -63, 32, 0], [25, -127, 64, 1], [-127, 126, 0, 0]]
    assert scales.tolist() == pytest.approx([1 / 127, 10 / 127, 2 / 127])


@pytest.mark.parametrize("size", [1, 15, 16, 1000])
def test_rounding_is_to_the_nearest_integer_at_every_length(size: int) -> None:
    rows = numbers(20, size)
    values, scales = round_rows(rows)
    assert values.abs().amax(1).tolist() == [127] * 20
    # Half of a step, and what float32 leaves of it.
    assert bool(((values * scales[:, None] - rows).abs() <= 0.5001 * scales[:, None]).all())


@pytest.mark.parametrize("size", [0.0, -0.0, 1e-45, 1e-38, 1e-31])
def test_a_row_of_nothing_is_zeros(size: float) -> None:
    values, scales = round_rows(torch.full((2, 20), size))
    assert not values.any()
    assert scales.tolist() == [0, 0]


def test_very_small_and_very_large_rows_keep_their_values() -> None:
    rows = torch.stack([numbers(20) * size for size in (1e-28, 1e-10, 1e10, 1e37)])
    values, scales = round_rows(rows)
    expected = rows.double() / rows.double().abs().amax(1, keepdim=True) * 127
    assert (values.double() - expected).abs().max() <= 0.501
    assert (scales.double() * 127 / rows.double().abs().amax(1) - 1).abs().max() < 1e-6


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_has_no_products(wrong: float) -> None:
    rows = torch.ones(2, 20)
    rows[0, 7] = wrong
    values, scales = round_rows(rows)
    assert scales[0].isnan()
    assert values[1].tolist() == [127] * 20
    products = Products(Precision("int8", CPU), CPU)
    found = products.multiply("found", rows, products.prepare(torch.ones(20, 3)))
    assert found[0].isnan().all()
    assert found[1].tolist() == pytest.approx([20] * 3)


def test_products_are_those_of_the_rounded_factors() -> None:
    precision = Precision("int8", CPU)
    rows, matrix = numbers(130, 50), numbers(50, 70, seed=2)
    out = torch.empty(130, 70, dtype=torch.int32)
    product = precision.multiply(precision.round(rows), precision.prepare(matrix), out)
    found = product.read(torch.empty(130, 70))
    expected = (
        precision.rounded_values(rows).double() @ precision.rounded_values(matrix.t()).double().t()
    )
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)
    # A step is 2.6 / 127; its rounding deviates by 0.006, twice, in 50 terms: 0.06. Of 9,100 such
    # sums the worst is some five times that.
    assert 0.1 < (found - rows @ matrix).abs().max() < 0.5


def test_a_row_gives_the_same_bits_whatever_is_beside_it() -> None:
    products = Products(Precision("int8", CPU), CPU)
    matrix, rows = products.prepare(numbers(50, 70)), numbers(2500, 50, seed=2)
    together = products.multiply("together", rows, matrix).clone()
    for place in (0, 1023, 1024, 2499):
        alone = products.multiply("alone", rows[place : place + 1], matrix)
        assert torch.equal(alone[0], together[place])
    assert products.multiply("none", rows[:0], matrix).shape == (0, 70)


def test_a_processor_whose_sums_stop_at_16_bits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def saturate(rows: Tensor, matrix: Tensor, out: Tensor) -> Tensor:
        """Add up two products at a time in 16 bits, as processors before VNNI do."""
        terms = rows.int().unsqueeze(2) * matrix.int().unsqueeze(0)
        pairs = (terms[:, ::2] + terms[:, 1::2]).clamp(-(2**15), 2**15 - 1)
        # Theirs is a product of unsigned and signed bytes: 128 more on the left.
        return out.copy_(pairs.sum(1) - (terms.abs() > 2**13).sum(1))

    monkeypatch.setattr(integers, "multiply", saturate)
    integers.check_exact.cache_clear()
    try:
        with pytest.raises(PhrasescoreError, match="8-bit integers are not exact"):
            Precision("int8", CPU).prepare(numbers(50, 70))
    finally:
        integers.check_exact.cache_clear()


@pytest.mark.parametrize("size", [1, 2, 3, 37])
def test_products_are_exact_at_every_inner_size(size: int) -> None:
    precision = Precision("int8", CPU)
    # A weight is (out, in).
    rows, matrix = precision.round(numbers(5, size)), precision.prepare(numbers(7, size).t())
    found = precision.multiply(rows, matrix, torch.empty(5, 7, dtype=torch.int32))
    assert torch.equal(found.values, rows.values.int() @ matrix.values.int())


def test_products_are_checked_at_the_sizes_of_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong_at_37(rows: Tensor, matrix: Tensor, out: Tensor) -> Tensor:
        return out.copy_(rows.int() @ matrix.int() + (rows.shape[1] == 37))

    monkeypatch.setattr(integers, "multiply", wrong_at_37)
    integers.check_exact.cache_clear()
    try:
        Precision("int8", CPU).prepare(numbers(36, 70))
        with pytest.raises(PhrasescoreError, match=r"not exact \(37 x 70\)"):
            Precision("int8", CPU).prepare(numbers(37, 70))
    finally:
        integers.check_exact.cache_clear()


def test_int8_is_for_the_cpu() -> None:
    with pytest.raises(PhrasescoreError, match="precision int8 needs the CPU"):
        Precision("int8", torch.device("cuda"))


class TestKernels:
    """Element-wise code that reads products of integers, against the same that reads numbers."""

    nodes = 11
    # Families in another order than nodes, so that the numbers of neither can be mistaken.
    step = gates.TreeStep(
        parents=torch.arange(11).remainder(3),
        words=torch.arange(11).remainder(WORDS),
        roots=torch.arange(11).remainder(ROOTS),
        branching=torch.arange(3),
        families=torch.arange(11).flip(0),
    )
    table = numbers(WORDS, 3 * HIDDEN, seed=5)
    context = numbers(ROOTS, 3 * HIDDEN, seed=6)
    old = numbers(11, HIDDEN, seed=7).tanh()

    @staticmethod
    def product(columns: int) -> Product:
        precision = Precision("int8", CPU)
        rows, matrix = precision.round(numbers(11, 20)), precision.prepare(numbers(20, columns))
        out = torch.empty(len(rows.values), columns, dtype=torch.int32)
        return precision.multiply(rows, matrix, out).first(11)

    @staticmethod
    def read(product: Product) -> Product:
        return Product(product.read(torch.empty(product.values.shape)))

    def test_decoder_step(self) -> None:
        found = []
        product = self.product(3 * HIDDEN)
        for each in (product, self.read(product)):
            out = torch.empty(self.nodes, HIDDEN)
            gates.decoder_step(each, self.step, self.context, self.table, self.old, out)
            found.append(out)
        torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)

    def test_maxout(self) -> None:
        found = []
        product = self.product(2 * HIDDEN)
        for each in (product, self.read(product)):
            out = torch.empty(self.nodes, HIDDEN)
            context, table = self.context[:, : 2 * HIDDEN], self.table[:, : 2 * HIDDEN]
            gates.maxout(each, self.step, context, table, out)
            found.append(out)
        torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)

    def test_encoder(self) -> None:
        found = []
        both, one = self.product(2 * HIDDEN), self.product(HIDDEN)
        for first, second in ((both, one), (self.read(both), self.read(one))):
            update, masked, out = torch.empty(3, self.nodes, HIDDEN).unbind()
            step = (self.table, self.step.words, self.old, self.step.parents)
            gates.encoder_gates(first, *step, update, masked)
            gates.encoder_blend(second, *step, update, out)
            found.append(torch.stack([update, masked, out]))
        torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)

    def test_sums_of_powers(self) -> None:
        product, bias = self.product(HIDDEN), numbers(HIDDEN, seed=8)
        # Far beyond what a power of 2 can be: cut off, and still finite.
        bias[0], bias[1] = -1e6, 300.0
        out = torch.ones(self.nodes)
        softmax_sums.add_sums(product, bias, out)
        exponents = (self.read(product).values.double() + bias).clamp(-126, 126)
        expected = 1 + np.exp2(exponents.numpy()).sum(1)
        np.testing.assert_allclose(out.numpy(), expected, rtol=3e-4)


def test_selected_rows_keep_their_scales() -> None:
    rows = Factor(torch.arange(6, dtype=torch.int8).view(3, 2), torch.tensor([1.0, 2.0, 3.0]))
    room = Factor(torch.empty(3, 2, dtype=torch.int8), torch.empty(3))
    chosen = rows.select(torch.tensor([2, 0, 2]), room)
    assert chosen.values.tolist() == [[4, 5], [0, 1], [4, 5]]
    assert chosen.scales is not None
    assert chosen.scales.tolist() == [3, 1, 3]
