"""A slow feed-forward language model in float64 numpy, one n-gram at a time.

Written from Cho et al. (2014), section 4.1.2, and Schwenk (2007), and from nothing else; it shares
no code with the package, and has neither batches nor padding.

Parameters have these names, where N is the order, E the embedding's size, H and U the sizes of the
two layers, and K that of the shortlist with ``</s>`` (0) and ``<unk>`` (1)::

    embedding (K, E)
    lower.{weight,bias}     (H, (N - 1) E), (H,)
    upper.{weight,bias}     (U, H), (U,)
    output.{weight,bias}    (K, U), (K,)
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

END = 0


def logits(parameters: Mapping[str, NDArray[np.floating]], context: Sequence[int]) -> Array:
    """Return what the softmax is of, for each word of the shortlist, ``(K,)``.

    :param context: the N - 1 words before, the oldest first.
    """
    exact = {name: np.asarray(array, dtype=np.float64) for name, array in parameters.items()}
    # "concatenated to form a 3072-dimensional vector ... fed through two rectified layers"
    layer = np.concatenate([exact["embedding"][word] for word in context])
    for name in ("lower", "upper"):
        layer = np.maximum(exact[f"{name}.weight"] @ layer + exact[f"{name}.bias"], 0.0)
    scores: Array = exact["output.weight"] @ layer + exact["output.bias"]
    return scores


def word_log_prob(
    parameters: Mapping[str, NDArray[np.floating]], context: Sequence[int], word: int
) -> float:
    """Return log p(word | context), a natural logarithm."""
    scores = logits(parameters, context)
    return float(scores[word] - np.log(np.exp(scores - scores.max()).sum()) - scores.max())


def word_log_probs(
    parameters: Mapping[str, NDArray[np.floating]], order: int, ids: Sequence[int]
) -> list[float]:
    """Return log p of each word of a sentence, and of ``</s>`` after the last one.

    A place before the sentence holds the symbol of its boundary, which is that of its end.
    """
    padded = [END] * (order - 1) + list(ids) + [END]
    return [
        word_log_prob(parameters, padded[place - order + 1 : place], padded[place])
        for place in range(order - 1, len(padded))
    ]


def random_parameters(
    rng: np.random.Generator,
    *,
    order: int,
    embedding_size: int,
    hidden_size: int,
    upper_size: int,
    size: int,
    std: float = 0.5,
) -> dict[str, Array]:
    """Return float64 parameters, every one drawn from N(0, ``std``²), biases too."""
    shapes: dict[str, tuple[int, ...]] = {
        "embedding": (size, embedding_size),
        "lower.weight": (hidden_size, (order - 1) * embedding_size),
        "lower.bias": (hidden_size,),
        "upper.weight": (upper_size, hidden_size),
        "upper.bias": (upper_size,),
        "output.weight": (size, upper_size),
        "output.bias": (size,),
    }
    return {name: rng.normal(0.0, std, shape) for name, shape in shapes.items()}
