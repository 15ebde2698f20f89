"""Maps of words, phrases and sentences, by the vectors that a network has for them.

Cho et al. (2014), figures 4 and 5; Sutskever et al. (2014), figure 2.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from phrasescore.report.blocks import Points, Section
from phrasescore.report.projections import (
    FEWEST,
    PERPLEXITY,
    Floats,
    neighbour_map,
    perplexity_of,
    principal_components,
)

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
    """What a map is made from."""

    # What they are, for a title: "m30k: words it reads".
    title: str
    # Of the blocks: "words-1".
    name: str
    # (points, size)
    vectors: Floats
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    # Which ones they are, in a sentence.
    caption: str


def maps(key: str, sets: Sequence[Vectors], seed: int) -> tuple[Section | None, list[str]]:
    """Return a section of maps, and why what is left out is not in it.

    :param key: words, phrases or sentences.
    """
    blocks: list[Points] = []
    reasons: list[str] = []
    for found in sets:
        problem = _problem(found)
        if problem is None:
            blocks += _draw(found, seed)
        else:
            reasons.append(f"{found.title}: {problem}")
    if not blocks:
        return None, reasons
    lead = f"{_LEADS[key]}\n\n{_COMPONENTS}"
    return Section(key, f"Maps of {key}", lead, tuple(blocks)), reasons


def _problem(found: Vectors) -> str | None:
    """Return why no map can be made, None if one can."""
    count = len(found.vectors)
    if count < FEWEST:
        return f"a map needs {FEWEST} points, found {count}"
    if not np.ptp(found.vectors, axis=0).any():
        return f"all {count:,} vectors are the same"
    return None


def _draw(found: Vectors, seed: int) -> Iterator[Points]:
    count = len(found.vectors)
    perplexity = perplexity_of(count)
    used = f"t-SNE, perplexity {perplexity:g}"
    if perplexity < PERPLEXITY:
        used = f"{used} (and not {PERPLEXITY:g}: there are only {count} points)"
    yield _points(found, "tsne", "t-SNE", neighbour_map(found.vectors, seed), ("", ""), used)
    plane, shares = principal_components(found.vectors)
    first, second = (f"component {place + 1} ({shares[place]:.1%})" for place in range(2))
    used = f"Principal components, with {shares.sum():.1%} of the variance"
    yield _points(found, "pca", "principal components", plane, (first, second), used)


def _points(
    found: Vectors, ending: str, how: str, plane: Floats, axes: tuple[str, str], used: str
) -> Points:
    # No more digits than can be seen: they would be most of the page.
    x, y = (tuple(float(f"{value:.4g}") for value in column) for column in plane.T.tolist())
    return Points(
        name=f"{found.name}-{ending}",
        title=f"{found.title} ({how})",
        x_label=axes[0],
        y_label=axes[1],
        x=x,
        y=y,
        labels=found.labels,
        groups=found.groups,
        is_map=True,
        caption=f"{found.caption} {used}.",
    )
