"""The gated decoder over trees of target prefixes, behind either of its encoders.

The equations are those of :mod:`phrasescore.models.gated_decoder`,
:mod:`phrasescore.models.encoder_decoder` and :mod:`phrasescore.models.grconv`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phrasescore.kernels import gates
from phrasescore.kernels.precision import Product
from phrasescore.kernels.workspace import Workspace
from phrasescore.models.batches import pack_steps
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.models.gated_decoder import MAXOUT_POOL, GatedDecoderNetwork
from phrasescore.models.grconv import GrconvNetwork
from phrasescore.models.recursive_convolution import build_pyramid
from phrasescore.scoring.encoder_steps import join_cells, tanh_of_sums
from phrasescore.scoring.fixed_products import FixedProducts
from phrasescore.scoring.positions import on_device
from phrasescore.scoring.prefix_tree import Ids, Sequences, build_prefix_tree
from phrasescore.scoring.tree_decoder import TreeStep


class GatedContext(NamedTuple):
    """What the decoder takes from c of each source."""

    initial: Tensor  # (sources, hidden): h'_0
    unit: Tensor  # (sources, 3 * hidden): C_z c, C_r c and C c
    readout: Tensor  # (sources, 2 * maxout): O_c c with the bias


class GatedState(NamedTuple):
    """The states of a level's nodes, ``(nodes, hidden)``, in one of two buffers."""

    states: Tensor
    buffer: int


class GatedDecoder:
    """The decoder of an encoder-decoder or grConv, with its weights laid out for scoring.

    Every product between a target word and a matrix is a row of a table.
    """

    def __init__(self, network: GatedDecoderNetwork, products: FixedProducts) -> None:
        def place(weight: Tensor) -> Tensor:
            return weight.detach().to(products.device, torch.float32).contiguous()

        self._products = products
        self._workspace = Workspace(products.device)
        self._encode = _ENCODERS[type(network)](network, products)
        self._units = network.config.maxout_size
        self.output = place(network.output.weight), place(network.output.bias)
        decoder = network.decoder
        self._initial = products.prepare(network.initial.weight.t())
        self._initial_bias = place(network.initial.bias)
        self._context = products.prepare(decoder.context_weight().t())
        self._recurrent = products.prepare(decoder.recurrent_weight().t())
        # One more row than words: e(y_0) is the zero vector, which leaves nothing but the biases.
        self._start_word = len(network.target_embedding)
        embedding = network.target_embedding.detach()
        words = torch.cat([embedding, embedding.new_zeros(1, embedding.shape[1])])
        self._words = place(words @ decoder.input_weight().t() + decoder.input_bias())
        # The two units of a maxout pair go to columns half the width apart.
        units = torch.arange(MAXOUT_POOL * self._units, device=words.device)
        apart = units.view(-1, MAXOUT_POOL).t().reshape(-1)
        self._readout_words = place(words @ network.readout_word.weight[apart].t())
        self._readout_hidden = products.prepare(network.readout_hidden.weight[apart].t())
        self._readout_context = products.prepare(network.readout_context.weight[apart].t())
        self._readout_bias = place(network.readout.bias[apart])
        self._factor = products.prepare(network.output_factor.weight.t())

    def encode(self, sources: Sequences) -> GatedContext:
        """Return what the decoder needs of some sources, given as word ids without ``</s>``."""
        summaries, multiply = self._encode(sources), self._products.multiply
        initial = multiply("initial", summaries, self._initial)
        return GatedContext(
            tanh_of_sums(initial, self._initial_bias),
            multiply("context", summaries, self._context).clone(),
            multiply("readout context", summaries, self._readout_context) + self._readout_bias,
        )

    def start(self, encoded: GatedContext) -> tuple[GatedState, Tensor]:
        """Return the state after y_0 at each source's root, and G_r s, which predicts y_1."""
        roots = torch.arange(len(encoded.initial), device=self._products.device)
        words = torch.full_like(roots, self._start_word)
        return self.advance(encoded, GatedState(encoded.initial, 0), TreeStep(roots, words, roots))

    def advance(
        self, encoded: GatedContext, state: GatedState, step: TreeStep
    ) -> tuple[GatedState, Tensor]:
        """Return the states of a level's nodes, and G_r s of each, ``(nodes, rank)``."""
        old, buffer = state.states, 1 - state.buffer
        # A state's product serves all of its continuations, which lie side by side.
        goes_on, positions = torch.unique_consecutive(step.parents, return_inverse=True)
        products = self._products.multiply(
            "recurrent", old.index_select(0, goes_on), self._recurrent
        )
        new = self._workspace.take(f"states {buffer}", len(step.words), old.shape[1])
        gates.decoder_step(
            Product(products),
            positions,
            encoded.unit,
            step.roots,
            self._words,
            step.words,
            old,
            step.parents,
            new,
        )
        units = self._workspace.take("maxout", len(new), self._units)
        products = self._products.multiply("readout", new, self._readout_hidden)
        gates.maxout(
            Product(products), encoded.readout, step.roots, self._readout_words, step.words, units
        )
        return GatedState(new, buffer), self._products.multiply("factors", units, self._factor)


