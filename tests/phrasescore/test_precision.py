"""What rounding may do to log-probabilities, and what it may not."""

import pytest
import torch

from phrasescore.scoring.fixed_products import FixedProducts
from phrasescore.scoring.normalizer import Normalizer
from phrasescore.scoring.precision import Precision, PrecisionName
from phrasescore.scoring.word_probabilities import WordProbabilities

CPU = torch.device("cpu")


def certain(size: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows and weights of as many words; word i is all but certain after row i."""
    rows = torch.randn(40, 64, generator=torch.Generator().manual_seed(1))
    return rows * size, rows


@pytest.mark.parametrize(("precision", "size"), [("float32", 2e3), ("bfloat16", 1.0)])
def test_a_certain_word_has_log_probability_0_whatever_rounding_does(
    precision: PrecisionName, size: float
) -> None:
    rows, weight = certain(size)
    found = Precision(precision, CPU)
    words = torch.arange(len(rows))
    with torch.inference_mode():
        probabilities = WordProbabilities(weight, torch.zeros(len(rows)), FixedProducts(found, CPU))
        normalizers = probabilities.log_normalizers(rows)
        of_words = probabilities.log_probs(rows, normalizers, words.numpy(), words.numpy())
        normalizer = Normalizer(weight, torch.zeros(len(rows)), found)
        factors = normalizer.extend(rows, torch.empty(len(rows), normalizer.width))
        of_pairs = normalizer.log_probs(factors, words, normalizer.log_normalizers(factors))
    for log_probs in (of_words, of_pairs):
        assert log_probs.max() == 0
        assert log_probs.min() > -1


def test_what_rounding_does_not_explain_is_left_for_others_to_find() -> None:
    rows = torch.ones(3, 4)
    log_probs = torch.tensor([1e-7, 1e-3, -1.0])
    settled = Precision("float32", CPU).at_most_certain(log_probs, rows, rows)
    assert settled.tolist() == [0.0, log_probs[1].item(), -1.0]
