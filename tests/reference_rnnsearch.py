"""A slow RNNsearch in float64 numpy, one pair and one word at a time, to test the fast one against.

Written from appendix A of Bahdanau et al. (2014) and section 3.3.1, and from nothing else; it
shares no code with the package, and has neither batches nor padding. Comments name the equations
by the paper's symbols. The paper omits biases "in order to increase readability"; here every affine
map has one, but for v_a: the softmax would not see its bias. The source ends with ``</s>``.

Matrices are stored as ``torch.nn.Linear`` stores them, (out, in), under these names, where n is
the hidden size, m the embedding's, n' the alignment model's, l the number of maxout units (of 2
inputs each), and Ks, Kt the sizes of the two shortlists with ``</s>`` (0) and ``<unk>`` (1)::

    source_embedding (Ks, m)                                               E
    forward_encoder.input_{update,reset,candidate}.{weight,bias}           W_z, W_r, W     (n, m)
    forward_encoder.recurrent_{update,reset,candidate}.weight              U_z, U_r, U     (n, n)
    backward_encoder.…                                                     likewise
    initial.{weight,bias}                                                  W_s             (n, n)
    target_embedding (Kt, m)                                               E of the target
    alignment.state.weight                                                 W_a             (n', n)
    alignment.annotation.{weight,bias}                                     U_a             (n', 2n)
    alignment.energy                                                       v_a             (n',)
    decoder.input_{update,reset,candidate}.{weight,bias}                   W_z, W_r, W     (n, m)
    decoder.recurrent_{update,reset,candidate}.weight                      U_z, U_r, U     (n, n)
    decoder.context_{update,reset,candidate}.weight                        C_z, C_r, C     (n, 2n)
    readout_hidden.weight, readout_word.weight, readout_context.weight     U_o, V_o, C_o
                                                                   (2l, n), (2l, m), (2l, 2n)
    readout.bias (2l,)
    output.{weight,bias}                                                   W_o       (Kt, l), (Kt,)
"""

from collections.abc import Sequence

import numpy as np

from tests.reference_encoder_decoder import (
    END,
    GATES,
    Array,
    Arrays,
    Parameters,
    Shapes,
    affine,
    draw,
    log_softmax,
    maxout,
    readout,
    sigmoid,
)


def log_prob(arrays: Arrays, source_ids: Sequence[int], target_ids: Sequence[int]) -> float:
    """Return log p(target ``</s>`` | source), a natural logarithm, not divided by length.

    Neither side holds ``</s>``; each gets its own here.
    """
    return float(sum(log_probs(arrays, source_ids, target_ids)))


def log_probs(arrays: Arrays, source_ids: Sequence[int], target_ids: Sequence[int]) -> list[float]:
    """Return log p of each target word given the ones before it, ``</s>`` last."""
    distributions, _ = _decode(arrays, source_ids, target_ids)
    words = [*target_ids, END]
    return [float(log_p[word]) for word, log_p in zip(words, distributions, strict=True)]


def alignments(arrays: Arrays, source_ids: Sequence[int], target_ids: Sequence[int]) -> Array:
    """Return alpha_ij, (target words and ``</s>``, source words and ``</s>``)."""
    return np.array(_decode(arrays, source_ids, target_ids)[1])


def random_parameters(
    rng: np.random.Generator,
    *,
    hidden_size: int,
    embedding_size: int,
    maxout_units: int,
    alignment_size: int,
    source_size: int,
    target_size: int,
    std: float = 0.5,
) -> dict[str, Array]:
    """Return float64 parameters, every one drawn from N(0, ``std``²), biases too.

    The default ``std`` moves gates away from 1/2 and alignments away from even ones, so that a
    wrong one shows; the paper's own 0.01 would hide it.
    """
    n, m, pieces = hidden_size, embedding_size, 2 * maxout_units
    shapes: Shapes = {
        "source_embedding": (source_size, m),
        "target_embedding": (target_size, m),
        **affine("initial", n, n),
        "alignment.state.weight": (alignment_size, n),
        **affine("alignment.annotation", alignment_size, 2 * n),
        "alignment.energy": (alignment_size,),
        "readout_hidden.weight": (pieces, n),
        "readout_word.weight": (pieces, m),
        "readout_context.weight": (pieces, 2 * n),
        "readout.bias": (pieces,),
        **affine("output", target_size, maxout_units),
    }
    for gate in GATES:
        for unit in ("forward_encoder", "backward_encoder", "decoder"):
            shapes |= affine(f"{unit}.input_{gate}", n, m)
            shapes[f"{unit}.recurrent_{gate}.weight"] = (n, n)
        shapes[f"decoder.context_{gate}.weight"] = (n, 2 * n)
    return draw(rng, shapes, std)


def _decode(
    arrays: Arrays, source_ids: Sequence[int], target_ids: Sequence[int]
) -> tuple[list[Array], list[Array]]:
    """Return log p(y_i | y_1 .. y_{i-1}, x) as (Kt,) and alpha_i, for i = 1 .. len(target) + 1."""
    p = Parameters(arrays)
    h = _annotations(p, [*source_ids, END])
    # s_0 = tanh(W_s backward h_1)
    s = np.tanh(p("initial", h[0][len(p["initial.bias"]) :]))
    e_y = np.zeros(p["target_embedding"].shape[1])
    distributions, alphas = [], []
    for word in [*target_ids, END]:
        # e_ij = v_a^T tanh(W_a s_{i-1} + U_a h_j); alpha_ij is their softmax over j
        query = p("alignment.state", s)
        sums = [np.tanh(query + p("alignment.annotation", h_j)) for h_j in h]
        alpha = np.exp(log_softmax(np.array(sums) @ p["alignment.energy"]))
        # c_i = sum over j of alpha_ij h_j
        c = np.sum([a * h_j for a, h_j in zip(alpha, h, strict=True)], axis=0)
        s = _gated_unit(p, "decoder", e_y, s, c)
        # t~_i = U_o s_i + V_o E y_{i-1} + C_o c_i
        distributions.append(log_softmax(p("output", maxout(readout(p, s, e_y, c)))))
        alphas.append(alpha)
        e_y = p["target_embedding"][word]
    return distributions, alphas


def _annotations(p: Parameters, words: Sequence[int]) -> list[Array]:
    """Return h_j = [forward h_j; backward h_j] of each word, equation 7."""
    sides = []
    for unit, order in (("forward_encoder", 1), ("backward_encoder", -1)):
        h = np.zeros(len(p["initial.bias"]))
        states = []
        for word in words[::order]:
            h = _gated_unit(p, unit, p["source_embedding"][word], h, None)
            states.append(h)
        sides.append(states[::order])
    return [np.concatenate(pair) for pair in zip(*sides, strict=True)]


def _gated_unit(p: Parameters, unit: str, e: Array, s: Array, c: Array | None) -> Array:
    """Return s_i from the embedding e of the word read, s_{i-1} and, in the decoder, c_i."""

    def total(gate: str, state: Array) -> Array:
        result = p(f"{unit}.input_{gate}", e) + p(f"{unit}.recurrent_{gate}", state)
        return result if c is None else result + p(f"{unit}.context_{gate}", c)

    # z_i = sigma(W_z e + U_z s_{i-1} + C_z c_i), r_i likewise (section 3.3.1)
    z, r = sigmoid(total("update", s)), sigmoid(total("reset", s))
    # s~_i = tanh(W e + U [r_i . s_{i-1}] + C c_i): the reset before the product
    # s_i = (1 - z_i) . s_{i-1} + z_i . s~_i
    return (1.0 - z) * s + z * np.tanh(total("candidate", r * s))
