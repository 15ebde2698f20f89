"""The Transformer's decoder over a tree of target prefixes.

When all targets are known, a whole tree is one pass per layer: each distinct prefix is one row,
which attends to its ancestors only. A search goes from level to level, and keeps the keys and
values of the prefixes. Both give a prefix the same bits.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from phrasescore.devices import move
from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels.gates import TreeStep
from phrasescore.kernels.head_attention import attend_paths, attend_ranges
from phrasescore.models.alignment import Places
from phrasescore.models.batches import batch_rows
from phrasescore.models.transformer import (
    EncoderLayer,
    MultiHeadAttention,
    TransformerNetwork,
    sinusoids,
)
from phrasescore.scoring.prefix_tree import Ids, PrefixTree, on_device
from phrasescore.scoring.products import Products
from phrasescore.scoring.tree_scorer import TreeDecoder

_Norm = TypeVar("_Norm", bound=nn.Module)

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


class TransformerDecoder(TreeDecoder):
    """Encodes sources, and runs the decoder; see :class:`TreeDecoder`."""

    def __init__(self, network: TransformerNetwork, products: Products) -> None:
        config = network.config
        self._products, self._size, self._heads = products, config.hidden_size, config.heads
        self._encoder = [_TransformerLayer(layer, products) for layer in network.encoder]
        self._decoder = [_TransformerLayer(layer, products) for layer in network.decoder]
        self._source_attention = [
            _Attention(layer.source_attention, products) for layer in network.decoder
        ]
        self._source_norms = [_placed(layer.source_norm, products) for layer in network.decoder]
        self._encoder_norm = _placed(network.encoder_norm, products)
        self._decoder_norm = _placed(network.decoder_norm, products)
        scale = math.sqrt(config.hidden_size)
        self._source_words = products.place(network.source_embedding * scale)
        # The additional row is before the first word.
        self._start_word = len(network.target_embedding)
        self._words = products.place(pad(network.target_embedding.detach() * scale, (0, 0, 0, 1)))
        self.output = products.place(network.output.weight), products.place(network.output.bias)

    def encode(self, sources: RaggedArray) -> Encoded:
        device, side = self._products.device, batch_rows(sources)
        places = Places.of(side.lengths + 1)
        ids, owners, times = move(device, side.ids, *side.owners())
        places = places.to(device)
        rows = self._source_words.index_select(0, ids) + self._positions(times, places.longest)
        of_rows = places.of_pairs(owners)
        for layer in self._encoder:
            memory = self._memory(layer, rows)
            for part in self._parts(len(rows)):
                ranges = of_rows.starts[part], of_rows.lengths[part]
                queries = layer.attention.queries(layer.attention_norm.before(rows[part]))
                attended = attend_ranges(queries, memory, *ranges, self._heads)
                attended = layer.attention.output(attended)
                rows[part] = layer.feed_forward(layer.attention_norm.after(rows[part], attended))
        rows = self._encoder_norm(rows)
        return Encoded([part.memory(rows).clone() for part in self._source_attention], places)

    def tree_rows(self, encoded: Encoded, sources: Tensor, tree: PrefixTree) -> Tensor:
        """Return the softmax's inputs after all prefixes of a tree, level by level.

        :param sources: the index of each root's source, ``(roots,)``.
        :return: ``(roots + nodes, size)``, the roots first.
        """
        device, prefixes = self._products.device, tree.prefixes(self._start_word)
        above, ids, owners, depths = (on_device(part, device) for part in prefixes)
        places = encoded.places.of_pairs(sources.index_select(0, owners))
        depth = len(tree.levels) + 1
        rows = self._words.index_select(0, ids) + self._positions(depths, depth)
        nodes = torch.arange(len(rows), device=device)
        for number, layer in enumerate(self._decoder):
            memory = self._memory(layer, rows)
            source = encoded.memories[number]
            for part in self._parts(len(rows)):
                own = memory, above, nodes[part]
                ranges = places.starts[part], places.lengths[part]
                rows[part] = self._advance(number, rows[part], own, depth, (source, *ranges))
        normalised: Tensor = self._decoder_norm(rows)
        return normalised

    def walk(
        self, encoded: Encoded, sources: Tensor, tree: PrefixTree
    ) -> Iterator[tuple[Tensor, Ids, Ids]]:
        yield self.tree_rows(encoded, sources, tree), *tree.predictions()

    def start(self, encoded: Encoded, sources: Tensor) -> tuple[SearchState, Tensor]:
        device, count = self._products.device, max(_FIRST_NODES, len(sources))
        encoded = encoded._replace(places=encoded.places.of_pairs(sources))
        state = SearchState(
            encoded,
            [torch.empty(count, 2 * self._size, device=device) for _ in self._decoder],
            torch.empty(count, dtype=torch.int64, device=device),
            count=0,
            level=sources[:0],
            depth=-1,
        )
        step = TreeStep.first(len(sources), self._start_word, device)
        return self._step(state, step, torch.full_like(sources, -1))

    def advance(self, state: SearchState, step: TreeStep) -> tuple[SearchState, Tensor]:
        _make_room(state, len(step.words))
        return self._step(state, step, state.level.index_select(0, step.parents))

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
        for number, layer in enumerate(self._decoder):
            memory = state.memories[number]
            memory[new] = self._memory(layer, rows)
            own = memory, state.parents, state.level
            source = state.encoded.memories[number], places.starts, places.lengths
            rows = self._advance(number, rows, own, state.depth + 1, source)
        return state, self._decoder_norm(rows)

    def _advance(
        self,
        number: int,
        rows: Tensor,
        own: tuple[Tensor, Tensor, Tensor],
        depth: int,
        source: tuple[Tensor, Tensor, Tensor],
    ) -> Tensor:
        """Apply a decoder layer to rows.

        :param own: keys and values of all nodes, the parent of each, and the node of each row.
        :param source: keys and values of the sources, and the range of them that each row reads.
        """
        layer, heads = self._decoder[number], self._heads
        queries = layer.attention.queries(layer.attention_norm.before(rows))
        attended = attend_paths(queries, *own, heads, depth)
        rows = layer.attention_norm.after(rows, layer.attention.output(attended))
        norm, attention = self._source_norms[number], self._source_attention[number]
        queries = attention.queries(norm.before(rows))
        attended = attend_ranges(queries, *source, heads)
        return layer.feed_forward(norm.after(rows, attention.output(attended)))

    def _memory(self, layer: "_TransformerLayer", rows: Tensor) -> Tensor:
        memory = rows.new_empty(len(rows), 2 * self._size)
        for part in self._parts(len(rows)):
            memory[part] = layer.attention.memory(layer.attention_norm.before(rows[part]))
        return memory

    def _parts(self, count: int) -> Sequence[slice]:
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
    def __init__(self, name: str, parts: Sequence[nn.Linear], products: Products) -> None:
        self._name, self._products = name, products
        self._matrix = products.prepare(torch.cat([part.weight for part in parts]).t())
        self._bias = products.place(torch.cat([part.bias for part in parts]))

    def __call__(self, rows: Tensor) -> Tensor:
        """Return ``(rows, out)``, valid until the next product of this name."""
        return self._products.multiply(self._name, rows, self._matrix).add_(self._bias)


def _placed(norm: _Norm, products: Products) -> _Norm:
    return copy.deepcopy(norm).requires_grad_(False).to(products.device)


class _Attention:
    def __init__(self, attention: MultiHeadAttention, products: Products) -> None:
        self.queries = _Affine("queries", [attention.query], products)
        self.memory = _Affine("memory", [attention.key, attention.value], products)
        self.output = _Affine("attended", [attention.output], products)


class _TransformerLayer:
    def __init__(self, layer: EncoderLayer, products: Products) -> None:
        self.attention = _Attention(layer.attention, products)
        self.attention_norm = _placed(layer.attention_norm, products)
        self._inner = _Affine("inner", [layer.feed_forward.inner], products)
        self._outer = _Affine("outer", [layer.feed_forward.outer], products)
        self._norm = _placed(layer.feed_forward_norm, products)

    def feed_forward(self, rows: Tensor) -> Tensor:
        return self._norm.after(rows, self._outer(self._inner(self._norm.before(rows)).relu_()))
