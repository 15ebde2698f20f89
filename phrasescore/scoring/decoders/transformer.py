"""The Transformer's decoder over a tree of target prefixes.

When all targets are known, a whole tree is one pass per layer: each distinct prefix is one row,
which attends to its ancestors only. A search goes from level to level, and keeps the keys and
values of the prefixes. Both give a prefix the same bits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, pad

from phrasescore.devices import move
from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels.head_attention import attend_paths, attend_ranges
from phrasescore.models.alignment import Places
from phrasescore.models.batches import batch_rows
from phrasescore.models.transformer import (
    EncoderLayer,
    MultiHeadAttention,
    Norm,
    TransformerNetwork,
    sinusoids,
)
from phrasescore.scoring.prefix_tree import PrefixTree, TreeStep, on_device
from phrasescore.scoring.products import Products

# Initial capacity, in nodes, of a search's cache of keys and values.
_FIRST_NODES = 4096


class Encoded(NamedTuple):
    """The encodings of some sources, as the decoder's layers read them."""

    memories: list[Tensor]  # (positions, 2 * size) of each layer: keys and values
    places: Places  # of each source among the positions


@dataclass(slots=True)
class SearchState:
    """The prefixes of a search."""

    encoded: Encoded
    memories: list[Tensor]  # (nodes, 2 * size) of each layer, of all levels, with room for more
    parents: Tensor  # (nodes,): -1 for the empty prefixes
    count: int
    level: Tensor  # (nodes of this level,): their indices among all nodes
    depth: int  # number of words of this level's prefixes
    weights: Tensor  # (nodes of this level, longest source): mean attention of the last layer


