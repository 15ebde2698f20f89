"""The alignment model of Bahdanau et al. (2014): energies, their softmax, and the contexts.

    e_ij = v_a . tanh(W_a s_{i-1} + U_a h_j),  alpha_ij = softmax over j,  sum_j alpha_ij x_j

W_a s_{i-1} is the *query*; U_a h_j are the *keys* and x_j the *values* of a source's positions.
On a CPU, a compiled loop computes the tanh over (pairs, positions, units) while it sums, so that it
is never written to memory; the backward pass computes it again. The positions of all sources are
concatenated without padding. On other devices torch computes the same on padded sources.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phrasescore.devices import move
from phrasescore.kernels import precision
from phrasescore.kernels.precision import arrays
from phrasescore.kernels.vector_math import (
    ELEMENTWISE,
    SUMMING,
    dot,
    exp,
    tanh,
    use_widest_registers,
)
from phrasescore.models.batches import Steps


@dataclass(frozen=True, slots=True)
class Places:
    """The positions of each pair's source in the concatenated sources."""

    starts: Tensor  # (pairs,) int64: the first position
    lengths: Tensor  # (pairs,) int64: number of positions, at least 1
    longest: int  # at least the maximum length
    count: int  # total number of positions

    @staticmethod
    def of(lengths: Tensor) -> "Places":
        """Return the positions of concatenated sources with the given lengths, on the CPU."""
        ends = torch.cumsum(lengths, 0)
        count = int(ends[-1]) if len(ends) else 0
        return Places(ends - lengths, lengths, int(lengths.max()) if len(lengths) else 0, count)

    def to(self, device: torch.device) -> "Places":
        """Return a copy on ``device``."""
        starts, lengths = move(device, self.starts, self.lengths)
        return replace(self, starts=starts, lengths=lengths)

    def of_pairs(self, pairs: Tensor) -> "Places":
        """Return the positions of the sources for the selected pairs."""
        return replace(
            self,
            starts=self.starts.index_select(0, pairs),
            lengths=self.lengths.index_select(0, pairs),
        )

    def padded(self, pairs: int, longest: int) -> tuple[Tensor, Tensor]:
        """Return padded positions, ``(pairs, longest)``, and a mask that is False at padding."""
        lengths = self.lengths[:pairs].unsqueeze(1)
        time = torch.arange(longest, device=lengths.device).unsqueeze(0)
        return self.starts[:pairs].unsqueeze(1) + torch.minimum(time, lengths - 1), time < lengths


def _is_fused(tensor: Tensor) -> bool:
    return precision.is_fused(tensor) and tensor.dtype == torch.float32


@SUMMING
def _energy(query, key, energy):  # type: ignore[no-untyped-def]
    use_widest_registers()
    total = np.float32(0)
    for k in range(len(query)):
        total += energy[k] * tanh(query[k] + key[k])
    return total


