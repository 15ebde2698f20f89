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

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tests.reference_encoder_decoder import END, Array, draw, log_softmax, sigmoid


def log_prob(
    parameters: Mapping[str, NDArray[np.floating]],
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    *,
    reverse_source: bool = True,
) -> float:
    """Return log p(target ``</s>`` | source), a natural logarithm, not divided by length.

    An empty source leaves the encoder in its initial state, which is 0; an empty target is scored
    for ``</s>`` alone. Neither side holds ``</s>``.
    """
    return sum(word_log_probs(parameters, source_ids, target_ids, reverse_source=reverse_source))


def word_log_probs(
    parameters: Mapping[str, NDArray[np.floating]],
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    *,
    reverse_source: bool = True,
) -> list[float]:
    """Return log p of each target word, and of ``</s>`` after the last one."""
    exact = {name: np.asarray(array, dtype=np.float64) for name, array in parameters.items()}
    layers = sum(name.startswith("encoder.layers.") for name in exact) // 3
    size = exact["output.weight"].shape[1]
    # "Map c, b, a to alpha, beta, gamma": the source is read from its end.
    read = list(source_ids)[::-1] if reverse_source else list(source_ids)
    # (h, c) of every layer
    states = [(np.zeros(size), np.zeros(size)) for _ in range(layers)]
    for word in read:
        states = _step(exact, "encoder", exact["source_embedding"][word], states)
    # The decoder goes on from there; what it reads first is the end of the sentence before.
    found = []
    previous = END
    for word in [*target_ids, END]:
        states = _step(exact, "decoder", exact["target_embedding"][previous], states)
        top = states[-1][0]
        scores = exact["output.weight"] @ top + exact["output.bias"]
        found.append(float(log_softmax(scores)[word]))
        previous = word
    return found


def _step(
    parameters: Mapping[str, Array], side: str, below: Array, states: list[tuple[Array, Array]]
) -> list[tuple[Array, Array]]:
    """Return h and c of every layer after one more word, whose embedding is ``below``."""
    after = []
    for layer, (h, c) in enumerate(states):
        name = f"{side}.layers.{layer}"
        # (i, f, o, g) = (sigm, sigm, sigm, tanh) T (h_t^{l-1}, h_{t-1}^l), T affine
        total = (
            parameters[f"{name}.input.weight"] @ below
            + parameters[f"{name}.input.bias"]
            + parameters[f"{name}.recurrent.weight"] @ h
        )
        size = len(h)
        i = sigmoid(total[:size])
        f = sigmoid(total[size : 2 * size])
        o = sigmoid(total[2 * size : 3 * size])
        g = np.tanh(total[3 * size :])
        # c_t^l = f . c_{t-1}^l + i . g;  h_t^l = o . tanh(c_t^l)
        cell = f * c + i * g
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
    shapes: dict[str, tuple[int, ...]] = {
        "source_embedding": (source_size, embedding_size),
        "target_embedding": (target_size, embedding_size),
        "output.weight": (target_size, hidden_size),
        "output.bias": (target_size,),
    }
    for side in ("encoder", "decoder"):
        for layer in range(layers):
            name = f"{side}.layers.{layer}"
            below = embedding_size if layer == 0 else hidden_size
            shapes[f"{name}.input.weight"] = (4 * hidden_size, below)
            shapes[f"{name}.input.bias"] = (4 * hidden_size,)
            shapes[f"{name}.recurrent.weight"] = (4 * hidden_size, hidden_size)
    return draw(rng, shapes, std)
