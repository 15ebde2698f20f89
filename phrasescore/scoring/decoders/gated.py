"""The gated decoder over trees of target prefixes, with either of its encoders.

The equations are in :mod:`phrasescore.models.encoder_decoder` and
:mod:`phrasescore.models.grconv`. Each source prefix, each source's summary, and the product of a
state, which all of its continuations share, are computed once. The products of all target words
with a matrix are the rows of a table.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels import gates
from phrasescore.kernels.gates import TreeStep
from phrasescore.kernels.sentence_gates import join_cells
from phrasescore.models.batches import pack_steps
from phrasescore.models.encoder_decoder import MAXOUT_POOL, EncoderDecoder, GatedDecoderNetwork
from phrasescore.models.grconv import GrconvNetwork, build_pyramid
from phrasescore.scoring.prefix_tree import Ids, build_prefix_tree, on_device
from phrasescore.scoring.products import Products, Rows
from phrasescore.scoring.tree_scorer import TreeDecoder


def split_pairs(weight: Tensor) -> Tensor:
    """Reorder a maxout layer's weight: the first unit of each pair, then the second units."""
    return torch.cat([weight[unit::MAXOUT_POOL] for unit in range(MAXOUT_POOL)])


class GatedState(NamedTuple):
    """The states of the nodes in a level, and each root's products with the c of its source."""

    states: Tensor  # (nodes, hidden)
    rounded: Rows  # the states as a factor of products
    buffer: int  # which of two buffers holds the states
    context: Tensor  # (roots, 3 * hidden): C_z c, C_r c and C c
    readout: Tensor  # (roots, 2 * maxout): O_c c with the bias


class GatedDecoder(TreeDecoder):
    """The decoder of an RNN Encoder-Decoder or a grConv; see :class:`TreeDecoder`."""

    def __init__(self, network: GatedDecoderNetwork, products: Products) -> None:
        self._products = products
        self._encoder: _UnitEncoder | _ConvolutionEncoder
        if isinstance(network, EncoderDecoder):
            self._encoder = _UnitEncoder(network, products)
        else:
            assert isinstance(network, GrconvNetwork)
            self._encoder = _ConvolutionEncoder(network, products)
        self._units = network.config.maxout_size
        self.output = products.place(network.output.weight), products.place(network.output.bias)
        decoder = network.decoder
        self._initial = products.prepare(network.initial.weight.t())
        self._initial_bias = products.place(network.initial.bias)
        self._context = products.prepare(decoder.context_weight().t())
        self._recurrent = products.prepare(decoder.recurrent_weight().t())
        # The additional row is for y_0, whose embedding is the zero vector.
        self._start_word = len(network.target_embedding)
        embedding = functional.pad(network.target_embedding.detach(), (0, 0, 0, 1))
        words = products.place(embedding @ decoder.input_weight().t() + decoder.input_bias())
        self._words = words.to(products.precision.table_type)  # (words + 1, 3 * hidden)
        self._readout_words = products.place(
            embedding @ split_pairs(network.readout_word.weight).t()
        )
        self._readout_hidden = products.prepare(split_pairs(network.readout_hidden.weight).t())
        self._readout_context = products.prepare(split_pairs(network.readout_context.weight).t())
        self._readout_bias = products.place(split_pairs(network.readout.bias))
        self._factor = products.prepare(network.output_factor.weight.t())

    def encode(self, sources: RaggedArray) -> Tensor:
        """Return a vector for each source, from which :meth:`start` computes c."""
        return self._encoder.encode(sources)

    def start(self, encoded: Tensor, sources: Tensor) -> tuple[GatedState, Tensor]:
        """Return the state after y_0 for each source, and G_r s, which predicts y_1."""
        products, take = self._products, self._products.workspace.take
        chosen = take("sources", len(sources), encoded.shape[1])
        torch.index_select(encoded, 0, sources, out=chosen)
        summaries = products.round("rounded", self._encoder.summarize(chosen))
        initial = products.multiply("initial", summaries, self._initial)
        context = products.multiply("context", summaries, self._context)
        readout = products.multiply("readout context", summaries, self._readout_context)
        states = gates.tanh_of_sums(initial, self._initial_bias)
        outer = take("readout context, with bias", *readout.shape)
        torch.add(readout, self._readout_bias, out=outer)
        state = GatedState(states, products.round("rounded", states), 0, context, outer)
        return self.advance(state, TreeStep.first(len(sources), self._start_word, products.device))

    def advance(self, state: GatedState, step: TreeStep) -> tuple[GatedState, Tensor]:
        """Return the states of the nodes in a level, and their G_r s, ``(nodes, rank)``."""
        products, take = self._products, self._products.workspace.take
        old, buffer = state.states, 1 - state.buffer
        branching = products.select("branching", state.rounded, step.branching)
        recurrent = products.product("recurrent", branching, self._recurrent)
        new = take(f"states {buffer}", len(step.words), old.shape[1])  # (nodes, hidden)
        gates.decoder_step(recurrent, step, state.context, self._words, old, new)
        rounded = products.round("rounded", new)
        readout = products.product("readout", rounded, self._readout_hidden).first(len(new))
        units = take("maxout", len(new), self._units)  # (nodes, maxout)
        gates.maxout(readout, step, state.readout, self._readout_words, units)
        after = state._replace(states=new, rounded=rounded, buffer=buffer)
        return after, products.multiply("factors", units, self._factor)


