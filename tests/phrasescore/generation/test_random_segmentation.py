"""Random segments: their chances against all segmentations, and the moments asked for."""

import numpy as np
import pytest

from phrasescore.generation.random_segmentation import fit_random_cuts, random_cuts
from phrasescore.generation.segmentation import Cut
from tests.compositions import compositions

DRAWS = 4000


def drawn(cuts: Cut, length: int) -> list[list[int]]:
    return [cuts(number, length) for number in range(DRAWS)]


@pytest.mark.parametrize(("per_segment", "per_square"), [(0.0, 0.0), (-0.7, 0.0), (0.4, 3.0)])
def test_segmentations_have_the_chances_of_the_formula(
    per_segment: float, per_square: float
) -> None:
    cuts = random_cuts(per_segment, per_square, max_segment=3)
    everything = [tuple(sizes) for sizes in compositions(5, 3)]
    weights = np.array(
        [
            np.exp(per_segment * len(sizes) + per_square / 9 * sum(size**2 for size in sizes))
            for sizes in everything
        ]
    )
    found = [tuple(sizes) for sizes in drawn(cuts, 5)]
    for sizes, chance in zip(everything, weights / weights.sum(), strict=True):
        deviation = (chance * (1 - chance) / DRAWS) ** 0.5
        assert found.count(sizes) / DRAWS == pytest.approx(chance, abs=4 * deviation)


def test_a_number_has_the_same_cuts_whatever_was_cut_before() -> None:
    cuts = random_cuts(0.1, -1.0, max_segment=6)
    found = [cuts(number, 12) for number in range(50)]
    again = random_cuts(0.1, -1.0, max_segment=6)
    again(0, 100)
    assert [again(number, 12) for number in reversed(range(50))] == found[::-1]
    assert len(set(map(tuple, found))) > 10
    assert cuts(0, 0) == []


def moments(segmentations: list[list[int]]) -> tuple[float, float]:
    sizes = np.array([size for sizes in segmentations for size in sizes])
    return sizes.mean(), sizes.var()


@pytest.mark.parametrize("mean", [2.0, 5.0, 9.0])
def test_random_segments_have_mean_and_variance_of_others(mean: float) -> None:
    # Others of no form that the distribution has: lengths of a Poisson distribution, cut at the end
    # of the sentence.
    generator = np.random.default_rng(11)
    others = []
    for length in generator.integers(1, 40, size=3000).tolist():
        sizes, left = [], length
        while left:
            sizes.append(int(min(left, 20, 1 + generator.poisson(mean - 1))))
            left -= sizes[-1]
        others.append(sizes)
    cuts = fit_random_cuts(others, max_segment=20)
    found = [cuts(number, sum(sizes)) for number, sizes in enumerate(others)]
    assert [sum(sizes) for sizes in found] == [sum(sizes) for sizes in others]
    assert found != others
    # Sampling error of some thousand segments: 2 % of the mean, 6 % of the variance.
    assert moments(found)[0] == pytest.approx(moments(others)[0], rel=0.02)
    assert moments(found)[1] == pytest.approx(moments(others)[1], rel=0.06)


def test_moments_that_no_distribution_has_are_come_near_to() -> None:
    whole = [[length] for length in range(1, 21)] * 3
    cuts = fit_random_cuts(whole, max_segment=20)
    assert [cuts(number, sum(sizes)) for number, sizes in enumerate(whole)] == whole
    words = [[1] * length for length in range(1, 21)] * 3
    cuts = fit_random_cuts(words, max_segment=20)
    assert [cuts(number, sum(sizes)) for number, sizes in enumerate(words)] == words


def test_weights_of_zero_leave_all_cuts_equally_probable() -> None:
    cuts = random_cuts(0.0, 0.0, max_segment=2)
    share = sum(sizes == [2] for sizes in drawn(cuts, 2)) / DRAWS
    assert share == pytest.approx(0.5, abs=0.032)
