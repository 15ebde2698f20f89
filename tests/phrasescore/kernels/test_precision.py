"""What rounding may do to log-probabilities, and what it may not."""

import numpy as np
import pytest
import torch

from phrasescore.arguments import PrecisionName
from phrasescore.kernels.precision import (
    Precision,
    _warn_of_missing_units,
)
from phrasescore.scoring.products import Products
from phrasescore.scoring.word_probabilities import WordProbabilities

CPU = torch.device("cpu")


def certain(size: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows and weights of as many words; word i is all but certain after row i."""
    rows = torch.randn(40, 64, generator=torch.Generator().manual_seed(1))
    return rows * size, rows


@pytest.mark.usefixtures("way_of_words")
@pytest.mark.parametrize(
    ("precision", "size"), [("float32", 2e3), ("bfloat16", 1.0), ("int8", 1.0)]
)
def test_a_certain_word_has_log_probability_0_whatever_rounding_does(
    precision: PrecisionName, size: float
) -> None:
    rows, weight = certain(size)
    found = Precision(precision, CPU)
    words = np.arange(len(rows))
    with torch.inference_mode():
        probabilities = WordProbabilities(weight, torch.zeros(len(rows)), Products(found, CPU))
        normalizers = probabilities.log_normalizers(rows)
        log_probs = probabilities.log_probs(rows, normalizers, words, words)
    assert log_probs.max() == 0
    assert log_probs.min() > -1


def test_what_rounding_does_not_explain_is_left_for_others_to_find() -> None:
    rows = torch.ones(3, 4)
    log_probs = torch.tensor([1e-7, 1e-3, -1.0])
    settled = Precision("float32", CPU).at_most_certain(log_probs, rows, rows)
    assert settled.tolist() == [0.0, log_probs[1].item(), -1.0]


# With a bias of 0 sums are as exp() takes them; 100 and -150 put them beyond its range.
@pytest.mark.usefixtures("way_of_words")
@pytest.mark.parametrize("shift", [0.0, 100.0, -150.0])
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_errors_of_a_probable_word_and_of_the_sum_that_it_makes_cancel_out(
    precision: PrecisionName, shift: float
) -> None:
    # One word has most of the probability: that log p is near 0 whatever its logit's error.
    generator = torch.Generator().manual_seed(2)
    rows = torch.randn(300, 64, generator=generator)
    weight = torch.cat([rows[:1], 0.1 * torch.randn(50, 64, generator=generator)]) * 0.5
    rows = rows + 1.0 * rows[:1]
    bias = torch.full((len(weight),), shift)
    expected = torch.log_softmax(rows.double() @ weight.double().t(), 1)[:, 0]
    found = Precision(precision, CPU)
    with torch.inference_mode():
        probabilities = WordProbabilities(weight, bias, Products(found, CPU))
        places, words = np.arange(len(rows)), np.zeros(len(rows), np.int64)
        log_probs = probabilities.log_probs(
            rows, probabilities.log_normalizers(rows), places, words
        )
    probable = expected > -0.01
    assert probable.sum() > 100
    assert (log_probs - expected)[probable].abs().max() < 1e-3


# Beyond 60 and below -60, sums are those of rows that exp() alone would not do for.
@pytest.mark.usefixtures("way_of_words")
@pytest.mark.parametrize("bias", [-150.0, -50.0, 0.0, 30.0, 80.0, 150.0])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_word_that_its_bias_makes_certain_is_no_more_than_certain(
    precision: PrecisionName, bias: float
) -> None:
    generator = torch.Generator().manual_seed(4)
    rows, weight = (
        torch.randn(40, 500, generator=generator),
        torch.randn(9, 500, generator=generator),
    )
    biases = torch.full((9,), bias - 100)
    biases[0] = bias
    with torch.inference_mode():
        products = Products(Precision(precision, CPU), CPU)
        probabilities = WordProbabilities(weight / 500, biases, products)
        normalizers = probabilities.log_normalizers(rows)
        found = probabilities.log_probs(rows, normalizers, np.arange(40), np.zeros(40, np.int64))
    assert found.max() <= 0
    assert found.min() > -1e-3


@pytest.mark.usefixtures("way_of_words")
@pytest.mark.parametrize("shift", [0.0, 100.0, -150.0])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_distribution_is_a_softmax_with_the_normaliser_of_scoring(
    precision: PrecisionName, shift: float
) -> None:
    generator = torch.Generator().manual_seed(5)
    rows, weight = (
        torch.randn(30, 48, generator=generator),
        torch.randn(700, 48, generator=generator),
    )
    bias = torch.randn(700, generator=generator) + shift
    products = Products(Precision(precision, CPU), CPU)
    with torch.inference_mode():
        probabilities = WordProbabilities(weight / 5, bias, products)
        found, normalizers = probabilities.log_distributions(rows)
        assert torch.equal(normalizers, probabilities.log_normalizers(rows))
    seen = (
        products.precision.rounded_values(rows).double(),
        products.precision.rounded_values(weight / 5).double(),
    )
    expected = torch.log_softmax(seen[0] @ seen[1].t() + bias.double(), 1)
    tolerance = {"float32": 3e-5, "bfloat16": 0.1, "int8": 3e-4}[precision]
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("units", "lacking"),
    [
        ({"avx512_vnni": False, "avx_vnni": False, "amx_int8": False}, True),
        ({"avx512_vnni": True, "avx_vnni": False, "amx_int8": False}, False),
        ({}, False),
    ],
)
def test_a_type_without_instructions_is_warned_of_once(
    units: dict[str, bool],
    lacking: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: units)
    _warn_of_missing_units.cache_clear()
    try:
        Precision("int8", CPU)
        Precision("int8", CPU)
        Precision("float32", CPU)
    finally:
        _warn_of_missing_units.cache_clear()
    assert [record.message for record in caplog.records] == [
        "this processor has no instructions for products in int8: float32 is likely faster"
    ] * lacking


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_a_logit_that_no_sum_is_taken_from_is_not_rounded(precision: PrecisionName) -> None:
    rows, weight = certain(1.0)
    bias = torch.arange(len(rows)) / 10
    places, words = np.array([3, 0, 3, 7]), np.array([2, 0, 5, 7])
    with torch.inference_mode():
        products = Products(Precision(precision, CPU), CPU)
        found = WordProbabilities(weight, bias, products).logits(rows, places, words)
    expected = (rows[places].double() * weight[words].double()).sum(1) + bias[words]
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-5)


@pytest.mark.usefixtures("way_of_words")
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_certain_word_of_logit_0_is_no_more_than_certain(precision: PrecisionName) -> None:
    # A power of 2 is good to 2e-4 of its value, and this word's is all there is.
    bias = torch.tensor([0.0, -100.0, -100.0])
    with torch.inference_mode():
        products = Products(Precision(precision, CPU), CPU)
        probabilities, rows = WordProbabilities(torch.zeros(3, 8), bias, products), torch.ones(5, 8)
        normalizers = probabilities.log_normalizers(rows)
        found = probabilities.log_probs(rows, normalizers, np.arange(5), np.zeros(5, np.int64))
    assert found.tolist() == [0] * 5


@pytest.mark.usefixtures("way_of_words")
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_words_whose_exp_is_cut_off_add_up_to_nothing(precision: PrecisionName) -> None:
    bias = torch.full((20_001,), -200.0)
    bias[0] = -68.0
    with torch.inference_mode():
        products = Products(Precision(precision, CPU), CPU)
        probabilities = WordProbabilities(torch.zeros(len(bias), 8), bias, products)
        found = probabilities.log_normalizers(torch.ones(5, 8))
    # In bfloat16 the logit has 8 bits.
    expected = torch.full((5,), -68.0, dtype=torch.float64)
    torch.testing.assert_close(
        found.double(), expected, rtol=0, atol=0.2 if precision == "bfloat16" else 1e-5
    )
