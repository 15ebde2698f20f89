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

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

END = 0


def log_prob(
    parameters: Mapping[str, NDArray[np.floating]],
    source_ids: Sequence[int],
    target_ids: Sequence[int],
) -> float:
    """Return log p(target ``</s>`` | source), a natural logarithm, not divided by length.

    An empty source leaves the encoder in its initial state, h_N = 0; an empty target is scored
    for ``</s>`` alone. Neither side holds ``</s>``.

    :param parameters: arrays by name as in the module's docstring; computed with in float64.
    """
    exact = {name: np.asarray(array, dtype=np.float64) for name, array in parameters.items()}
    h_n = _encode(exact, source_ids)
    # c = tanh(V h^<N>)
    c = np.tanh(exact["summary.weight"] @ h_n + exact["summary.bias"])
    return log_prob_of_target(exact, c, target_ids)


def log_prob_of_target(
    parameters: Mapping[str, Array], c: Array, target_ids: Sequence[int]
) -> float:
    """Return log p(target ``</s>`` | c), whatever the encoder that c comes from.

    :param parameters: those of the decoder, from ``initial`` on.
    """
    total = 0.0
    # log p(Y | X) = sum over t of log p(y_t | y_{t-1}, ..., y_1, X), where the last y is </s>.
    predicted = [*target_ids, END]
    for word, log_distribution in zip(
        predicted, _log_distributions(parameters, c, target_ids), strict=True
    ):
        total += float(log_distribution[word])
    return total


def random_parameters(
    rng: np.random.Generator, *, std: float = 0.5, **sizes: int
) -> dict[str, Array]:
    """Return float64 parameters, every one drawn from N(0, ``std``²), biases too.

    The default ``std`` moves the gates well away from 1/2, so that a wrong gate shows; the
    paper's own 0.01 would hide one.

    :param sizes: as :func:`parameter_shapes` takes them.
    """
    return draw(rng, parameter_shapes(**sizes), std)


def draw(
    rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]], std: float = 0.5
) -> dict[str, Array]:
    """Return arrays of these shapes, drawn from N(0, ``std``²) in their order."""
    return {name: rng.normal(0.0, std, shape) for name, shape in shapes.items()}


