"""Scaled dot-product attention of rows to chosen positions (Vaswani et al., 2017, section 3.2).

A row reads either a range of positions, as in a sentence, or the path from a node of a tree of
prefixes up to its root. Its result does not depend on the other rows. Keys and values lie side by
side in one array, the *memory*, ``(positions, 2 * size)``.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from phrasescore.kernels.precision import arrays, is_fused
from phrasescore.kernels.vector_math import ELEMENTWISE, SUMMING, exp, use_widest_registers

# Rows whose positions are padded together on other devices than a CPU.
_PADDED_ROWS = 4096


@SUMMING
def _dots(row, memory, places, first, out):  # type: ignore[no-untyped-def]
    """Write the dot products of a row and a block of columns of the memory, from ``first``."""
    use_widest_registers()
    width = len(row)
    for j in range(len(places)):
        read = memory[places[j], first : first + width]
        total = np.float32(0)
        for k in range(width):
            total += row[k] * read[k]
        out[j] = total


@ELEMENTWISE
def _softmax(energies, scale):  # type: ignore[no-untyped-def]
    use_widest_registers()
    highest, norm = np.float32(-np.inf), np.float32(0)
    for j in range(len(energies)):
        highest = max(highest, energies[j])
    for j in range(len(energies)):
        energies[j] = exp(scale * (energies[j] - highest))
    for j in range(len(energies)):
        norm += energies[j]
    for j in range(len(energies)):
        energies[j] /= norm


@ELEMENTWISE
def _weighted_sum(memory, places, first, weights, out):  # type: ignore[no-untyped-def]
    """Write the weighted sum of a block of columns of the memory."""
    use_widest_registers()
    width, count = len(out), len(places)
    out[:] = np.float32(0)
    # Four rows at a time, so that the sum is loaded and stored less often.
    whole = count - count % 4
    for j in range(0, whole, 4):
        row_a = memory[places[j], first : first + width]
        row_b = memory[places[j + 1], first : first + width]
        row_c = memory[places[j + 2], first : first + width]
        row_d = memory[places[j + 3], first : first + width]
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        for k in range(width):
            out[k] += a * row_a[k] + b * row_b[k] + c * row_c[k] + d * row_d[k]
    for j in range(whole, count):
        row_a, a = memory[places[j], first : first + width], weights[j]
        for k in range(width):
            out[k] += a * row_a[k]


@ELEMENTWISE
def _attend(query, memory, places, heads, shares, weight, out):  # type: ignore[no-untyped-def]
    """Write the result of one row; add the mean of the heads' weights to ``weight``, if any."""
    size = len(query)
    width, shares = size // heads, shares[: len(places)]
    scale = np.float32(1 / np.sqrt(width))
    for first in range(0, size, width):
        _dots(query[first : first + width], memory, places, first, shares)
        _softmax(shares, scale)
        _weighted_sum(memory, places, size + first, shares, out[first : first + width])
        if len(weight):
            for j in range(len(places)):
                weight[j] += shares[j] / np.float32(heads)


@ELEMENTWISE
def _attend_back(  # type: ignore[no-untyped-def]
    query, memory, places, heads, shares, gradient, to_shares, to_query, to_memory
):
    """Write the gradient of a row's query, and add the gradient of what the row reads."""
    use_widest_registers()
    size, count = len(query), len(places)
    width, shares, to_shares = size // heads, shares[:count], to_shares[:count]
    scale = np.float32(1 / np.sqrt(width))
    for first in range(0, size, width):
        part, upper = query[first : first + width], gradient[first : first + width]
        _dots(part, memory, places, first, shares)
        _softmax(shares, scale)
        _dots(upper, memory, places, size + first, to_shares)
        mean = np.float32(0)
        for j in range(count):
            mean += shares[j] * to_shares[j]
        for j in range(count):
            to_shares[j] = scale * shares[j] * (to_shares[j] - mean)
        _weighted_sum(memory, places, first, to_shares, to_query[first : first + width])
        for j in range(count):
            to_key = to_memory[places[j], first : first + width]
            to_value = to_memory[places[j], size + first : size + first + width]
            to_energy, share = to_shares[j], shares[j]
            for k in range(width):
                to_key[k] += to_energy * part[k]
                to_value[k] += share * upper[k]


@ELEMENTWISE
def _attend_ranges(queries, memory, starts, lengths, heads, weights, out):  # type: ignore[no-untyped-def]
    longest = 0
    for row in range(len(queries)):
        longest = max(longest, lengths[row])
    places, shares = np.empty(longest, np.int64), np.empty(longest, np.float32)
    for row in range(len(queries)):
        count = lengths[row]
        for j in range(count):
            places[j] = starts[row] + j
        _attend(queries[row], memory, places[:count], heads, shares, weights[row], out[row])


