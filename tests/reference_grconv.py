"""A slow grConv in float64 numpy, one sentence at a time, to test the fast one against.

Written from section 2.2 of Cho et al. (2014b), "On the Properties of Neural Machine Translation",
and from nothing else; it shares no code with the package, and has neither batches nor padding. In
the paper's equations of h~ and of the gater, the level of both children reads (t); they are of the
level below, as the first equation and the figure have it. Affine maps have a bias, which the paper
leaves out.

Names are those of ``tests.reference_encoder_decoder``, whose decoder this is, and, where H is the
size of a cell, E the embedding's and Ks that of the source shortlist::

    source_embedding (Ks, E)                       x_j
    projection.{weight,bias}                       U             (H, E), (H,)
    left.{weight,bias}, right.weight               W^l, W^r      (H, H), (H,)
    gate_left.{weight,bias}, gate_right.weight     G^l, G^r      (3, H), (3,)
"""

from collections.abc import Sequence

import numpy as np

from tests.reference_encoder_decoder import (
    Array,
    Arrays,
    Parameters,
    Shapes,
    affine,
    draw,
    log_prob_of_target,
    parameter_shapes,
)

# What of the RNN Encoder-Decoder's parameters its encoder has, and whose second axis is c.
ENCODER = ("encoder.", "summary.")
OF_CONTEXT = ("initial.weight", "decoder.context_", "readout_context.weight")


def log_prob(arrays: Arrays, source_ids: Sequence[int], target_ids: Sequence[int]) -> float:
    """Return log p(target ``</s>`` | source), a natural logarithm, not divided by length.

    An empty source has c = 0; neither side holds ``</s>``.
    """
    return log_prob_of_target(Parameters(arrays), encode(arrays, source_ids)[0], target_ids)


def encode(arrays: Arrays, source_ids: Sequence[int]) -> tuple[Array, list[list[Array]]]:
    """Return the last cell, and (omega_c, omega_l, omega_r) of each cell of each level above 0."""
    p = Parameters(arrays)
    # h_j^(0) = U x_j
    level = [p("projection", p["source_embedding"][word]) for word in source_ids]
    if not level:
        return np.zeros(len(p["projection.bias"])), []
    gates = []
    while len(level) > 1:
        joined = [_join(p, level[j - 1], level[j]) for j in range(1, len(level))]
        level = [cell for cell, _ in joined]
        gates.append([omega for _, omega in joined])
    return level[0], gates


def random_parameters(
    rng: np.random.Generator, *, encoder_size: int, std: float = 0.5, **sizes: int
) -> dict[str, Array]:
    """Return float64 parameters, every one drawn from N(0, ``std``²), biases too.

    :param sizes: of the RNN Encoder-Decoder.
    """
    shapes: Shapes = {
        "source_embedding": (sizes["source_size"], sizes["embedding_size"]),
        **affine("projection", encoder_size, sizes["embedding_size"]),
        **affine("left", encoder_size, encoder_size),
        "right.weight": (encoder_size, encoder_size),
        **affine("gate_left", 3, encoder_size),
        "gate_right.weight": (3, encoder_size),
    }
    for name, shape in parameter_shapes(**sizes).items():
        if not name.startswith(ENCODER):
            shapes[name] = (shape[0], encoder_size) if name.startswith(OF_CONTEXT) else shape
    return draw(rng, shapes, std)


def _join(p: Parameters, left: Array, right: Array) -> tuple[Array, Array]:
    """Return h_j^(t) and its gates from h_{j-1}^(t-1) and h_j^(t-1)."""
    # h~ = phi(W^l h_{j-1} + W^r h_j), phi the rectifier
    new = np.maximum(0.0, p("left", left) + p("right", right))
    # [omega_c, omega_l, omega_r] = exp(G^l h_{j-1} + G^r h_j) / Z
    powers = np.exp(p("gate_left", left) + p("gate_right", right))
    omega_c, omega_l, omega_r = omega = powers / powers.sum()
    # h_j = omega_c h~_j + omega_l h_{j-1} + omega_r h_j
    return omega_c * new + omega_l * left + omega_r * right, omega