def parameter_shapes(
    *,
    hidden_size: int,
    embedding_size: int,
    maxout_units: int,
    output_rank: int,
    source_size: int,
    target_size: int,
) -> dict[str, tuple[int, ...]]:
    """Return the shape of every parameter by its name, in the order of the module's docstring."""
    hidden, embedding, readout = hidden_size, embedding_size, 2 * maxout_units

    def gates(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
        each = (name.format(gate) for gate in ("update", "reset", "candidate"))
        return dict.fromkeys(each, shape)

    def inputs(unit: str) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for name in gates(f"{unit}.input_{{}}"):
            found |= {f"{name}.weight": (hidden, embedding), f"{name}.bias": (hidden,)}
        return found

    shapes: dict[str, tuple[int, ...]] = {"source_embedding": (source_size, embedding)}
    shapes |= inputs("encoder") | gates("encoder.recurrent_{}.weight", hidden, hidden)
    for layer in ("summary", "initial"):
        shapes |= {f"{layer}.weight": (hidden, hidden), f"{layer}.bias": (hidden,)}
    shapes["target_embedding"] = (target_size, embedding)
    shapes |= inputs("decoder") | gates("decoder.recurrent_{}.weight", hidden, hidden)
    shapes |= gates("decoder.context_{}.weight", hidden, hidden)
    for part, size in (("hidden", hidden), ("word", embedding), ("context", hidden)):
        shapes[f"readout_{part}.weight"] = (readout, size)
    shapes["readout.bias"] = (readout,)
    shapes["output_factor.weight"] = (output_rank, maxout_units)
    return shapes | {"output.weight": (target_size, output_rank), "output.bias": (target_size,)}


def _log_distributions(
    parameters: Mapping[str, Array], c: Array, target_ids: Sequence[int]
) -> list[Array]:
    """Return log p(y_t | y_{t-1}, ..., y_1, X) for t = 1 .. len(target) + 1, each (Kt,)."""
    # h'^<0> = tanh(V' c)
    h = np.tanh(parameters["initial.weight"] @ c + parameters["initial.bias"])
    # e(y_0) is an all-zero vector
    e_previous = np.zeros(parameters["target_embedding"].shape[1])
    distributions = []
    for t in range(1, len(target_ids) + 2):
        h = _decoder_step(parameters, e_previous, h, c)  # h'^<t>
        distributions.append(log_softmax(_output(parameters, h, e_previous, c)))
        if t <= len(target_ids):
            e_previous = parameters["target_embedding"][target_ids[t - 1]]  # e(y_t)
    return distributions


def _encode(p: Mapping[str, Array], source_ids: Sequence[int]) -> Array:
    """Return h^<N>, the encoder's state after the last source word; zero for no word."""
    # h_j^<0> is fixed to 0
    h = np.zeros(len(p["summary.bias"]))
    for word in source_ids:
        e_x = p["source_embedding"][word]
        # z_j = sigma([W_z e(x_t)]_j + [U_z h_<t-1>]_j), r_j likewise
        z, r = (
            sigmoid(_input(p, "encoder", gate, e_x) + p[f"encoder.recurrent_{gate}.weight"] @ h)
            for gate in ("update", "reset")
        )
        # h~_j^<t> = tanh([W e(x_t)]_j + [U (r . h_<t-1>)]_j): the reset before the product
        u = p["encoder.recurrent_candidate.weight"]
        candidate = np.tanh(_input(p, "encoder", "candidate", e_x) + u @ (r * h))
        # h_j^<t> = z_j h_j^<t-1> + (1 - z_j) h~_j^<t>
        h = z * h + (1.0 - z) * candidate
    return h


def _decoder_step(p: Mapping[str, Array], e_y: Array, h: Array, c: Array) -> Array:
    """Return h'^<t> from e(y_{t-1}), h'^<t-1> and c."""

    def states(gate: str) -> Array:
        result: Array = p[f"decoder.recurrent_{gate}.weight"] @ h
        return result + p[f"decoder.context_{gate}.weight"] @ c

    # z'_j = sigma([W'_z e(y_{t-1})]_j + [U'_z h'_<t-1>]_j + [C_z c]_j), r'_j likewise
    z, r = (sigmoid(_input(p, "decoder", gate, e_y) + states(gate)) for gate in ("update", "reset"))
    # h~'_j^<t> = tanh([W'e(y_{t-1})]_j + r'_j [U' h'_<t-1> + C c]): the reset after the product
    candidate = np.tanh(_input(p, "decoder", "candidate", e_y) + r * states("candidate"))
    # h'_j^<t> = z'_j h'_j^<t-1> + (1 - z'_j) h~'_j^<t>
    return z * h + (1.0 - z) * candidate


def _input(p: Mapping[str, Array], unit: str, gate: str, e: Array) -> Array:
    result: Array = p[f"{unit}.input_{gate}.weight"] @ e + p[f"{unit}.input_{gate}.bias"]
    return result


def _output(parameters: Mapping[str, Array], h: Array, e_y: Array, c: Array) -> Array:
    """Return g_j s^<t> of every target word j, (Kt,), before the softmax."""
    # s'^<t> = O_h h'^<t> + O_y y_{t-1} + O_c c. O_y stands between a word and a hidden layer and
    # so is a product of two matrices (section 4.1.1): O_y y = (readout_word) e(y), 0 for y_0.
    s_prime = (
        parameters["readout_hidden.weight"] @ h
        + parameters["readout_word.weight"] @ e_y
        + parameters["readout_context.weight"] @ c
        + parameters["readout.bias"]
    )
    # s_i^<t> = max{s'_{2i-1}^<t>, s'_{2i}^<t>}, counted from 1 as the paper does
    units = len(s_prime) // 2
    s = np.array([max(s_prime[2 * i - 1 - 1], s_prime[2 * i - 1]) for i in range(1, units + 1)])
    # G = G_l G_r
    g_l, g_r = parameters["output.weight"], parameters["output_factor.weight"]
    scores: Array = g_l @ (g_r @ s) + parameters["output.bias"]
    return scores


def log_softmax(scores: Array) -> Array:
    """Return log(exp(g_j s) / sum over j' of exp(g_j' s)), safe where exp overflows."""
    highest = scores.max()
    result: Array = scores - (highest + np.log(np.exp(scores - highest).sum()))
    return result


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)) through tanh, which does not overflow."""
    result: Array = 0.5 * (1.0 + np.tanh(0.5 * x))
    return result
