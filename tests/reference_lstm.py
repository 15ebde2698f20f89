"""A slow deep LSTM in float64 numpy, one pair at a time, to test the fast one against.

Written from Sutskever et al. (2014), sections 2 and 3, and Zaremba et al. (2014), equation 3, and
from nothing else; it shares no code with the package, and has neither batches nor padding.

Parameters have these names, where L is the number of layers, H their size, E the embedding's, and
Ks, Kt the sizes of the two shortlists with ``</s>`` (0) and ``<unk>`` (1); N is 0 .. L - 1, and D
is E for N = 0 and else H. The rows of the 4H are the gates i, f, o and the candidate g::

    source_embedding (Ks, E), target_embedding (Kt, E)
    encoder.layers.N.input.{weight,bias}     (4H, D), (4H,)
    encoder.layers.N.recurrent.weight        (4H, H)
    decoder.layers.N....                     likewise
    output.{weight,bias}                     (Kt, H), (Kt,)
"""

from collections.abc import Sequence

import numpy as np

from tests.reference_encoder_decoder import (
    END,
    Array,
    Arrays,
    Parameters,
    Shapes,
    affine,
    draw,
    log_softmax,
    sigmoid,
)


def log_prob(
    arrays: Arrays,
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    *,
    reverse_source: bool = True,
) -> float:
    """Return log p(target ``</s>`` | source), a natural logarithm, not divided by length.

    An empty source leaves the encoder in its initial state, which is 0; an empty target is scored
    for ``</s>`` alone. Neither side holds ``</s>``.
    """
    return sum(word_log_probs(arrays, source_ids, target_ids, reverse_source=reverse_source))


def word_log_probs(
    arrays: Arrays,
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    *,
    reverse_source: bool = True,
) -> list[float]:
    """Return log p of each target word, and of ``</s>`` after the last one."""
    p = Parameters(arrays)
    layers = sum(name.startswith("encoder.layers.") for name in arrays) // 3
    size = p["output.weight"].shape[1]
    # (h, c) of every layer
    states = [(np.zeros(size), np.zeros(size)) for _ in range(layers)]
    # "Map c, b, a to alpha, beta, gamma": the source is read from its end.
    for word in source_ids[::-1] if reverse_source else source_ids:
        states = _step(p, "encoder", p["source_embedding"][word], states)
    # The decoder goes on from there; what it reads first is the end of the sentence before.
    found = []
    previous = END
    for word in [*target_ids, END]:
        states = _step(p, "decoder", p["target_embedding"][previous], states)
        found.append(float(log_softmax(p("output", states[-1][0]))[word]))
        previous = word
    return found


def _step(
    p: Parameters, side: str, below: Array, states: list[tuple[Array, Array]]
) -> list[tuple[Array, Array]]:
    """Return h and c of every layer after one more word, whose embedding is ``below``."""
    after = []
    for layer, (h, c) in enumerate(states):
        name = f"{side}.layers.{layer}"
        # (i, f, o, g) = (sigm, sigm, sigm, tanh) T (h_t^{l-1}, h_{t-1}^l), T affine
        *gates, g = np.split(p(f"{name}.input", below) + p(f"{name}.recurrent", h), 4)
        i, f, o = map(sigmoid, gates)
        # c_t^l = f . c_{t-1}^l + i . g;  h_t^l = o . tanh(c_t^l)
        cell = f * c + i * np.tanh(g)
        below = o * np.tanh(cell)
        after.append((below, cell))
    return after


def random_parameters(
    rng: np.random.Generator,
    *,
    layers: int,
    hidden_size: int,
    embedding_size: int,
    source_size: int,
    target_size: int,
    std: float = 0.5,
) -> dict[str, Array]:
    """Return float64 parameters, every one drawn from N(0, ``std``²), biases too."""
    shapes: Shapes = {
        "source_embedding": (source_size, embedding_size),
        "target_embedding": (target_size, embedding_size),
        **affine("output", target_size, hidden_size),
    }
    for side in ("encoder", "decoder"):
        for layer in range(layers):
            name = f"{side}.layers.{layer}"
            below = embedding_size if layer == 0 else hidden_size
            shapes |= affine(f"{name}.input", 4 * hidden_size, below)
            shapes[f"{name}.recurrent.weight"] = (4 * hidden_size, hidden_size)
    return draw(rng, shapes, std)
