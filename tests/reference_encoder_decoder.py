"""A slow RNN Encoder-Decoder in float64 numpy, one pair at a time, to test the fast ones against.

Written from appendix A of Cho et al. (2014) and from nothing else; it shares no code with the
package, and has neither batches nor padding. Comments name the equations by the paper's symbols.
The paper omits biases "to make the equations uncluttered"; here every affine map has one.

Matrices are stored as ``torch.nn.Linear`` stores them, (out, in), under these names, where H is
the hidden size, E the embedding's, M the number of maxout units (of 2 inputs each), R the rank of
the output matrix, and Ks, Kt the sizes of the two shortlists with ``</s>`` (0) and ``<unk>`` (1)::

    source_embedding (Ks, E)                                       e(x)
    encoder.input_{update,reset,candidate}.{weight,bias}           W_z, W_r, W       (H, E), (H,)
    encoder.recurrent_{update,reset,candidate}.weight              U_z, U_r, U       (H, H)
    summary.{weight,bias}                                          V                 (H, H), (H,)
    initial.{weight,bias}                                          V'                (H, H), (H,)
    target_embedding (Kt, E)                                       e(y)
    decoder.input_{update,reset,candidate}.{weight,bias}           W'_z, W'_r, W'    (H, E), (H,)
    decoder.recurrent_{update,reset,candidate}.weight              U'_z, U'_r, U'    (H, H)
    decoder.context_{update,reset,candidate}.weight                C_z, C_r, C       (H, H)
    readout_hidden.weight, readout_word.weight, readout_context.weight   O_h, O_y, O_c
                                                                   (2M, H), (2M, E), (2M, H)
    readout.bias (2M,)
    output_factor.weight                                           G_r               (R, M)
    output.{weight,bias}                                           G_l               (Kt, R), (Kt,)
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Arrays = Mapping[str, NDArray[np.floating]]
Shapes = dict[str, tuple[int, ...]]

END = 0
GATES = ("update", "reset", "candidate")


class Parameters:
    """Arrays by name, computed with in float64; a call applies the affine map of a name."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = {name: np.asarray(array, np.float64) for name, array in arrays.items()}

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __call__(self, name: str, x: Array) -> Array:
        result: Array = self[f"{name}.weight"] @ x
        return result + self[f"{name}.bias"] if f"{name}.bias" in self else result


def log_prob(arrays: Arrays, source_ids: Sequence[int], target_ids: Sequence[int]) -> float:
    """Return log p(target ``</s>`` | source), a natural logarithm, not divided by length.

    An empty source leaves the encoder in its initial state, h_N = 0; an empty target is scored
    for ``</s>`` alone. Neither side holds ``</s>``.
    """
    p = Parameters(arrays)
    # c = tanh(V h^<N>)
    return log_prob_of_target(p, np.tanh(p("summary", _encode(p, source_ids))), target_ids)


def log_prob_of_target(p: Parameters, c: Array, target_ids: Sequence[int]) -> float:
    """Return log p(target ``</s>`` | c), whatever the encoder that c comes from."""
    # h'^<0> = tanh(V' c); e(y_0) is an all-zero vector
    h = np.tanh(p("initial", c))
    e_y = np.zeros(p["target_embedding"].shape[1])
    total = 0.0
    # log p(Y | X) = sum over t of log p(y_t | y_{t-1}, ..., y_1, X), where the last y is </s>.
    for word in [*target_ids, END]:
        h = _decoder_step(p, e_y, h, c)  # h'^<t>
        # O_y stands between a word and a hidden layer and so is a product of two matrices
        # (section 4.1.1): O_y y = (readout_word) e(y), 0 for y_0. G = G_l G_r.
        s = maxout(readout(p, h, e_y, c))
        total += float(log_softmax(p("output", p("output_factor", s)))[word])
        e_y = p["target_embedding"][word]  # e(y_t)
    return total


def random_parameters(
    rng: np.random.Generator, *, std: float = 0.5, **sizes: int
) -> dict[str, Array]:
    """Return float64 parameters, every one drawn from N(0, ``std``²), biases too.

    The default ``std`` moves the gates well away from 1/2, so that a wrong gate shows; the
    paper's own 0.01 would hide one.
    """
    return draw(rng, parameter_shapes(**sizes), std)


