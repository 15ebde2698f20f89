"""Words chosen of distributions, in compiled loops and by torch as on a GPU."""

import numpy as np
import pytest
import torch

from phrasescore.generation.word_choice import best_words, draw_words
from phrasescore.kernels import precision

INFINITE = -torch.inf


@pytest.fixture(params=["compiled", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Choose in the way of each kind of device."""
    if request.param == "torch":
        monkeypatch.setattr(precision, "FUSED_DEVICES", ())
    return str(request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("count", [1, 4, 30, 50])
def test_the_best_words_are_those_of_a_sort(count: int) -> None:
    log_probs = torch.randn(20, 37, generator=torch.Generator().manual_seed(count))
    found = best_words(log_probs, count)
    assert found.shape == (20, count)
    for row, words in zip(log_probs.numpy(), found, strict=True):
        wanted = np.argsort(-row)[:count]
        np.testing.assert_array_equal(words[: len(wanted)], wanted)
        assert set(words[len(wanted) :].tolist()) <= {-1}


def test_of_equal_words_the_lower_number_comes_first() -> None:
    log_probs = torch.tensor([[-3.0, -1.0, -2.0, -1.0, -2.0, -1.0]])
    assert best_words(log_probs, 4).tolist() == [[1, 3, 5, 2]]
    assert best_words(log_probs, 2).tolist() == [[1, 3]]


@pytest.mark.usefixtures("way")
def test_a_word_without_probability_is_none() -> None:
    log_probs = torch.tensor([[-1.0, INFINITE, -0.5], [INFINITE, INFINITE, -0.5]])
    assert best_words(log_probs, 3).tolist() == [[2, 0, -1], [2, -1, -1]]


@pytest.mark.usefixtures("way")
def test_a_number_points_at_the_word_whose_share_it_lies_in() -> None:
    # Shares of 0.25, 0, 0.5, 0.25; and one word that is certain.
    log_probs = torch.tensor([[0.25, 0.0, 0.5, 0.25], [0.0, 0.0, 1.0, 0.0]]).log()
    numbers = np.array([0.0, 0.24, 0.26, 0.74, 0.76, 1 - 2**-53, 0.0, 1 - 2**-53])
    found = draw_words(log_probs, np.array([0, 6, 8]), numbers)
    assert found.tolist() == [0, 0, 2, 2, 3, 3, 2, 2]


@pytest.mark.usefixtures("way")
def test_rows_without_numbers_are_passed_over() -> None:
    log_probs = torch.tensor([[0.0, -50.0], [-50.0, 0.0], [0.0, -50.0]])
    found = draw_words(log_probs, np.array([0, 0, 2, 2]), np.array([0.5, 0.9]))
    assert found.tolist() == [1, 1]


@pytest.mark.usefixtures("way")
def test_improbable_words_are_not_drawn_and_overflow_nothing() -> None:
    log_probs = torch.tensor([[-1900.0, -800.0, -1850.0]])
    numbers = np.linspace(0, 1, 50, endpoint=False)
    assert set(draw_words(log_probs, np.array([0, 50]), numbers).tolist()) == {1}