class TransformerDecoder:
    """Encodes sources, and runs the decoder; see :class:`TreeDecoder`."""

    def __init__(self, network: TransformerNetwork, products: Products) -> None:
        config = network.config
        self._products, self._size, self._heads = products, config.hidden_size, config.heads
        self._is_pre = config.norm == "pre"
        self._encoder = [_TransformerLayer(layer, products) for layer in network.encoder]
        self._decoder = [_TransformerLayer(layer, products) for layer in network.decoder]
        self._source_attention = [
            _Attention(layer.source_attention, products) for layer in network.decoder
        ]
        self._source_norms = [_Normaliser(layer.source_norm, products) for layer in network.decoder]
        if self._is_pre:
            self._encoder_norm = _Normaliser(network.encoder_norm, products)
            self._decoder_norm = _Normaliser(network.decoder_norm, products)
        scale = math.sqrt(config.hidden_size)
        self._source_words = products.place(network.source_embedding * scale)
        # The additional row is before the first word.
        self._start_word = len(network.target_embedding)
        self._words = products.place(pad(network.target_embedding.detach() * scale, (0, 0, 0, 1)))
        self.output = products.place(network.output.weight), products.place(network.output.bias)

    def encode(self, sources: RaggedArray) -> Encoded:
        """Return the encodings of some sources, given as word ids without ``</s>``."""
        device, side = self._products.device, batch_rows(sources)
        places = Places.of(side.lengths + 1)
        owners = torch.repeat_interleave(places.lengths)
        times = torch.arange(len(owners)) - places.starts[owners]
        ids, owners, times = move(device, side.ids, owners, times)
        places = places.to(device)
        rows = self._source_words.index_select(0, ids) + self._positions(times, places.longest)
        of_rows = places.of_pairs(owners)
        for layer in self._encoder:
            memory = self._memory(layer.attention, layer.attention_norm, rows)
            for part in self._parts(len(rows)):
                ranges = of_rows.starts[part], of_rows.lengths[part]
                queries = layer.attention.queries(self._before(layer.attention_norm, rows[part]))
                attended = attend_ranges(queries, memory, *ranges, self._heads)
                attended = layer.attention.output(attended)
                some = self._after(layer.attention_norm, rows[part], attended)
                rows[part] = self._feed_forward(layer, some)
        if self._is_pre:
            rows = self._encoder_norm(rows)
        return Encoded([part.memory(rows).clone() for part in self._source_attention], places)

    def tree_rows(self, encoded: Encoded, sources: Tensor, tree: PrefixTree) -> Tensor:
        """Return the softmax's inputs after all prefixes of a tree, level by level.

        :param sources: the index of each root's source, ``(roots,)``.
        :return: ``(roots + nodes, size)``, the roots first.
        """
        device, count = self._products.device, tree.num_roots
        parents, words = [np.full(count, -1)], [np.full(count, self._start_word)]
        roots, times = [np.arange(count)], [np.zeros(count, np.int64)]
        begin = 0
        for depth, level in enumerate(tree.levels, start=1):
            parents.append(begin + level.parents)
            begin += len(roots[-1])
            words.append(level.words)
            roots.append(roots[-1][level.parents])
            times.append(np.full(len(level.words), depth))
        above, ids, owners, depths = (
            on_device(np.concatenate(each), device) for each in (parents, words, roots, times)
        )
        places = encoded.places.of_pairs(sources.index_select(0, owners))
        depth = len(tree.levels) + 1
        rows = self._words.index_select(0, ids) + self._positions(depths, depth)
        nodes = torch.arange(len(rows), device=device)
        for number, layer in enumerate(self._decoder):
            memory = self._memory(layer.attention, layer.attention_norm, rows)
            for part in self._parts(len(rows)):
                rows[part] = self._advance(
                    number, rows[part], memory, above, nodes[part], depth, encoded, places, part
                )
        return self._decoder_norm(rows) if self._is_pre else rows

    def start(self, encoded: Encoded, sources: Tensor) -> tuple[SearchState, Tensor]:
        """Return the state of the empty prefixes of some sources, and the softmax's inputs."""
        device, count = self._products.device, max(_FIRST_NODES, len(sources))
        encoded = encoded._replace(places=encoded.places.of_pairs(sources))
        nothing = sources[:0]
        state = SearchState(
            encoded,
            [torch.empty(count, 2 * self._size, device=device) for _ in self._decoder],
            torch.empty(count, dtype=torch.int64, device=device),
            count=0,
            level=nothing,
            depth=-1,
            weights=self._words[:0],
        )
        step = TreeStep.first(len(sources), self._start_word, device)
        return self._step(state, step, torch.full_like(sources, -1))

    def advance(self, state: SearchState, step: TreeStep) -> tuple[SearchState, Tensor]:
        """Return the state of a level's nodes, and the softmax's inputs."""
        _make_room(state, len(step.words))
        return self._step(state, step, state.level.index_select(0, step.parents))

    def attention(self, state: SearchState) -> Tensor:
        """Return the weights of the source for the word after each node, before `advance`.

        :return: ``(nodes, longest source)``: the source's words, its ``</s>``, then 0.
        """
        return state.weights

    def _step(
        self, state: SearchState, step: TreeStep, parents: Tensor
    ) -> tuple[SearchState, Tensor]:
        new = slice(state.count, state.count + len(parents))
        state.count, state.depth = new.stop, state.depth + 1
        state.parents[new] = parents
        state.level = torch.arange(new.start, new.stop, device=parents.device)
        places = state.encoded.places.of_pairs(step.roots)
        times = torch.full_like(parents, state.depth)
        rows = self._words.index_select(0, step.words) + self._positions(times, state.depth + 1)
        state.weights = rows.new_empty(len(rows), places.longest)
        for number, layer in enumerate(self._decoder):
            memory = state.memories[number]
            memory[new] = self._memory(layer.attention, layer.attention_norm, rows)
            is_last = number + 1 == len(self._decoder)
            rows = self._advance(
                number,
                rows,
                memory,
                state.parents,
                state.level,
                state.depth + 1,
                state.encoded,
                places,
                slice(None),
                state.weights if is_last else None,
            )
        return state, self._decoder_norm(rows) if self._is_pre else rows

    def _advance(
        self,
        number: int,
        rows: Tensor,
        memory: Tensor,
        parents: Tensor,
        nodes: Tensor,
        depth: int,
        encoded: Encoded,
        places: Places,
        part: slice,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Apply a decoder layer to rows.

        :param memory: keys and values of all nodes, ``parents`` the parent of each.
        :param nodes: the node of each row.
        :param part: the rows' entries in ``places``.
        """
        layer, heads = self._decoder[number], self._heads
        ranges = places.starts[part], places.lengths[part]
        queries = layer.attention.queries(self._before(layer.attention_norm, rows))
        attended = attend_paths(queries, memory, parents, nodes, heads, depth)
        rows = self._after(layer.attention_norm, rows, layer.attention.output(attended))
        norm, attention = self._source_norms[number], self._source_attention[number]
        queries = attention.queries(self._before(norm, rows))
        attended = attend_ranges(queries, encoded.memories[number], *ranges, heads, weights)
        rows = self._after(norm, rows, attention.output(attended))
        return self._feed_forward(layer, rows)

    def _memory(self, attention: "_Attention", norm: "_Normaliser", rows: Tensor) -> Tensor:
        """Return the keys and values of rows, ``(rows, 2 * size)``."""
        memory = rows.new_empty(len(rows), 2 * self._size)
        for part in self._parts(len(rows)):
            memory[part] = attention.memory(self._before(norm, rows[part]))
        return memory

    def _feed_forward(self, layer: "_TransformerLayer", rows: Tensor) -> Tensor:
        inner = layer.inner(self._before(layer.feed_forward_norm, rows)).relu_()
        return self._after(layer.feed_forward_norm, rows, layer.outer(inner))

    def _before(self, norm: "_Normaliser", rows: Tensor) -> Tensor:
        return norm(rows) if self._is_pre else rows

    def _after(self, norm: "_Normaliser", rows: Tensor, result: Tensor) -> Tensor:
        total = rows + result
        return total if self._is_pre else norm(total)

    def _parts(self, count: int) -> Sequence[slice]:
        """Return the rows that are computed together, which bounds memory."""
        step = self._products.level_rows
        return [slice(first, min(first + step, count)) for first in range(0, count, step)]

    def _positions(self, times: Tensor, longest: int) -> Tensor:
        table = self._products.place(sinusoids(torch.arange(longest), self._size))
        return table.index_select(0, times)


def _make_room(state: SearchState, count: int) -> None:
    """Drop nodes that are not ancestors of this level, and enlarge the arrays if needed."""
    if state.count + count <= len(state.parents):
        return
    device = state.level.device
    used = torch.zeros(state.count, dtype=torch.bool, device=device)
    nodes = state.level
    for _ in range(state.depth + 1):
        used[nodes] = True
        nodes = state.parents[nodes]
    kept = used.nonzero().flatten()
    numbers = torch.cumsum(used, 0) - 1
    parents = state.parents[kept]
    size = 2 * max(len(kept) + count, _FIRST_NODES)
    state.parents = torch.empty(size, dtype=torch.int64, device=device)
    state.parents[: len(kept)] = torch.where(parents < 0, parents, numbers[parents.clamp(min=0)])
    for number, memory in enumerate(state.memories):
        state.memories[number] = memory.new_empty(size, memory.shape[1])
        state.memories[number][: len(kept)] = memory[kept]
    state.count, state.level = len(kept), numbers[state.level]


class _Affine:
    """A matrix and a bias."""

    def __init__(self, name: str, parts: Sequence[nn.Linear], products: Products) -> None:
        self._name, self._products = name, products
        self._matrix = products.prepare(torch.cat([part.weight for part in parts]).t())
        self._bias = products.place(torch.cat([part.bias for part in parts]))

    def __call__(self, rows: Tensor) -> Tensor:
        """Return ``(rows, out)``, valid until the next product of this name."""
        return self._products.multiply(self._name, rows, self._matrix).add_(self._bias)


class _Normaliser:
    def __init__(self, norm: Norm, products: Products) -> None:
        self._gain, self._bias = products.place(norm.gain), products.place(norm.bias)

    def __call__(self, rows: Tensor) -> Tensor:
        return layer_norm(rows, self._gain.shape, self._gain, self._bias)


class _Attention:
    def __init__(self, attention: MultiHeadAttention, products: Products) -> None:
        self.queries = _Affine("queries", [attention.query], products)
        self.memory = _Affine("memory", [attention.key, attention.value], products)
        self.output = _Affine("attended", [attention.output], products)


class _TransformerLayer:
    def __init__(self, layer: EncoderLayer, products: Products) -> None:
        self.attention = _Attention(layer.attention, products)
        self.attention_norm = _Normaliser(layer.attention_norm, products)
        self.inner = _Affine("inner", [layer.feed_forward.inner], products)
        self.outer = _Affine("outer", [layer.feed_forward.outer], products)
        self.feed_forward_norm = _Normaliser(layer.feed_forward_norm, products)
