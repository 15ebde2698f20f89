"""Convert weights to a vector in the order of a pool's features, and back."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import PhrasescoreError
from phrasescore.records import FeatureLabel, Weights

Vector = NDArray[np.float64]


def weights_vector(weights: Weights, labels: Sequence[FeatureLabel], where: str = "") -> Vector:
    """Return the weight of each label, 0 if there is none.

    :param where: the source of the weights, for the message.
    """
    sizes: dict[str, int] = {}
    for label in labels:
        sizes[label.name] = max(sizes.get(label.name, 0), label.place + 1)
    for name, size in sizes.items():
        if name in weights and len(weights[name]) != size:
            problem = f"expected {size} weights of {name}, as there are values"
            source = f"{where}: " if where else ""
            raise PhrasescoreError(f"{source}{problem}, found {len(weights[name])}")
    return np.array(
        [weights[label.name][label.place] if label.name in weights else 0.0 for label in labels]
    )


def named_weights(vector: Vector, labels: Sequence[FeatureLabel]) -> Weights:
    """Return the weights of a vector by feature name, in order of appearance.

    >>> named_weights(np.array([1.0, 2.0]), [FeatureLabel("TM0", 0), FeatureLabel("TM0", 1)])
    {'TM0': (1.0, 2.0)}
    """
    weights: Weights = {}
    for label, weight in sorted(
        zip(labels, vector.tolist(), strict=True), key=lambda pair: pair[0].place
    ):
        weights[label.name] = (*weights.get(label.name, ()), weight)
    return {label.name: weights[label.name] for label in labels}


def weights_between(one: Weights, other: Weights, share: float) -> Weights:
    """Return weights at a share of the way from one to the other; missing weights are 0.

    >>> weights_between({"A": (1.0,)}, {"A": (0.0,), "B": (1.0,)}, 0.25)
    {'A': (0.75,), 'B': (0.25,)}
    """
    if share == 1:
        return other
    weights: Weights = {}
    for name in {**one, **other}:
        nothing = (0.0,) * len(other.get(name, one.get(name, ())))
        pairs = zip(one.get(name, nothing), other.get(name, nothing), strict=True)
        weights[name] = tuple((1 - share) * old + share * new for old, new in pairs)
    return weights