class _UnitEncoder:
    """c = tanh(V h_N) of a gated unit that reads the source word by word."""

    def __init__(self, network: EncoderDecoder, products: FixedProducts) -> None:
        unit = network.encoder
        self._products = products
        self._embedding = network.source_embedding.detach().to(products.device, torch.float32)
        self._input = products.prepare(unit.input_weight().t())
        self._bias = unit.input_bias().detach().to(products.device, torch.float32)
        self._gates = products.prepare(unit.gates_weight().t())
        self._candidate = products.prepare(unit.recurrent_candidate.weight.t())
        self._summary = products.prepare(network.summary.weight.t())
        self._summary_bias = network.summary.bias.detach().to(products.device, torch.float32)

    def __call__(self, sources: Sequences) -> Tensor:
        """Return c of each source, ``(sources, hidden)``."""
        multiply, count = self._products.multiply, len(sources.lengths)
        tree = build_prefix_tree(sources, np.zeros(count, dtype=np.int64), num_roots=1)
        above = self._summary_bias.new_zeros(1, len(self._summary_bias))
        last = above.repeat(count, 1)
        for level in tree.levels:
            parents, words = self._index(level.parents), self._index(level.words)
            # One row a node in place of a table of all words: of a source's words there are few.
            inputs = multiply("inputs", self._embedding.index_select(0, words), self._input)
            inputs += self._bias
            rows = torch.arange(len(words), device=words.device)
            states, update, masked = torch.empty(
                3, len(words), above.shape[1], device=words.device
            ).unbind()
            products = multiply("encoder gates", above, self._gates)
            gates.encoder_gates(Product(products), inputs, rows, above, parents, update, masked)
            products = multiply("encoder candidate", masked, self._candidate)
            gates.encoder_blend(Product(products), inputs, rows, above, parents, update, states)
            last[self._index(level.ends)] = states.index_select(0, self._index(level.end_nodes))
            above = states
        return tanh_of_sums(multiply("summary", last, self._summary), self._summary_bias)

    def _index(self, positions: Ids) -> Tensor:
        return on_device(positions, self._products.device)


class _ConvolutionEncoder:
    """c, the last cell of a recursive convolution over the source."""

    def __init__(self, network: GrconvNetwork, products: FixedProducts) -> None:
        def place(weight: Tensor) -> Tensor:
            return weight.detach().to(products.device, torch.float32)

        self._products = products
        self._embedding = place(network.source_embedding)
        self._projection = products.prepare(network.projection.weight.t())
        self._projection_bias = place(network.projection.bias)
        self._join = products.prepare(network.join_weight().t())
        self._join_bias = place(network.left.bias)
        self._gates = products.prepare(network.gate_weight().t())
        self._gates_bias = place(network.gate_left.bias)

    def __call__(self, sources: Sequences) -> Tensor:
        """Return c of each source, ``(sources, encoder)``; 0 for an empty one."""
        multiply, device = self._products.multiply, self._products.device
        steps = pack_steps(torch.from_numpy(sources.lengths))
        pyramid, steps = build_pyramid(steps).to(device), steps.to(device)
        starts = on_device(sources.starts, device)
        words = on_device(sources.ids, device)[starts[steps.order[steps.pairs]] + steps.times]
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


_Encoder = Callable[[Sequences], Tensor]
_ENCODERS: dict[type, Callable[..., _Encoder]] = {
    EncoderDecoder: _UnitEncoder,
    GrconvNetwork: _ConvolutionEncoder,
}
