"""Training for likelihood: the loss is -log p of pairs, and validation measures perplexity."""

import math

import torch
from torch import Tensor

from phrasescore.models.batches import PairBatch
from phrasescore.training.loop import TrainingLoop

# Pairs of a batch in validation.
_VALIDATION_BATCH = 256


class LikelihoodLoop(TrainingLoop):
    """Maximise the likelihood of the targets."""

    def _count(self, batch: PairBatch) -> tuple[int, int]:
        target_words = int(batch.target.lengths.sum())
        words = int(batch.source.lengths.sum()) + target_words
        return words, target_words + len(batch.target.lengths)

    def _make_gradient(self, batch: PairBatch, count: int) -> Tensor:
        if not len(batch.target.lengths):  # a last batch of fewer pairs than there are ranks
            return torch.zeros(())
        if self._network.config.dropout > 0:
            self._seed_update()
        with self._autocast:
            loss_sum: Tensor = -self._network(batch).float().sum()
        (loss_sum / count if self._config.loss == "mean" else loss_sum).backward()
        return loss_sum.detach()

    def _measure(self) -> float:
        """Return minus the perplexity: exp(-log p per predicted word, ``</s>`` included)."""
        total, words = 0.0, 0.0
        for batch in self._held_out_batches(_VALIDATION_BATCH):
            words += self._count(batch)[1]
            total -= self._network(batch).double().sum().item()
        total, words = self._ranks.sum([total, words])
        self._check_finite(total, self.state.update, "validation loss")
        return -math.exp(min(total / words, 700.0))

    def _shown(self, quality: float) -> tuple[float | None, float | None]:
        return -quality, None
