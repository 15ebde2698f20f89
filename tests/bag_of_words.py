"""A kind of network outside the product: one model class, one decoder class and one preset.

A target word is predicted from the mean of the source's embeddings and from the word before it. The
preset is ``tests/data/bag_of_words/bag-small.toml``.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels import gates
from phrasescore.models.batches import BatchSide, PairBatch, batch_rows
from phrasescore.models.layers import PairNetwork, draw_uniformly, previous_words
from phrasescore.scoring.prefix_tree import TreeStep
from phrasescore.scoring.products import Products
from phrasescore.scoring.tree_scorer import TreeDecoder
from phrasescore.settings.kinds import Dropout, NetworkKind, Size


@dataclass(frozen=True, slots=True)
class BagConfig:
    """The sizes of a bag of words."""

    embedding_size: Size = 100
    dropout: Dropout = 0.0


class BagNetwork(PairNetwork):
    """p(target | source), where the order of the source's words does not matter."""

    config: BagConfig

    def __init__(self, config: BagConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Parameter(torch.empty(source_size, config.embedding_size))
        self.target_embedding = nn.Parameter(torch.empty(target_size, config.embedding_size))
        self.output = nn.Linear(config.embedding_size, target_size)

    def initialize(self, generator: torch.Generator) -> None:
        draw_uniformly(self, 0.1, generator)

    def forward(self, batch: PairBatch) -> Tensor:
        target = batch.target
        steps = target.words_and_ends().to(target.ids.device)
        means = self.encode(batch.source)[steps.order][steps.pairs]  # (rows, embedding)
        rows = torch.tanh(means + previous_words(self.target_embedding, target, steps))
        return self.sum_log_probs(self.drop(rows), target, steps)

    def encode(self, source: BatchSide) -> Tensor:
        """Return the mean over each source's words and its ``</s>``, ``(batch, embedding)``."""
        words = embedding(source.ids, self.source_embedding)
        lengths = source.lengths + 1
        owners = torch.repeat_interleave(lengths).to(words.device)
        sums = words.new_zeros(len(lengths), words.shape[1]).index_add(0, owners, words)
        return sums / lengths.to(words.device).unsqueeze(1)


class BagDecoder(TreeDecoder):
    """The same over trees of prefixes; see :class:`phrasescore.scoring.tree_scorer.TreeDecoder`.

    A state is the means of the roots' sources.
    """

    def __init__(self, network: BagNetwork, products: Products) -> None:
        self._products = products
        self._network = network
        self._words = products.place(network.target_embedding)
        self._zeros = products.place(torch.zeros(network.config.embedding_size))
        self.output = products.place(network.output.weight), products.place(network.output.bias)

    def encode(self, sources: RaggedArray) -> Tensor:
        return self._network.encode(batch_rows(sources))

    def start(self, encoded: Tensor, sources: Tensor) -> tuple[Tensor, Tensor]:
        means = encoded.index_select(0, sources)
        return means, gates.tanh_of_sums(means, self._zeros)

    def advance(self, state: Tensor, step: TreeStep) -> tuple[Tensor, Tensor]:
        rows = state.index_select(0, step.roots) + self._words.index_select(0, step.words)
        return state, gates.tanh_of_sums(rows, self._zeros)


KIND = NetworkKind(
    name="bag",
    config=BagConfig,
    network="tests.bag_of_words:BagNetwork",
    decoder="tests.bag_of_words:BagDecoder",
    feature="Bag",
    presets=Path(__file__).parent / "data" / "bag_of_words",
    scores_phrases=True,
)
