"""The deep LSTM's decoder over a tree of target prefixes.

The inputs to the first layer are a table with a row per word, unless it would be too large. A
layer's product with its last state is computed once per parent and shared by its child nodes.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels.gates import TreeStep
from phrasescore.kernels.precision import Factor
from phrasescore.kernels.sentence_gates import lstm_cell
from phrasescore.models.batches import pack_steps
from phrasescore.models.lstm import LstmNetwork, LstmStack
from phrasescore.scoring.prefix_tree import on_device
from phrasescore.scoring.products import Products
from phrasescore.scoring.tree_scorer import TreeDecoder
from phrasescore.vocabulary import Vocabulary

# Maximum number of elements in the table of inputs to the first layer: 256 MB.
TABLE_SIZE = 1 << 26


class LstmState(NamedTuple):
    """h and c of each layer, each ``(nodes, hidden)``."""

    hidden: list[Tensor]
    cell: list[Tensor]
    depth: int = 0  # its parity selects one of two sets of buffers


class LstmDecoder(TreeDecoder):
    """The deep LSTM's encoder and decoder; see :class:`TreeDecoder`."""

    def __init__(self, network: LstmNetwork, products: Products) -> None:
        self._products = products
        self._reverse_source = network.config.reverse_source
        self._encoder = _Stack(network.encoder, network.source_embedding, products, table_size=0)
        self._decoder = _Stack(
            network.decoder, network.target_embedding, products, table_size=TABLE_SIZE
        )
        self.output = (network.output.weight, network.output.bias)

    def encode(self, sources: RaggedArray) -> LstmState:
        """Return the encoder's last h and c, which are 0 for an empty source."""
        stack, device = self._encoder, self._products.device
        shape = len(sources), stack.size
        hidden, cell = ([torch.zeros(shape, device=device) for _ in stack.layers] for _ in range(2))
        steps = pack_steps(torch.from_numpy(sources.lengths)).to(device)
        positions = steps.backward_positions() if self._reverse_source else steps.positions
        ids = on_device(sources.values, device).index_select(0, positions)
        for time, words in enumerate(ids.split(steps.sizes)):
            active = len(words)
            upper = LstmState([h[:active] for h in hidden], [c[:active] for c in cell], time)
            rows = torch.arange(active, device=device)
            after = stack.advance(upper, TreeStep(rows, words, rows, rows, rows))
            for kept, new in zip([*hidden, *cell], [*after.hidden, *after.cell], strict=True):
                kept[:active] = new
        back = torch.argsort(steps.order)
        return LstmState([h[back] for h in hidden], [c[back] for c in cell])

    def start(self, encoded: LstmState, sources: Tensor) -> tuple[LstmState, Tensor]:
        """Return the states after the first ``</s>``, and the top layer's h."""
        hidden, cell = (
            [layer.index_select(0, sources) for layer in layers]
            for layers in (encoded.hidden, encoded.cell)
        )
        step = TreeStep.first(len(sources), Vocabulary.END, self._products.device)
        return self.advance(LstmState(hidden, cell), step)

    def advance(self, state: LstmState, step: TreeStep) -> tuple[LstmState, Tensor]:
        """Return the states of the nodes in a level, and the top layer's h."""
        after = self._decoder.advance(state, step)
        return after, after.hidden[-1]


class _Layer(NamedTuple):
    recurrent: Factor
    input: Factor | None
    table: Tensor | None  # in place of ``input``: its product with each word, (words, 4 * hidden)
    bias: Tensor


class _Stack:
    def __init__(
        self, stack: LstmStack, embedding: Tensor, products: Products, *, table_size: int
    ) -> None:
        self._products = products
        self._has_table = len(embedding) * 4 * stack.hidden_size <= table_size
        self._embedding = products.place(embedding)
        self.layers = []
        for number, layer in enumerate(stack.layers):
            is_table, weight = self._has_table and number == 0, layer.input.weight.t()
            prepared = _Layer(
                products.prepare(layer.recurrent.weight.t()),
                None if is_table else products.prepare(weight),
                products.place(embedding @ weight) if is_table else None,
                products.place(layer.input.bias),
            )
            self.layers.append(prepared)
        self.size = stack.hidden_size

    def advance(self, state: LstmState, step: TreeStep) -> LstmState:
        """Return the states after one more word; they are valid until the call after the next."""
        products, words = self._products, step.words
        nodes = torch.arange(len(words), device=words.device)
        after = LstmState([], [], state.depth + 1)
        for number, layer in enumerate(self.layers):
            upper = state.hidden[number].index_select(0, step.branching)  # (families, hidden)
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
            lstm_cell(recurrent, step, below, places, layer.bias, state.cell[number], hidden, cell)
            after.hidden.append(hidden)
            after.cell.append(cell)
        return after
