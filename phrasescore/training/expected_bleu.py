"""Expected BLEU of n-best lists, as a function of what a network gives each hypothesis.

Gao et al. (2014), Learning Continuous Phrase Representations for Translation Modeling, section 4;
Auli and Gao (2014), Decoder Integration and Expected BLEU Training for Recurrent Neural Network
Language Models, section 4. The network is one feature of a log-linear model whose other features
and weights stay as they are.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class KnownScores(NamedTuple):
    """What is known of the hypotheses of some lists without the network."""

    # (hypotheses,) float64: the log-linear model's score without the network's feature.
    model_scores: Tensor
    # (hypotheses,) float64: sentence BLEU, about 0 to 1.
    gains: Tensor
    # (hypotheses,) int64: the list of each, from 0 on.
    lists: Tensor
    num_lists: int


def expected_gains(scores: KnownScores, values: Tensor, *, weight: float, scale: float) -> Tensor:
    """Return the expected gain of each list, ``(lists,)``, differentiable by the values.

    A hypothesis has the probability softmax(scale * total) in its list, where its total is the
    model score and ``weight`` times its value. So the derivative by a value is p (BLEU - E) scale
    weight (Auli and Gao, equation 7).

    :param values: ``(hypotheses,)`` float64: the network's log-probability of each.
    :param weight: of the network's feature.
    :param scale: gamma of the papers, above 0: the larger, the nearer to the BLEU of the best.
    """
    lists, size = scores.lists, scores.num_lists
    totals = scale * (scores.model_scores + weight * values)
    highest = totals.new_full((size,), -torch.inf)
    highest = highest.scatter_reduce(0, lists, totals.detach(), "amax")
    shares = (totals - highest[lists]).exp()
    gains = totals.new_zeros(size).index_add(0, lists, shares * scores.gains)
    return gains / totals.new_zeros(size).index_add(0, lists, shares)


def deviation(scores: KnownScores, values: Tensor, *, weight: float) -> float:
    """Return the standard deviation of the totals inside the lists, over all hypotheses."""
    totals = scores.model_scores + weight * values
    sums = totals.new_zeros(scores.num_lists).index_add(0, scores.lists, totals)
    sizes = torch.bincount(scores.lists, minlength=scores.num_lists)
    distances = totals - (sums / sizes)[scores.lists]
    return float(distances.square().mean().sqrt())
