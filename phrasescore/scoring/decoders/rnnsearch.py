"""RNNsearch's decoder over a tree of target prefixes.

The context c_i depends on the state s_{i-1} and not on the word y_{i-1}: nodes with the same parent
(a *family*) share the context and the products of the parent's state. U_a h_j, C h_j and C_o h_j
are computed once per source, and averaged instead of h_j (:mod:`phrasescore.models.rnnsearch`). The
products of all target words with a matrix are the rows of a table.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from phrasescore.devices import move
from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels import gates, sentence_gates
from phrasescore.kernels.gates import TreeStep
from phrasescore.kernels.precision import Product
from phrasescore.models.alignment import Annotations, Places, attend
from phrasescore.models.batches import batch_rows
from phrasescore.models.encoder_decoder import GatedUnit
from phrasescore.models.rnnsearch import RnnsearchNetwork
from phrasescore.scoring.decoders.gated import split_pairs
from phrasescore.scoring.products import Products
from phrasescore.scoring.tree_scorer import TreeDecoder


class Annotated(NamedTuple):
    """The products of the matrices with the sources' annotations, concatenated."""

    initial: Tensor  # (sources, hidden): s_0
    keys: Tensor  # (positions, units): U_a h with its bias
    values: Tensor  # (positions, 3 * hidden + 2 * maxout): C_z h, C_r h, C h and C_o h
    places: Places  # the positions of each source


class AttentiveState(NamedTuple):
    """The states of the nodes in a level, and the sources that they read."""

    annotated: Annotated
    states: Tensor  # (nodes, hidden)
    buffer: int  # which of two buffers holds the states


class RnnsearchDecoder(TreeDecoder):
    """RNNsearch's encoder and decoder; see :class:`TreeDecoder`."""

    def __init__(self, network: RnnsearchNetwork, products: Products) -> None:
        self._products = products
        self._units = network.config.maxout_size
        self.output = products.place(network.output.weight), products.place(network.output.bias)
        self._source_embedding = products.place(network.source_embedding)
        self._encoders = [
            _Direction(unit, products)
            for unit in (network.forward_encoder, network.backward_encoder)
        ]
        self._initial = products.prepare(network.initial.weight.t())
        self._initial_bias = products.place(network.initial.bias)
        align, decoder = network.alignment, network.decoder
        self._annotation = products.prepare(align.annotation.weight.t())
        self._annotation_bias = products.place(align.annotation.bias)
        self._energy = products.place(align.energy)
        self._state = products.prepare(torch.cat([align.state.weight, decoder.gates_weight()]).t())
        self._candidate = products.prepare(decoder.recurrent_candidate.weight.t())
        # The additional row is for y_0, whose embedding is the zero vector.
        self._start_word = len(network.target_embedding)
        words = functional.pad(network.target_embedding.detach(), (0, 0, 0, 1))
        self._words = products.place(words @ decoder.input_weight().t() + decoder.input_bias())
        readout = split_pairs(network.readout_word.weight), split_pairs(network.readout.bias)
        self._readout_words = products.place(words @ readout[0].t() + readout[1])
        self._readout_state = products.prepare(split_pairs(network.readout_hidden.weight).t())
        context_weight = [decoder.context_weight(), split_pairs(network.readout_context.weight)]
        self._values = products.prepare(torch.cat(context_weight).t())

    def encode(self, sources: RaggedArray) -> Annotated:
        multiply = self._products.multiply
        side, device = batch_rows(sources), self._products.device
        words = self._source_embedding.index_select(0, move(device, side.ids)[0])
        steps = side.words_and_ends().to(device)
        forward, backward = (
            direction(words, positions.split(steps.sizes))
            for direction, positions in zip(
                self._encoders, (steps.positions, steps.backward_positions()), strict=True
            )
        )
        annotations = torch.cat([forward, backward], dim=1)
        places = Places.of(side.lengths + 1).to(device)
        first = multiply("initial", backward.index_select(0, places.starts), self._initial)
        return Annotated(
            gates.tanh_of_sums(first, self._initial_bias),
            multiply("keys", annotations, self._annotation) + self._annotation_bias,
            multiply("values", annotations, self._values).clone(),
            places,
        )

    def start(self, encoded: Annotated, sources: Tensor) -> tuple[AttentiveState, Tensor]:
        """Return the state after y_0 for each source, and t, which predicts y_1."""
        initial = encoded.initial.index_select(0, sources)
        annotated = encoded._replace(initial=initial, places=encoded.places.of_pairs(sources))
        state = AttentiveState(annotated, initial, 0)
        step = TreeStep.first(len(sources), self._start_word, self._products.device)
        return self.advance(state, step)

    def advance(self, state: AttentiveState, step: TreeStep) -> tuple[AttentiveState, Tensor]:
        """Return the states of the nodes in a level, and their t, ``(nodes, maxout)``."""
        multiply, take = self._products.multiply, self._products.workspace.take
        annotated, families = state.annotated, step.families
        old = state.states.index_select(0, step.branching)  # (families, hidden)
        products = multiply("state", old, self._state)  # (families, units + 2 * hidden)
        # All nodes of a family have the same root.
        roots = torch.empty_like(step.branching).scatter_(0, families, step.roots)
        places = annotated.places.of_pairs(roots)
        weights = take("weights", len(old), places.longest)
        sums = take("sums", len(old), annotated.values.shape[1])  # C_z c, C_r c, C c and C_o c
        queries = products[:, : len(self._energy)].contiguous()
        read = Annotations(annotated.keys, self._energy, annotated.values, places)
        attend(queries, read, weights, sums)
        count, size, buffer = len(families), old.shape[1], 1 - state.buffer
        update, masked = take("update", count, size), take("masked", count, size)
        shared = take("shared", len(old), 2 * size)  # by the nodes of a family
        torch.add(products[:, -2 * size :], sums[:, : 2 * size], out=shared)
        table = self._words
        gates.encoder_gates(Product(shared), table, step.words, old, families, update, masked)
        candidates = multiply("candidate", masked, self._candidate)  # (nodes, hidden)
        new = take(f"states {buffer}", count, size)
        sentence_gates.attentive_blend(candidates, step, sums, table, old, update, new)
        readout = multiply("readout", new, self._readout_state)  # (nodes, 2 * maxout)
        units = take("maxout", count, self._units)
        sentence_gates.attentive_maxout(readout, step, sums, self._readout_words, units)
        return AttentiveState(annotated, new, buffer), units


