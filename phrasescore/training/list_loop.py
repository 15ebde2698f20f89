"""Training for expected BLEU: the loss of a list is minus its expected BLEU.

The likelihood of some pairs is a regulariser. What does not raise the expected BLEU of the held-out
lists is undone: the best weights come back, with half the learning rate.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from phrasescore.config.settings import TrainingConfig
from phrasescore.models.checkpoint import CurvePoint
from phrasescore.models.layers import PairNetwork
from phrasescore.training.expected_bleu import deviation, expected_gains
from phrasescore.training.list_store import ListBatch, ListStore
from phrasescore.training.loop import (
    TrainingProgress,
    UpdateLoop,
    held_out_size,
    seed_of_update,
)
from phrasescore.training.optimizers import build_optimizer
from phrasescore.training.pair_store import PairDraw
from phrasescore.training.ranks import Ranks
from phrasescore.training.run_folder import RunFolder

# The standard deviation of scaled totals in the held-out lists at the start: see
# tuning/expected_bleu.py, whose scales go from 1 to 16.
_SPREAD = 2.0


class ExpectedBleu(NamedTuple):
    """The objective."""

    # Of the network's feature in the log-linear model.
    weight: float
    # The factor of the regulariser, -log p per predicted word.
    likelihood: float


class ListLoop(UpdateLoop[ListBatch]):
    """Maximise the expected BLEU of n-best lists; see :class:`UpdateLoop`.

    :ivar held_out: how many lists are for validation.
    """

    def __init__(
        self,
        network: PairNetwork,
        store: ListStore,
        config: TrainingConfig,
        objective: ExpectedBleu,
        folder: RunFolder,
        report: Callable[[TrainingProgress], None],
    ) -> None:
        self._store = store
        self._objective = objective
        self.held_out = held_out_size(config, len(store))
        draw = PairDraw(store, config, self.held_out)
        super().__init__(network, draw, config, folder, report, Ranks())

    def _begin(self) -> None:
        """Measure the start, with which all that comes is compared."""
        if not self.state.curve:
            self._save()  # best weights without a state would be those of a damaged run
            self.state.scale = self._choose_scale()
            self._validate()
            self._save()

    def _read_batch(self, indices: npt.NDArray[np.int64]) -> ListBatch:
        return self._store.batch(indices)

    def _sizes(self, batch: ListBatch) -> tuple[int, int]:
        sides = (*batch.pairs, *batch.taught)
        return sum(int(side.lengths.sum()) for side in sides), batch.scores.num_lists

    def _make_gradient(self, batch: ListBatch, count: int) -> Tensor:
        network, config = self._network, self._config
        # Without dropout: what it drops from one hypothesis and not from another is no difference
        # between them.
        network.eval()
        with self._autocast:
            values = batch.values(network(batch.pairs))
        loss_sum = -self._expected(batch, values).sum()
        network.train()
        if self._objective.likelihood:
            torch.manual_seed(seed_of_update(config.seed, self.state.update))
            with self._autocast:
                taught = network(batch.taught).double().sum()
            predicted = int((batch.taught.target.lengths + 1).sum())
            loss_sum = loss_sum - self._objective.likelihood * count * taught / predicted
        (loss_sum / count if config.loss == "mean" else loss_sum).backward()
        detached: Tensor = loss_sum.detach()
        return detached

    def _expected(self, batch: ListBatch, values: Tensor) -> Tensor:
        """Return the expected BLEU of each list."""
        weight, scale = self._objective.weight, self.state.scale
        return expected_gains(batch.scores, values, weight=weight, scale=scale)

    def _validate(self) -> None:
        self._look_at_losses()
        state = self.state
        total = sum(float(self._expected(*found).sum()) for found in self._held_out_values())
        expected = total / self.held_out
        self._check_finite(expected, state.update, "expected BLEU")
        self._look_at_clock()
        loss = state.loss_sum / max(state.loss_words, 1)
        state.curve.append(
            CurvePoint(state.update, state.seconds / 60, loss, None, expected_bleu=100 * expected)
        )
        state.loss_sum, state.loss_words = 0.0, 0
        if state.best_expected_bleu is None or expected > state.best_expected_bleu:
            self._folder.save_best(state.update, self._network)
            state.best_update, state.best_expected_bleu, state.stale = state.update, expected, 0
        else:
            self._folder.load_best(state.best_update, self._network)
            self._optimizer = build_optimizer(self._network, self._config)
            state.stale += 1
            state.halvings += 1

    def _held_out_values(self) -> Iterator[tuple[ListBatch, Tensor]]:
        """Yield the held-out lists, some at a time, with the value of each hypothesis."""
        held_out = self._draw.held_out()
        size = self._config.batch_size
        self._network.eval()
        with torch.inference_mode(), self._autocast:
            for indices in np.split(held_out, range(size, len(held_out), size)):
                batch = self._store.batch(indices).to(self._device)
                yield batch, batch.values(self._network(batch.pairs))
        self._network.train()

    def _choose_scale(self) -> float:
        """Return the scale by which totals of the start have the spread that they should have."""
        squares = [
            (len(values), deviation(batch.scores, values, weight=self._objective.weight) ** 2)
            for batch, values in self._held_out_values()
        ]
        hypotheses = sum(size for size, _ in squares)
        spread = (sum(size * square for size, square in squares) / hypotheses) ** 0.5
        return _SPREAD / spread if spread else 1.0

    def _learning_rate(self) -> float:
        return math.ldexp(super()._learning_rate(), -self.state.halvings)
