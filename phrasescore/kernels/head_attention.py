"""Scaled dot-product attention of rows to chosen positions (Vaswani et al., 2017, section 3.2).

A row reads either a range of positions, as in a sentence, or the path from a node of a tree of
prefixes up to its root. On a CPU, its result does not depend on the other rows. Keys and values lie
side by side in one array, the *memory*, ``(positions, 2 * size)``.
"""

import numpy as np
import torch
from torch import Tensor

from phrasescore.kernels.precision import arrays, is_fused
from phrasescore.kernels.vector_math import ELEMENTWISE, dot, exp, use_widest_registers

# Rows whose positions are padded together on other devices than a CPU.
_PADDED_ROWS = 4096


@ELEMENTWISE
def _attend(query, memory, places, heads, shares, out):  # type: ignore[no-untyped-def]
    use_widest_registers()
    count, size = len(places), len(query)
    width = size // heads
    scale = np.float32(1 / np.sqrt(width))
    for first in range(0, size, width):
        part = query[first : first + width]
        highest = np.float32(-np.inf)
        for j in range(count):
            shares[j] = scale * dot(part, memory[places[j], first : first + width])
            highest = max(highest, shares[j])
        norm = np.float32(0)
        for j in range(count):
            shares[j] = exp(shares[j] - highest)
            norm += shares[j]
        total = out[first : first + width]
        total[:] = np.float32(0)
        for j in range(count):
            share = shares[j] / norm
            value = memory[places[j], size + first : size + first + width]
            for k in range(width):
                total[k] += share * value[k]


@ELEMENTWISE
def _attend_ranges(queries, memory, starts, lengths, heads, out):  # type: ignore[no-untyped-def]
    longest = 0
    for row in range(len(queries)):
        longest = max(longest, lengths[row])
    places, shares = np.empty(longest, np.int64), np.empty(longest, np.float32)
    for row in range(len(queries)):
        count = lengths[row]
        for j in range(count):
            places[j] = starts[row] + j
        _attend(queries[row], memory, places[:count], heads, shares, out[row])


@ELEMENTWISE
def _attend_paths(queries, memory, parents, nodes, heads, depth, out):  # type: ignore[no-untyped-def]
    places, shares = np.empty(depth, np.int64), np.empty(depth, np.float32)
    for row in range(len(queries)):
        count, place = 0, nodes[row]
        while place >= 0:
            places[count] = place
            count += 1
            place = parents[place]
        _attend(queries[row], memory, places[:count], heads, shares, out[row])


def attend_ranges(
    queries: Tensor, memory: Tensor, starts: Tensor, lengths: Tensor, heads: int
) -> Tensor:
    """Return the result of each row, ``(rows, size)``.

    :param starts: the first position that each row reads; ``lengths``: how many it reads.
    """
    if is_fused(queries):
        out = torch.empty_like(queries)
        _attend_ranges(*arrays(queries, memory, starts, lengths), heads, *arrays(out))
        return out
    longest = int(lengths.max()) if len(lengths) else 0
    time = torch.arange(longest, device=queries.device)
    real = time < lengths.unsqueeze(1)
    places = torch.minimum(time, lengths.unsqueeze(1) - 1) + starts.unsqueeze(1)
    return _attend_padded(queries, memory, places, real, heads)


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
    return _attend_padded(queries, memory, places.clamp(min=0), places >= 0, heads)


def _attend_padded(
    queries: Tensor, memory: Tensor, places: Tensor, real: Tensor, heads: int
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
    return torch.cat(parts) if parts else torch.empty_like(queries)