class _Direction:
    def __init__(self, unit: GatedUnit, products: Products) -> None:
        self._products = products
        self._size = unit.recurrent_candidate.weight.shape[0]
        # In gates.encoder_gates, z keeps the old state; here, it admits the new one. 1 - sigma(x)
        # is sigma(-x).
        sign = torch.ones(3 * self._size, 1, device=unit.input_update.weight.device)
        sign[: self._size] = -1
        self._input = products.prepare((sign * unit.input_weight()).t())
        self._bias = products.place(sign[:, 0] * unit.input_bias())
        self._gates = products.prepare((sign[: 2 * self._size] * unit.gates_weight()).t())
        self._candidate = products.prepare(unit.recurrent_candidate.weight.t())

    def __call__(self, words: Tensor, steps: Sequence[Tensor]) -> Tensor:
        """Return the state at each position, ``(positions, hidden)``, from the embeddings."""
        multiply, size = self._products.multiply, self._size
        inputs = multiply("inputs", words, self._input)
        inputs += self._bias
        states = words.new_empty(len(words), size)
        old = words.new_zeros(len(steps[0]) if steps else 0, size)
        for places in steps:
            active = len(places)
            old, rows = old[:active], torch.arange(active, device=words.device)
            update, masked, new = words.new_empty(3, active, size).unbind()
            products = multiply("encoder gates", old, self._gates)
            gates.encoder_gates(Product(products), inputs, places, old, rows, update, masked)
            products = multiply("encoder candidate", masked, self._candidate)
            gates.encoder_blend(Product(products), inputs, places, old, rows, update, new)
            states[places] = new
            old = new
        return states