class _UnitEncoder:
    """Computes c = tanh(V h_N) with a gated unit that reads the source word by word."""

    def __init__(self, network: EncoderDecoder, products: Products) -> None:
        unit = network.encoder
        self._products = products
        # Each word's input to the unit, (words, 3 * hidden).
        words = network.source_embedding @ unit.input_weight().t() + unit.input_bias()
        self._words = products.place(words)
        self._gates = products.prepare(unit.gates_weight().t())
        self._candidate = products.prepare(unit.recurrent_candidate.weight.t())
        self._summary = products.prepare(network.summary.weight.t())
        self._summary_bias = products.place(network.summary.bias)

    def encode(self, sources: RaggedArray) -> Tensor:
        """Return h_N for each source, ``(sources, hidden)``; 0 for an empty source."""
        take, size = self._products.workspace.take, len(self._summary_bias)
        rows_at_once = self._products.level_rows
        tree = build_prefix_tree(sources, np.zeros(len(sources), np.int64), num_roots=1)
        last = take("encoder summaries", len(sources), size)
        last.index_fill_(0, self._index(tree.empty), 0)  # without waiting for a GPU
        above = take("encoder states 1", 1, size).zero_()
        for depth, level in enumerate(tree.levels):
            states = take(f"encoder states {depth % 2}", len(level.words), size)
            for start in range(0, len(level.words), rows_at_once):
                part = slice(start, start + rows_at_once)
                self._step(above, level.parents[part], level.words[part], states[part])
            last[self._index(level.ends)] = states.index_select(0, self._index(level.end_nodes))
            above = states
        return last

    def summarize(self, encoded: Tensor) -> Tensor:
        summary = self._products.multiply("summary", encoded, self._summary)
        return gates.tanh_of_sums(summary, self._summary_bias)

    def _step(self, above: Tensor, parents: Ids, words: Ids, out: Tensor) -> None:
        products, take = self._products, self._products.workspace.take
        # Nodes are in the order of their parents, so that the parents are adjacent, too.
        old = above[parents[0] : parents[-1] + 1]
        from_parents = self._index(parents - parents[0])
        table, rows = self._words, self._index(words)
        gated = products.product("encoder gates", old, self._gates)
        update, masked = take("update", *out.shape), take("masked", *out.shape)
        gates.encoder_gates(gated, table, rows, old, from_parents, update, masked)
        candidate = products.product("encoder candidate", masked, self._candidate).first(len(out))
        gates.encoder_blend(candidate, table, rows, old, from_parents, update, out)

    def _index(self, positions: Ids) -> Tensor:
        return on_device(positions, self._products.device)


class _ConvolutionEncoder:
    """Computes c, the last cell of a recursive convolution over the source."""

    def __init__(self, network: GrconvNetwork, products: Products) -> None:
        self._products = products
        self._embedding = products.place(network.source_embedding)
        self._projection = products.prepare(network.projection.weight.t())
        self._projection_bias = products.place(network.projection.bias)
        self._join = products.prepare(network.join_weight().t())
        self._join_bias = products.place(network.left.bias)
        self._gates = products.prepare(network.gate_weight().t())
        self._gates_bias = products.place(network.gate_left.bias)

    def encode(self, sources: RaggedArray) -> Tensor:
        """Return c for each source, ``(sources, encoder)``; 0 for an empty source."""
        multiply, device = self._products.multiply, self._products.device
        steps = pack_steps(torch.from_numpy(sources.lengths))
        pyramid, steps = build_pyramid(steps).to(device), steps.to(device)
        words = on_device(sources.values, device).index_select(0, steps.positions)
        cells = multiply("cells", self._embedding.index_select(0, words), self._projection)
        cells = cells + self._projection_bias
        tops = cells.new_zeros(len(steps.order), cells.shape[1])
        for level, ending in enumerate(pyramid.endings()):
            if level:
                left = pyramid.left_children(level)
                right = torch.arange(len(left), device=device) + pyramid.sizes[level - 1]
                products = multiply("join", cells, self._join)
                logits = multiply("gates", cells, self._gates)
                cells = join_cells(
                    products, self._join_bias, logits, self._gates_bias, cells, left, right
                )
            tops[steps.order[ending]] = cells[ending]
        return tops

    def summarize(self, encoded: Tensor) -> Tensor:
        return encoded
