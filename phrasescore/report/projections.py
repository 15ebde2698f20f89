"""Vectors as points of a plane: by principal components, and by t-SNE.

Sutskever et al. (2014) draw their figure 2 by the first, Cho et al. (2014) their figures 4 and 5 by
the second, with Barnes and Hut's approximation (van der Maaten, 2013).
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Of t-SNE: how many neighbours a point has, in effect; and the least number of points with which
# a third of the others is a perplexity.
PERPLEXITY = 30.0
FEWEST = 4
# Dimensions that t-SNE sees: its neighbours are those of the first principal components.
_DIMENSIONS = 50
# Of the plane that t-SNE starts from, as scikit-learn's own.
_START_DEVIATION = 1e-4


def principal_components(vectors: Floats, count: int = 2) -> tuple[Floats, Floats]:
    """Return the vectors' first principal components, and each one's share of the variance.

    The sign of a component is such that its largest coordinate, in absolute value, of the points is
    positive: the same vectors give the same picture.

    :param vectors: ``(points, size)``.
    :return: ``(points, count)`` and ``(count,)``; what there are too few dimensions for is 0.
    """
    centred = np.asarray(vectors, np.float64) - np.mean(vectors, axis=0, dtype=np.float64)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    found = left[:, :count] * singular[:count]
    largest = np.abs(found).argmax(axis=0)
    found *= np.where(found[largest, np.arange(found.shape[1])] < 0, -1.0, 1.0)
    total = (singular**2).sum()
    shares = singular[:count] ** 2 / total if total > 0 else np.zeros(found.shape[1])
    missing = count - found.shape[1]
    return np.pad(found, ((0, 0), (0, missing))), np.pad(shares, (0, missing))


def perplexity_of(points: int) -> float:
    """Return the perplexity of a map: 30, or less where that is more than a third of the others."""
    return min(PERPLEXITY, (points - 1) / 3)


def neighbour_map(vectors: Floats, seed: int) -> Floats:
    """Return a plane, ``(points, 2)``, in which points are near that are near in their own space.

    t-SNE with the perplexity of :func:`perplexity_of`, from the plane of the first two principal
    components, on one thread: the same vectors give the same map.

    :param vectors: ``(points, size)``, of 4 points at least, which are not all the same one.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    if len(vectors) < FEWEST:
        raise ValueError(f"expected at least {FEWEST} points, got {len(vectors)}")
    reduced, _ = principal_components(vectors, min(_DIMENSIONS, *vectors.shape))
    deviation = reduced[:, 0].std()
    if deviation == 0:
        raise ValueError("expected points that are not all the same one")
    start = np.pad(reduced[:, :2], ((0, 0), (0, max(0, 2 - reduced.shape[1]))))
    with threadpool_limits(1):
        found = TSNE(
            perplexity=perplexity_of(len(vectors)),
            init=(start * _START_DEVIATION / deviation).astype(np.float32),
            random_state=seed,
            n_jobs=1,
        ).fit_transform((reduced / deviation).astype(np.float32))
    return np.asarray(found, np.float64)