def draw(rng: np.random.Generator, shapes: Shapes, std: float = 0.5) -> dict[str, Array]:
    return {name: rng.normal(0.0, std, shape) for name, shape in shapes.items()}


def affine(name: str, rows: int, columns: int) -> Shapes:
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}


def parameter_shapes(
    *,
    hidden_size: int,
    embedding_size: int,
    maxout_units: int,
    output_rank: int,
    source_size: int,
    target_size: int,
) -> Shapes:
    hidden, embedding, pieces = hidden_size, embedding_size, 2 * maxout_units
    shapes: Shapes = {"source_embedding": (source_size, embedding)}
    for unit in ("encoder", "decoder"):
        for gate in GATES:
            shapes |= affine(f"{unit}.input_{gate}", hidden, embedding)
        shapes |= {f"{unit}.recurrent_{gate}.weight": (hidden, hidden) for gate in GATES}
        if unit == "encoder":
            shapes |= affine("summary", hidden, hidden) | affine("initial", hidden, hidden)
            shapes["target_embedding"] = (target_size, embedding)
    shapes |= {f"decoder.context_{gate}.weight": (hidden, hidden) for gate in GATES}
    for part, size in (("hidden", hidden), ("word", embedding), ("context", hidden)):
        shapes[f"readout_{part}.weight"] = (pieces, size)
    shapes["readout.bias"] = (pieces,)
    shapes["output_factor.weight"] = (output_rank, maxout_units)
    return shapes | affine("output", target_size, output_rank)


def _encode(p: Parameters, source_ids: Sequence[int]) -> Array:
    # h_j^<0> is fixed to 0
    h = np.zeros(len(p["summary.bias"]))
    for word in source_ids:
        e_x = p["source_embedding"][word]
        # z_j = sigma([W_z e(x_t)]_j + [U_z h_<t-1>]_j), r_j likewise
        z, r = (
            sigmoid(p(f"encoder.input_{gate}", e_x) + p(f"encoder.recurrent_{gate}", h))
            for gate in GATES[:2]
        )
        # h~_j^<t> = tanh([W e(x_t)]_j + [U (r . h_<t-1>)]_j): the reset before the product
        new = p("encoder.input_candidate", e_x) + p("encoder.recurrent_candidate", r * h)
        # h_j^<t> = z_j h_j^<t-1> + (1 - z_j) h~_j^<t>
        h = z * h + (1.0 - z) * np.tanh(new)
    return h


def _decoder_step(p: Parameters, e_y: Array, h: Array, c: Array) -> Array:
    """Return h'^<t> from e(y_{t-1}), h'^<t-1> and c."""
    inputs = [p(f"decoder.input_{gate}", e_y) for gate in GATES]
    states = [p(f"decoder.recurrent_{gate}", h) + p(f"decoder.context_{gate}", c) for gate in GATES]
    # z'_j = sigma([W'_z e(y_{t-1})]_j + [U'_z h'_<t-1>]_j + [C_z c]_j), r'_j likewise
    z, r = sigmoid(inputs[0] + states[0]), sigmoid(inputs[1] + states[1])
    # h~'_j^<t> = tanh([W'e(y_{t-1})]_j + r'_j [U' h'_<t-1> + C c]): the reset after the product
    # h'_j^<t> = z'_j h'_j^<t-1> + (1 - z'_j) h~'_j^<t>
    return z * h + (1.0 - z) * np.tanh(inputs[2] + r * states[2])


def readout(p: Parameters, h: Array, e_y: Array, c: Array) -> Array:
    """Return s'^<t> = O_h h'^<t> + O_y y_{t-1} + O_c c."""
    parts = p("readout_hidden", h) + p("readout_word", e_y) + p("readout_context", c)
    return parts + p["readout.bias"]


def maxout(s: Array) -> Array:
    """Return s_i = max{s'_{2i-1}, s'_{2i}}, counted from 1 as the papers do."""
    return np.array([max(s[2 * i - 1 - 1], s[2 * i - 1]) for i in range(1, len(s) // 2 + 1)])


def log_softmax(scores: Array) -> Array:
    """Return log(exp(g_j s) / sum over j' of exp(g_j' s)), safe where exp overflows."""
    highest = scores.max()
    result: Array = scores - (highest + np.log(np.exp(scores - highest).sum()))
    return result


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)) through tanh, which does not overflow."""
    result: Array = 0.5 * (1.0 + np.tanh(0.5 * x))
    return result
