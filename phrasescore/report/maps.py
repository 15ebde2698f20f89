"""Maps of words, phrases and sentences: the vectors of a network as points of a plane.

Sutskever et al. (2014) draw their figure 2 by principal components, Cho et al. (2014) their figures
4 and 5 by t-SNE with Barnes and Hut's approximation (van der Maaten, 2013).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.report.blocks import Points, Section

Floats = NDArray[np.float64]

# The usual perplexity of t-SNE: the effective number of neighbours of a point.
PERPLEXITY = 30.0
# The least number of points of a map: with 4, a third of the other points is a perplexity of 1.
FEWEST = 4
# t-SNE sees the first principal components only, so neighbours are neighbours among these.
_DIMENSIONS = 50
# Deviation of the first component of the plane that t-SNE starts from, as in scikit-learn.
_START_DEVIATION = 1e-4

_COMPONENTS = """\
The second kind of map shows the two directions in which the vectors differ most (principal \
components): distances in it are those of the vectors, seen from one side. The first kind (t-SNE) \
keeps neighbours together; how far groups lie apart in it says little."""

_LEADS = {
    "words": "Each point is a word, placed by the vector (embedding) that the network has learned "
    "for it: words that the network treats alike are near one another.",
    "phrases": "Each point is a phrase, placed by the vector c that the encoder makes of it, from "
    "which all its translations are predicted.",
    "sentences": "Each point is a sentence, placed by what the encoder makes of it, from which the "
    "whole translation is predicted: c, or the last state of an LSTM's upper layer.",
}


class Vectors(NamedTuple):
    """The vectors of a map, and how the map describes them."""

    # Describes the points, as "m30k: words that it reads".
    title: str
    # Begins the names of the blocks, as "words-1".
    name: str
    # (points, size)
    vectors: Floats
    # One text, and one group, per point.
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    # A sentence that says how the points were chosen.
    caption: str


def map_section(key: str, sets: Sequence[Vectors], seed: int) -> tuple[Section, list[str]]:
    """Return a section with two maps per set, and a reason for each set that is left out.

    :param key: words, phrases or sentences.
    :param seed: start of the random choices of t-SNE.
    """
    blocks: list[Points] = []
    reasons: list[str] = []
    for vectors in sets:
        problem = _problem(vectors)
        if problem is None:
            blocks += _draw(vectors, seed)
        else:
            reasons.append(f"{vectors.title}: {problem}")
    lead = f"{_LEADS[key]}\n\n{_COMPONENTS}"
    return Section(key, f"Maps of {key}", lead, tuple(blocks)), reasons


def _problem(found: Vectors) -> str | None:
    """Return why the vectors cannot be mapped, None if they can."""
    count = len(found.vectors)
    if count < FEWEST:
        return f"a map needs {FEWEST} points, found {count}"
    if not np.ptp(found.vectors, axis=0).any():
        return f"all {count:,} vectors are the same"
    return None


def _draw(found: Vectors, seed: int) -> Iterator[Points]:
    count = len(found.vectors)
    perplexity = choose_perplexity(count)
    used = f"t-SNE, perplexity {perplexity:g}"
    if perplexity < PERPLEXITY:
        used = f"{used} (and not {PERPLEXITY:g}: there are only {count} points)"
    yield _points(found, "tsne", "t-SNE", neighbour_map(found.vectors, seed), ("", ""), used)
    plane, shares = principal_components(found.vectors)
    first, second = (f"component {place + 1} ({shares[place]:.1%})" for place in range(2))
    used = f"Principal components, with {shares.sum():.1%} of the variance"
    yield _points(found, "pca", "principal components", plane, (first, second), used)


def _points(
    found: Vectors, ending: str, method: str, plane: Floats, axes: tuple[str, str], used: str
) -> Points:
    # Digits that cannot be seen would be most of the page.
    x, y = (tuple(float(f"{value:.4g}") for value in column) for column in plane.T.tolist())
    return Points(
        name=f"{found.name}-{ending}",
        title=f"{found.title} ({method})",
        x_label=axes[0],
        y_label=axes[1],
        x=x,
        y=y,
        labels=found.labels,
        groups=found.groups,
        is_map=True,
        caption=f"{found.caption} {used}.",
    )


# Projections


def principal_components(vectors: Floats, count: int = 2) -> tuple[Floats, Floats]:
    """Return the coordinates of vectors along the directions in which they vary most.

    The sign of a component is such that the coordinate of the largest absolute value is positive:
    equal vectors give equal pictures.

    :param vectors: ``(points, size)``.
    :return: coordinates, ``(points, count)``, and each component's share of the variance,
        ``(count,)``; components that there are too few dimensions for are 0.
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


def choose_perplexity(points: int) -> float:
    """Return the perplexity of a map: 30, or a third of the other points if that is less."""
    return min(PERPLEXITY, (points - 1) / 3)


def neighbour_map(vectors: Floats, seed: int) -> Floats:
    """Return a plane in which neighbours are points whose vectors are near one another.

    t-SNE with the perplexity of `choose_perplexity`, from the plane of the first two principal
    components, on one thread: equal vectors give equal maps.

    :param vectors: ``(points, size)``, at least `FEWEST`, and not all equal.
    :return: ``(points, 2)``.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    reduced, _ = principal_components(vectors, min(_DIMENSIONS, *vectors.shape))
    deviation = reduced[:, 0].std()
    start = np.pad(reduced[:, :2], ((0, 0), (0, max(0, 2 - reduced.shape[1]))))
    with threadpool_limits(1):
        found = TSNE(
            perplexity=choose_perplexity(len(vectors)),
            init=(start * _START_DEVIATION / deviation).astype(np.float32),
            random_state=seed,
            n_jobs=1,
        ).fit_transform((reduced / deviation).astype(np.float32))
    return np.asarray(found, np.float64)
