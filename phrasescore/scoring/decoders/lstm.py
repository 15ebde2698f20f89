"""The deep LSTM's decoder over a tree of target prefixes.

The embeddings' part of the first layer is a table, computed once per network, if it is not too
large. A layer's product with its own last state is computed once per parent and not once per node:
nodes that share all words but the last share it.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phrasescore.kernels.precision import Factor
from phrasescore.kernels.sentence_gates import lstm_cell
from phrasescore.models.lstm import LstmNetwork, LstmStack
from phrasescore.scoring.prefix_tree import Sequences, TreeStep, on_device
from phrasescore.scoring.products import Products
from phrasescore.vocabulary import Vocabulary

# Numbers at most of a table of each target word's input to the first layer: 256 MB.
TABLE_SIZE = 1 << 26


class LstmState(NamedTuple):
    """h and c of each layer, each ``(nodes, hidden)``."""

    hidden: list[Tensor]
    cell: list[Tensor]
    # Number of the level, whose parity says which of two sets of buffers it lies in.
    depth: int = 0


class LstmDecoder:
    """Encodes sources, and runs the decoder level by level; see :class:`TreeDecoder`."""

    def __init__(self, network: LstmNetwork, products: Products) -> None:
        self._products = products
        self._reverse_source = network.config.reverse_source
        self._encoder = _Stack(network.encoder, network.source_embedding, products, table_size=0)
        self._decoder = _Stack(
            network.decoder, network.target_embedding, products, table_size=TABLE_SIZE
        )
        self.output = (network.output.weight, network.output.bias)

    def encode(self, sources: Sequences) -> LstmState:
        """Return the encoder's last h and c; those of an empty source are 0."""
        stack, device = self._encoder, self._products.device
        shape = len(sources.lengths), stack.size
        hidden, cell = ([torch.zeros(shape, device=device) for _ in stack.layers] for _ in range(2))
        for time, positions in enumerate(sources.steps(reverse=self._reverse_source)):
            active, words = len(positions), on_device(sources.ids[positions], device)
            upper = LstmState([h[:active] for h in hidden], [c[:active] for c in cell], time)
            rows = torch.arange(active, device=device)
            after = stack.advance(upper, TreeStep(rows, words, rows, rows, rows))
            for kept, new in zip([*hidden, *cell], [*after.hidden, *after.cell], strict=True):
                kept[:active] = new
        # From the longest source first to the order of the sources.
        order = np.argsort(-sources.lengths, kind="stable")
        back = on_device(np.argsort(order), device)
        return LstmState([h[back] for h in hidden], [c[back] for c in cell])

    def start(self, encoded: LstmState, sources: Tensor) -> tuple[LstmState, Tensor]:
        """Return the states after ``</s>``, which the decoder reads first, and the upper h."""
        hidden, cell = (
            [layer.index_select(0, sources) for layer in layers]
            for layers in (encoded.hidden, encoded.cell)
        )
        step = TreeStep.first(len(sources), Vocabulary.END, self._products.device)
        return self.advance(LstmState(hidden, cell), step)

    def advance(self, state: LstmState, step: TreeStep) -> tuple[LstmState, Tensor]:
        """Return the nodes' states, and the upper layer's h."""
        after = self._decoder.advance(state, step)
        return after, after.hidden[-1]


class _Layer(NamedTuple):
    """The weights of a layer as products take them; from below the first may have a table."""

    recurrent: Factor
    input: Factor | None
    table: Tensor | None  # instead of ``input``: its product with each word, (words, 4 * hidden)
    bias: Tensor


class _Stack:
    """The layers of an encoder or of a decoder.

    :param table_size: numbers that the table of all words' inputs may have; where it would have
        more, the products are made node by node.
    """

    def __init__(
        self,
        stack: LstmStack,
        embedding: Tensor,
        products: Products,
        *,
        table_size: int,
    ) -> None:
        self._products = products
        self._has_table = len(embedding) * 4 * stack.hidden_size <= table_size
        self._embedding = products.place(embedding)
        self.layers = []
        for number in range(len(stack.layers)):
            weight, bias, recurrent = (
                stack.get_parameter(f"layers.{number}.{name}")
                for name in ("input.weight", "input.bias", "recurrent.weight")
            )
            is_table = self._has_table and number == 0
            layer = _Layer(
                products.prepare(recurrent.t()),
                None if is_table else products.prepare(weight.t()),
                products.place(embedding @ weight.t()) if is_table else None,
                products.place(bias),
            )
            self.layers.append(layer)
        self.size = stack.hidden_size

    def advance(self, state: LstmState, step: TreeStep) -> LstmState:
        """Return the states after one more word, valid until the next call but one."""
        products, words = self._products, step.words
        nodes = torch.arange(len(words), device=words.device)
        after = LstmState([], [], state.depth + 1)
        for number, layer in enumerate(self.layers):
            upper = state.hidden[number].index_select(0, step.going_on)  # (families, hidden)
            recurrent = products.multiply("recurrent", upper, layer.recurrent)
            if layer.table is not None:
                below, places = layer.table, words
            else:
                assert layer.input is not None
                rows = after.hidden[-1] if number else self._embedding.index_select(0, words)
                below, places = products.multiply("below", rows, layer.input), nodes
            hidden, cell = (
                products.workspace.take(f"{name} {number} {after.depth % 2}", len(words), self.size)
                for name in ("hidden", "cell")
            )
            lstm_cell(
                recurrent,
                step.families,
                below,
                places,
                layer.bias,
                state.cell[number],
                step.parents,
                hidden,
                cell,
            )
            after.hidden.append(hidden)
            after.cell.append(cell)
        return after
