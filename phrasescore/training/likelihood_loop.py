"""Training for likelihood: the loss is -log p of pairs, and validation measures perplexity."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from phrasescore.config.settings import TrainingConfig
from phrasescore.models.batches import PairBatch
from phrasescore.models.checkpoint import CurvePoint
from phrasescore.models.layers import PairNetwork
from phrasescore.training.loop import (
    TrainingProgress,
    UpdateLoop,
    held_out_size,
    seed_of_update,
)
from phrasescore.training.pair_store import PairDraw, PairStore
from phrasescore.training.ranks import Ranks
from phrasescore.training.run_folder import RunFolder

# Pairs of a batch in validation.
_VALIDATION_BATCH = 256


class TrainingLoop(UpdateLoop[PairBatch]):
    """Maximise the likelihood of the targets; validation measures perplexity.

    The parameters are those of :class:`UpdateLoop`.

    :ivar held_out: how many pairs are for validation.
    """

    def __init__(
        self,
        network: PairNetwork,
        store: PairStore,
        config: TrainingConfig,
        folder: RunFolder,
        report: Callable[[TrainingProgress], None],
        ranks: Ranks,
    ) -> None:
        self._store = store
        self.held_out = held_out_size(config, len(store))
        draw = PairDraw(store, config, self.held_out)
        super().__init__(network, draw, config, folder, report, ranks)

    def _read_batch(self, indices: npt.NDArray[np.int64]) -> PairBatch:
        return self._store.batch(indices)

    def _sizes(self, batch: PairBatch) -> tuple[int, int]:
        target_words = int(batch.target.lengths.sum())
        words = int(batch.source.lengths.sum()) + target_words
        return words, target_words + len(batch.target.lengths)

    def _make_gradient(self, batch: PairBatch, count: int) -> Tensor:
        if not len(batch.target.lengths):  # a last batch of fewer pairs than there are ranks
            return torch.zeros(())
        if self._network.config.dropout > 0:
            seed = seed_of_update(self._config.seed, self.state.update)
            torch.manual_seed(seed + self._ranks.rank)
        with self._autocast:
            loss_sum: Tensor = -self._network(batch).float().sum()
        (loss_sum / count if self._config.loss == "mean" else loss_sum).backward()
        return loss_sum.detach()

    def _validate(self) -> None:
        self._look_at_losses()
        state = self.state
        perplexity = self._perplexity() if self.held_out else None
        self._look_at_clock()
        loss = state.loss_sum / max(state.loss_words, 1)
        state.curve.append(CurvePoint(state.update, state.seconds / 60, loss, perplexity))
        state.loss_sum, state.loss_words = 0.0, 0
        if perplexity is None:
            return
        if state.best_perplexity is None or perplexity < state.best_perplexity:
            if self._ranks.is_first:
                self._folder.save_best(state.update, self._network)
            state.best_update, state.best_perplexity, state.stale = state.update, perplexity, 0
        else:
            state.stale += 1

    def _perplexity(self) -> float:
        """Return exp(-log p per predicted word, ``</s>`` included) of the held-out pairs."""
        held_out = self._draw.held_out()
        total, words = 0.0, 0.0
        self._network.eval()
        with torch.inference_mode(), self._autocast:
            for indices in np.split(
                held_out, range(_VALIDATION_BATCH, len(held_out), _VALIDATION_BATCH)
            )[self._ranks.rank :: self._ranks.size]:
                batch = self._store.batch(indices)
                words += int(batch.target.lengths.sum()) + len(indices)
                total -= self._network(batch.to(self._device)).double().sum().item()
        self._network.train()
        total, words = self._ranks.sum([total, words])
        self._check_finite(total, self.state.update, "validation loss")
        return math.exp(min(total / words, 700.0))
