"""Promises of phrasescore.training.objectives."""

import math

import pytest
import torch

from phrasescore.training.objectives import deviation, expected_gains
from phrasescore.training.stores import KnownScores


def scores(model_scores: list[float], gains: list[float], lists: list[int]) -> KnownScores:
    known, gained = (torch.tensor(each, dtype=torch.float64) for each in (model_scores, gains))
    return KnownScores(known, gained, torch.tensor(lists), max(lists) + 1)


def test_a_list_s_gain_is_the_mean_under_the_softmax_of_the_totals() -> None:
    known = scores([0.0, math.log(3.0), 5.0], [1.0, 0.2, 0.7], [0, 0, 1])
    # Totals 2 * (0 + 0.5 * ln 9) = ln 9 and 2 * (ln 3 + 0.5 * 0) = ln 9: both have one half.
    values = torch.tensor([math.log(9.0), 0.0, -1.0], dtype=torch.float64)
    found = expected_gains(known, values, weight=0.5, scale=2.0)
    assert found.tolist() == pytest.approx([0.6, 0.7], abs=1e-15)


def test_totals_of_any_size_have_a_softmax() -> None:
    known = scores([-1e4, -1e4 - 1, 3e3], [1.0, 0.0, 0.5], [0, 0, 1])
    found = expected_gains(known, torch.zeros(3, dtype=torch.float64), weight=1.0, scale=50.0)
    assert found.tolist() == pytest.approx([1 / (1 + math.exp(-50)), 0.5])


def test_the_gradient_is_that_of_the_papers_and_of_finite_differences() -> None:
    known = scores([0.3, -0.2, 1.1, 0.0, 0.4], [0.9, 0.1, 0.4, 0.3, 0.8], [0, 0, 0, 1, 1])
    values = torch.tensor([-3.0, -2.5, -4.0, -1.0, -1.5], dtype=torch.float64, requires_grad=True)

    def gain(given: torch.Tensor) -> torch.Tensor:
        return expected_gains(known, given, weight=0.4, scale=3.0)

    assert torch.autograd.gradcheck(gain, (values,), eps=1e-6, atol=1e-9)
    gain(values).sum().backward()
    wanted = []
    for rows in (range(3), range(3, 5)):
        totals = [3 * (known.model_scores[row] + 0.4 * values[row]).item() for row in rows]
        shares = [math.exp(total) / sum(map(math.exp, totals)) for total in totals]
        gains = [known.gains[row].item() for row in rows]
        mean = sum(share * one for share, one in zip(shares, gains, strict=True))
        wanted += [
            share * (one - mean) * 3.0 * 0.4 for share, one in zip(shares, gains, strict=True)
        ]
    assert values.grad is not None
    assert values.grad.tolist() == pytest.approx(wanted, abs=1e-12)


def test_the_deviation_is_inside_lists() -> None:
    known = scores([1.0, 3.0, 100.0], [0.0, 0.0, 0.0], [0, 0, 1])
    # Totals 1 and 5 in the first list, whose mean is 3; the list of one hypothesis has none.
    values = torch.tensor([0.0, 1.0, 7.0], dtype=torch.float64)
    assert deviation(known, values, weight=2.0) == pytest.approx(math.sqrt(8 / 3))