@ELEMENTWISE
def _attend_ranges_back(  # type: ignore[no-untyped-def]
    queries, memory, starts, lengths, heads, gradient, to_queries, to_memory
):
    longest = 0
    for row in range(len(queries)):
        longest = max(longest, lengths[row])
    places = np.empty(longest, np.int64)
    shares, to_shares = np.empty(longest, np.float32), np.empty(longest, np.float32)
    for row in range(len(queries)):
        count = lengths[row]
        for j in range(count):
            places[j] = starts[row] + j
        _attend_back(
            queries[row],
            memory,
            places[:count],
            heads,
            shares,
            gradient[row],
            to_shares,
            to_queries[row],
            to_memory,
        )


@ELEMENTWISE
def _attend_paths(queries, memory, parents, nodes, heads, depth, out):  # type: ignore[no-untyped-def]
    places, shares = np.empty(depth, np.int64), np.empty(depth, np.float32)
    for row in range(len(queries)):
        count, place = 0, nodes[row]
        while place >= 0:
            places[count] = place
            count += 1
            place = parents[place]
        _attend(queries[row], memory, places[:count], heads, shares, shares[:0], out[row])


def attend_ranges(
    queries: Tensor,
    memory: Tensor,
    starts: Tensor,
    lengths: Tensor,
    heads: int,
    weights: Tensor | None = None,
) -> Tensor:
    """Return the result of each row, ``(rows, size)``.

    :param starts: the first position that each row reads; ``lengths``: how many it reads.
    :param weights: written: the mean of the heads' weights, ``(rows, longest)``, then 0.
    """
    if is_fused(queries):
        out = torch.empty_like(queries)
        if weights is None:
            weights = queries.new_empty(len(queries), 0)
        weights.zero_()
        inputs = arrays(queries, memory, starts, lengths)
        _attend_ranges(*inputs, heads, *arrays(weights, out))
        return out
    longest = int(lengths.max()) if len(lengths) else 0
    time = torch.arange(longest, device=queries.device)
    real = time < lengths.unsqueeze(1)
    places = torch.minimum(time, lengths.unsqueeze(1) - 1) + starts.unsqueeze(1)
    return _attend_padded(queries, memory, places, real, heads, weights)


class AttendRanges(Function):
    """:func:`attend_ranges` for training on a CPU, in float32."""

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, memory: Tensor, starts: Tensor, lengths: Tensor, heads: int
    ) -> Tensor:
        """Return the result of each row, ``(rows, size)``."""
        ctx.save_for_backward(queries, memory, starts, lengths)
        ctx.heads = heads
        return attend_ranges(queries.detach(), memory.detach(), starts, lengths, heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs = arrays(*ctx.saved_tensors)
        queries, memory, *_ = ctx.saved_tensors
        to_queries, to_memory = torch.empty_like(queries), torch.zeros_like(memory)
        outputs = arrays(gradient.contiguous(), to_queries, to_memory)
        _attend_ranges_back(*inputs, ctx.heads, *outputs)
        return to_queries, to_memory, None, None, None


def attend_paths(
    queries: Tensor, memory: Tensor, parents: Tensor, nodes: Tensor, heads: int, depth: int
) -> Tensor:
    """Return the result of each row, which reads a node and its ancestors, ``(rows, size)``.

    :param parents: the parent of each node of a forest, -1 for roots.
    :param nodes: the node of each row.
    :param depth: at least the number of nodes on the longest path.
    """
    if is_fused(queries):
        out = torch.empty_like(queries)
        _attend_paths(*arrays(queries, memory, parents, nodes), heads, depth, *arrays(out))
        return out
    path = [nodes]
    for _ in range(depth - 1):
        path.append(torch.where(path[-1] < 0, path[-1], parents[path[-1].clamp(min=0)]))
    places = torch.stack(path, dim=1)
    return _attend_padded(queries, memory, places.clamp(min=0), places >= 0, heads, None)


def _attend_padded(
    queries: Tensor,
    memory: Tensor,
    places: Tensor,
    real: Tensor,
    heads: int,
    weights: Tensor | None,
) -> Tensor:
    """Return the result of each row, which reads the real ones of its places."""
    size, parts = queries.shape[1], []
    for first in range(0, len(queries), _PADDED_ROWS):
        rows = slice(first, first + _PADDED_ROWS)
        read = memory[places[rows]].unflatten(2, (2, heads, -1))  # (rows, longest, 2, heads, width)
        query = queries[rows].unflatten(1, (heads, -1))
        energies = torch.einsum("nhw,njhw->njh", query, read[:, :, 0]) / (size / heads) ** 0.5
        energies = energies.masked_fill(~real[rows].unsqueeze(2), -torch.inf)
        shares = energies.softmax(1)  # (rows, longest, heads)
        parts.append(torch.einsum("njh,njhw->nhw", shares, read[:, :, 1]).flatten(1))
        if weights is not None:
            weights[rows] = 0
            weights[rows, : shares.shape[1]] = shares.mean(2)
    return torch.cat(parts) if parts else torch.empty_like(queries)