@ELEMENTWISE
def _attend(queries, keys, energy, values, starts, lengths, weights, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    for row in range(len(queries)):
        start, length = starts[row], lengths[row]
        query, weight, total = queries[row], weights[row], out[row]
        highest = np.float32(-np.inf)
        for j in range(length):
            weight[j] = _energy(query, keys[start + j], energy)
            highest = max(highest, weight[j])
        norm = np.float32(0)
        for j in range(length):
            weight[j] = exp(weight[j] - highest)
            norm += weight[j]
        total[:] = np.float32(0)
        for j in range(length):
            weight[j] /= norm
            share, value = weight[j], values[start + j]
            for k in range(len(total)):
                total[k] += share * value[k]
        weight[length:] = np.float32(0)


@ELEMENTWISE
def _attend_backward(  # type: ignore[no-untyped-def]
    gradients,
    queries,
    keys,
    energy,
    values,
    starts,
    lengths,
    weights,
    to_queries,
    to_keys,
    to_energy,
    to_weight,
):
    use_widest_registers()
    for row in range(len(queries)):
        start, length = starts[row], lengths[row]
        query, weight, to_query = queries[row], weights[row], to_queries[row]
        mean = np.float32(0)
        for j in range(length):
            to_weight[j] = dot(gradients[row], values[start + j])
            mean += weight[j] * to_weight[j]
        to_query[:] = np.float32(0)
        for j in range(length):
            upper = weight[j] * (to_weight[j] - mean)
            key, to_key = keys[start + j], to_keys[start + j]
            for k in range(len(query)):
                unit = tanh(query[k] + key[k])
                to_energy[k] += upper * unit
                lower = upper * energy[k] * (np.float32(1) - unit * unit)
                to_query[k] += lower
                to_key[k] += lower


@ELEMENTWISE
def _spread(gradients, weights, order, row_pairs, starts, lengths, to_values):  # type: ignore[no-untyped-def]
    use_widest_registers()
    for row in order:
        pair, gradient = row_pairs[row], gradients[row]
        for j in range(lengths[pair]):
            share, to_value = weights[row, j], to_values[starts[pair] + j]
            for k in range(len(gradient)):
                to_value[k] += share * gradient[k]


class Annotations(NamedTuple):
    """What the alignment model reads of the sources of some rows."""

    keys: Tensor  # (positions, units)
    energy: Tensor  # v_a, (units,)
    values: Tensor  # (positions, width)
    places: Places  # the source of each row; entries after the rows are not used


def attend(queries: Tensor, read: Annotations, weights: Tensor, out: Tensor) -> None:
    """Write the weights alpha for each row, and the weighted sums of the values.

    In the compiled loop, the bits of a row do not depend on the other rows.

    :param queries: ``(rows, units)``.
    :param weights: ``(rows, longest source)``, written; 0 after the end of a source.
    :param out: ``(rows, width)``, written.
    """
    keys, energy, values, places = read
    if _is_fused(queries):
        starts, lengths = places.starts, places.lengths
        _attend(*arrays(queries, keys, energy, values, starts, lengths, weights, out))
        return
    at, real = places.padded(*weights.shape)
    energies = torch.tanh(keys[at] + queries.unsqueeze(1)) @ energy
    torch.softmax(energies.masked_fill(~real, -torch.inf), 1, out=weights)
    torch.bmm(weights.unsqueeze(1), values[at], out=out.unsqueeze(1))


def attend_backward(
    gradients: Tensor,
    queries: Tensor,
    read: Annotations,
    weights: Tensor,
    to_queries: Tensor,
    to_keys: Tensor,
    to_energy: Tensor,
) -> None:
    """Compute the gradients of :func:`attend`, except for the values (see :func:`spread`).

    :param gradients: the gradients of the weighted sums, ``(rows, width)``.
    :param to_queries: overwritten; gradients are added to ``to_keys`` and ``to_energy``.
    """
    keys, energy, values, places = read
    if _is_fused(queries):
        starts, lengths = places.starts, places.lengths
        inputs = (gradients, queries, keys, energy, values, starts, lengths, weights)
        scratch = weights.new_empty(weights.shape[1])
        _attend_backward(*arrays(*inputs, to_queries, to_keys, to_energy, scratch))
        return
    at, _ = places.padded(*weights.shape)
    to_weights = torch.bmm(values[at], gradients.unsqueeze(2)).squeeze(2)
    upper = weights * (to_weights - (weights * to_weights).sum(1, keepdim=True))
    units = torch.tanh(keys[at] + queries.unsqueeze(1))
    to_energy += torch.einsum("ij,ijk->k", upper, units)
    lower = upper.unsqueeze(2) * energy * (1 - units * units)
    torch.sum(lower, 1, out=to_queries)
    # The weights after a source's end are 0, so nothing is added to its last position.
    to_keys.index_add_(0, at.flatten(), lower.flatten(0, 1))


def spread(gradients: Tensor, weights: Tensor, steps: Steps, places: Places) -> Tensor:
    """Return the gradient with respect to the values, summed over rows, ``(positions, width)``.

    :param gradients: the gradients of the weighted sums, ``(rows, width)``.
    """
    if _is_fused(gradients):
        to_values = gradients.new_zeros(places.count, gradients.shape[1])
        # Pair by pair, so that the sums stay in the cache.
        order = torch.argsort(steps.pairs, stable=True)
        starts, lengths = places.starts, places.lengths
        _spread(*arrays(gradients, weights, order, steps.pairs, starts, lengths, to_values))
        return to_values
    at, real = places.padded(len(places.lengths), weights.shape[1])
    shape = (len(real), len(steps.sizes))
    padded_weights = weights.new_zeros(*shape, weights.shape[1])
    padded_weights[steps.pairs, steps.times] = weights
    padded_gradients = gradients.new_zeros(*shape, gradients.shape[1])
    padded_gradients[steps.pairs, steps.times] = gradients
    # Padding goes to an additional row: selecting the real positions would stall the CPU.
    to_values = gradients.new_empty(places.count + 1, gradients.shape[1])
    to_values[at.masked_fill(~real, places.count)] = torch.bmm(
        padded_weights.transpose(1, 2), padded_gradients
    )
    return to_values[: places.count]
