"""What the networks of all papers share: their face, and the softmax over the target's words."""

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding

from phrasescore.config.settings import ModelConfig
from phrasescore.models.batches import BatchSide, PairBatch, Steps
from phrasescore.models.layers import WordLogProb


class PairNetwork(nn.Module):
    """p(target | source) of phrase or sentence pairs; a language model's is p(target).

    A network is made of its sizes (``config``) and of the sizes of the source vocabulary and the
    target vocabulary, ``</s>`` and ``<unk>`` counted. A new one has no weights yet: `initialize`
    draws them, or a checkpoint brings them.
    """

    config: ModelConfig
    output: nn.Linear

    def initialize(self, generator: torch.Generator) -> None:
        """Draw the weights that training starts from, in the order in which they were made."""
        raise NotImplementedError

    def forward(self, batch: PairBatch) -> Tensor:
        """Return log p(target ``</s>`` | source) of each pair, ``(batch,)``.

        Natural logarithms, summed over the target's words and its ``</s>``, not divided by length.
        Either side may be empty: of an empty target only ``</s>`` is scored, and an encoder that
        reads no ``</s>`` stays at its initial state 0.
        """
        raise NotImplementedError

    def drop(self, units: Tensor) -> Tensor:
        """Return units of which an update loses a share: in no paper but Zaremba et al. (2014)."""
        return dropout(units, self.config.dropout, self.training)

    def sum_log_probs(self, rows: Tensor, target: BatchSide, steps: Steps) -> Tensor:
        """Return log p of each target's words and ``</s>``, added up, ``(batch,)``.

        :param rows: what the softmax reads at the steps, ``(rows, width)``.
        :param steps: the target's `words_and_ends`.
        """
        log_probs: Tensor = WordLogProb.apply(
            rows, self.output.weight, self.output.bias, target.ids[steps.positions]
        )  # (rows,)
        total = log_probs.new_zeros(len(target.lengths))
        return total.index_add(0, steps.order[steps.pairs], log_probs)


def previous_words(table: Tensor, target: BatchSide, steps: Steps) -> Tensor:
    """Return the embedding of the word before each row's, ``(rows, embedding)``.

    Step t reads y_{t-1} and predicts y_t. The embedding of y_0 is the zero vector.
    """
    words = embedding(target.previous_ids(steps), table)
    return torch.cat([words.new_zeros(len(target.lengths), words.shape[1]), words])


def draw_uniformly(network: nn.Module, bound: float, generator: torch.Generator) -> None:
    """Draw all weights between ``-bound`` and ``bound``."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.uniform_(-bound, bound, generator=generator)


def draw_orthogonal(matrix: Tensor, generator: torch.Generator, radius: float = 1.0) -> None:
    """Make a matrix the left singular vectors of a Gaussian one (Saxe et al., 2014), scaled."""
    gaussian = torch.randn(matrix.shape, generator=generator, dtype=torch.float64)
    matrix.copy_(radius * torch.linalg.svd(gaussian)[0])
