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

from collections.abc import Sequence

import numpy as np

from tests.reference_encoder_decoder import (
    END,
    Array,
    Arrays,
    Parameters,
    affine,
    draw,
    log_softmax,
)


def logits(arrays: Arrays, context: Sequence[int]) -> Array:
    """Return what the softmax is of, for each word of the shortlist, ``(K,)``.

    :param context: the N - 1 words before, the oldest first.
    """
    p = Parameters(arrays)
    # "concatenated to form a 3072-dimensional vector ... fed through two rectified layers"
    layer = np.concatenate([p["embedding"][word] for word in context])
    for name in ("lower", "upper"):
        layer = np.maximum(p(name, layer), 0.0)
    return p("output", layer)


def word_log_prob(arrays: Arrays, context: Sequence[int], word: int) -> float:
    """Return log p(word | context), a natural logarithm."""
    return float(log_softmax(logits(arrays, context))[word])


def word_log_probs(arrays: Arrays, order: int, ids: Sequence[int]) -> list[float]:
    """Return log p of each word of a sentence, and of ``</s>`` after the last one.

    A place before the sentence holds the symbol of its boundary, which is that of its end.
    """
    padded = [END] * (order - 1) + list(ids) + [END]
    return [
        word_log_prob(arrays, padded[place - order + 1 : place], padded[place])
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
    shapes = {"embedding": (size, embedding_size)}
    lower = affine("lower", hidden_size, (order - 1) * embedding_size)
    upper, output = affine("upper", upper_size, hidden_size), affine("output", size, upper_size)
    return draw(rng, {**shapes, **lower, **upper, **output}, std)
