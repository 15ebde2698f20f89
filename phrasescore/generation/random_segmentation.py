"""Random segments with the same length distribution as confident segments, as a control.

Pouget-Abadie et al. (2014), section 5.1, cut sentences at random so that "the distribution of the
lengths of random segments has its mean and variance identical to those of the segments produced by
our algorithm". This is the distribution of maximum entropy with these two moments:

    p(segmentation) ~ exp(a * number of segments + b * sum of squared lengths)
"""

from collections.abc import Iterable, Sequence

import numpy as np
import scipy.optimize
from scipy.special import logsumexp

from phrasescore.generation.segmentation import SEED, Cut, Floats

_BOUND = 1000.0  # of a and b, which extreme moments (whole sentences) would make infinite


def random_cuts(per_segment: float, per_square: float, *, max_segment: int) -> Cut:
    """Return a function that draws segmentations; each depends only on its number.

    :param per_segment: a in the module's formula.
    :param per_square: b times the square of ``max_segment``.
    """
    log_weights = _log_weights(per_segment, per_square, max_segment)
    # Entry n is the log of the total weight of all segmentations of n words.
    log_totals = np.zeros(1)

    def cut(number: int, length: int) -> list[int]:
        nonlocal log_totals
        generator = np.random.default_rng([SEED, number])
        if length >= len(log_totals):
            log_totals = _log_totals(log_weights, length)
        sizes = []
        left = length
        while left:
            longest = min(left, max_segment)
            before = log_totals[left - longest : left][::-1]
            shares = np.cumsum(np.exp(before + log_weights[:longest] - log_totals[left]))
            drawn = generator.random() * shares[-1]
            size = min(int(np.searchsorted(shares, drawn, side="right")) + 1, longest)
            sizes.append(size)
            left -= size
        return sizes

    return cut


def fit_random_cuts(segmentations: Iterable[Sequence[int]], *, max_segment: int) -> Cut:
    """Fit cuts to the mean and variance of the segment lengths in one or more segmentations."""
    counts: dict[int, int] = {}
    segments = squares = 0
    for sizes in segmentations:
        counts[sum(sizes)] = counts.get(sum(sizes), 0) + 1
        segments += len(sizes)
        squares += sum(size**2 for size in sizes)
    lengths = np.array(sorted(counts))
    shares = np.array([counts[length] for length in lengths.tolist()]) / sum(counts.values())
    wanted = np.array([segments, squares / max_segment**2]) / sum(counts.values())

    def surplus(weights: Floats) -> tuple[float, Floats]:
        log_totals, expected = _expect(weights, int(lengths[-1]), max_segment)
        value = float(shares @ log_totals[lengths] - weights @ wanted)
        return value, shares @ expected[lengths] - wanted

    # The objective is convex: the negative log-likelihood of an exponential family.
    fit = scipy.optimize.minimize(
        surplus,
        np.zeros(2),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-_BOUND, _BOUND)] * 2,
        options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 1000},
    )
    per_segment, per_square = fit.x.tolist()
    return random_cuts(per_segment, per_square, max_segment=max_segment)


def _log_weights(per_segment: float, per_square: float, max_segment: int) -> Floats:
    weights: Floats = per_segment + per_square * (np.arange(1, max_segment + 1) / max_segment) ** 2
    return weights


def _log_totals(log_weights: Floats, length: int) -> Floats:
    """Return the log of the segmentations' total weight for 0 to ``length`` words."""
    totals = np.zeros(length + 1)
    for end in range(1, length + 1):
        longest = min(end, len(log_weights))
        totals[end] = logsumexp(totals[end - longest : end][::-1] + log_weights[:longest])
    return totals


def _expect(weights: Floats, length: int, max_segment: int) -> tuple[Floats, Floats]:
    """Return the log totals and the expectations for segmentations of 0 to ``length`` words.

    :return: ``(length + 1,)``, and ``(length + 1, 2)``: the number of segments, and the sum of
        their squared lengths divided by the square of ``max_segment``.
    """
    per_segment, per_square = weights.tolist()
    log_weights = _log_weights(per_segment, per_square, max_segment)
    totals = _log_totals(log_weights, length)
    squares = (np.arange(1, max_segment + 1) / max_segment) ** 2
    own = np.stack([np.ones(max_segment), squares], axis=1)
    expected = np.zeros((length + 1, 2))
    for end in range(1, length + 1):
        longest = min(end, max_segment)
        part = slice(end - longest, end)
        chances = np.exp(totals[part][::-1] + log_weights[:longest] - totals[end])
        expected[end] = chances @ (expected[part][::-1] + own[:longest])
    return totals, expected
