"""The training loop: from pairs on disk to weights, with validation, limits and checkpoints.

A run is deterministic: the order of the pairs comes from the seed and the number of the epoch, and
which units an update drops (dropout) from the seed and the number of the update. On a CPU, a run
that was killed and resumed ends in the same bits as a run that was not, if the number of threads is
the same. (On a GPU, torch adds some gradients up in an order that changes.) Only where the learning
rate falls with the clock (``schedule = "linear"`` under a limit in minutes) no two runs are the
same.
"""

import contextlib
import math
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from phrasescore.config.settings import TrainingConfig
from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.models.batches import PairBatch
from phrasescore.models.checkpoint import CurvePoint
from phrasescore.models.layers import PairNetwork
from phrasescore.signals import catching_signals
from phrasescore.training.optimizers import build_optimizer
from phrasescore.training.pair_store import PairDraw, PairStore, mix
from phrasescore.training.ranks import Ranks
from phrasescore.training.run_folder import RunFolder

# Batches that are read ahead.
_LOOKAHEAD = 4
# Pairs of a batch in validation.
_VALIDATION_BATCH = 256
# Updates after which the losses of a GPU are looked at: each look waits for it.
_GPU_UPDATES = 16

INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """How far training is after an update."""

    update: int
    # Epochs done, with their fraction.
    epochs: float
    # -log p per predicted word, </s> included, since the last validation.
    loss: float
    # Source and target words per second, without </s>, since this process began to train.
    words_per_second: float
    seconds: float
    # None where the run has no limit.
    seconds_left: float | None
    # The latest point of the curve, once there is one.
    latest: CurvePoint | None


class _PendingUpdate(NamedTuple):
    """An update whose loss is not checked yet."""

    update: int
    loss_sum: Tensor
    # Of the gradient, before it was clipped.
    norm: float | Tensor
    # Predicted ones, </s> included.
    words: int


class TrainingLoop:
    """Train a network from where its work folder says it is.

    :param network: on its device, with its start weights. If it has dropout, torch's global
        generators start each update from a state that the seed and the update's number give.
    :param folder: of the run's states.
    :param report: called after each update.
    :param ranks: the processes of the run; each has a loop. The first one writes the states.
    :raises PhrasescoreError: if the state in ``folder`` is not of this network, or of another
        number of ranks.
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
        self._network = network
        self._store = store
        self._config = config
        self._folder = folder
        self._report = report
        self._ranks = ranks
        self._device = next(network.parameters()).device
        # On a GPU, the products of the recurrences (phrasescore.models.layers) stay in float32
        # under autocast, as TF32. A CPU rounds the factors of float32 products by itself.
        is_mixed = self._device.type == "cuda" and config.precision == "bfloat16"
        self._autocast = torch.autocast("cuda", torch.bfloat16, is_mixed)
        self.held_out = min(config.validation_pairs, int(config.validation_share * len(store)))
        self._draw = PairDraw(store, config, self.held_out)
        self._optimizer = build_optimizer(network, config)
        self.state = folder.load_state(network, self._optimizer)
        if self.state.update and self.state.world_size != ranks.size:
            problem = f"the run was begun by {self.state.world_size} processes, not {ranks.size}"
            raise PhrasescoreError(f"{folder.path}: {problem}: go on with as many")
        self.state.world_size = ranks.size
        self._saved_update = self.state.update
        self._pending: list[_PendingUpdate] = []
        self._words = 0
        self._start = self._saved_at = time.monotonic()
        self._seconds_before = self.state.seconds
        # The signals that ended a run.
        self.caught: list[int] = []

    @property
    def epochs(self) -> float:
        """Epochs done, with their fraction."""
        return self.state.epoch + self.state.batch / self._draw.batches_per_epoch

    def run(self) -> str:
        """Train until a limit, or until the validation stops improving; return which it was.

        The state is saved at the end, also after Ctrl-C, which ends the run between two updates
        and gives ``interrupted``; a second Ctrl-C ends it at once.

        :raises ModelError: if a loss or gradient is not finite; the last saved state is good.
        """
        self._start = self._saved_at = time.monotonic()
        with (
            catching_signals() as self.caught,
            _precision(self._config, self._device),
            contextlib.closing(self._batches()) as batches,
        ):
            stopped_by = self._stop_reason()
            while not stopped_by:
                self._update(*next(batches))
                if self._validation_is_due():
                    self._validate()
                stopped_by = INTERRUPTED if self.caught else self._stop_reason()
                if not stopped_by and self._checkpoint_is_due():
                    self._save()
            if stopped_by != INTERRUPTED and self._lacks_validation():
                self._validate()
            self._save()
        return stopped_by

    def _batches(self) -> Generator[tuple[PairBatch, int], None, None]:
        """Yield this rank's share of each batch on its device, and the pairs of the whole batch."""
        position = (self.state.epoch, self.state.batch)
        waiting: deque[Future[tuple[PairBatch, int]]] = deque()
        with ThreadPoolExecutor(1) as pool:
            try:
                while True:
                    while len(waiting) < _LOOKAHEAD:
                        waiting.append(pool.submit(self._read, *position))
                        position = self._next(*position)
                    batch, pairs = waiting.popleft().result()
                    yield batch.to(self._device), pairs
            finally:
                pool.shutdown(cancel_futures=True)

    def _read(self, epoch: int, number: int) -> tuple[PairBatch, int]:
        indices = self._draw.batch(epoch, number)
        batch = self._store.batch(self._ranks.share(indices))
        return batch.pin_memory() if self._device.type == "cuda" else batch, len(indices)

    def _next(self, epoch: int, number: int) -> tuple[int, int]:
        last = number + 1 == self._draw.batches_per_epoch
        return (epoch + 1, 0) if last else (epoch, number + 1)

    def _update(self, batch: PairBatch, pairs: int) -> None:
        """Make one update: the gradient of a batch, and a step of the optimizer.

        :param batch: this rank's share.
        :param pairs: of the whole batch.
        """
        state, config = self.state, self._config
        loss_sum = self._make_gradient(batch, pairs)
        target_words = int(batch.target.lengths.sum())
        words = int(batch.source.lengths.sum()) + target_words
        predicted = target_words + len(batch.target.lengths)
        if self._ranks.size > 1:
            # All ranks have to decide alike: they go by the first one's clock.
            clock = self._seconds() if self._ranks.is_first else 0.0
            loss, words_sum, predicted_sum, state.seconds, caught = self._ranks.sum_gradients(
                self._network.parameters(),
                [float(loss_sum), words, predicted, clock, bool(self.caught)],
            )
            loss_sum, words, predicted = torch.tensor(loss), int(words_sum), int(predicted_sum)
            if caught and not self.caught:
                self.caught.append(signal.SIGTERM)
        # On a CPU no step is made from a gradient that is not finite.
        norm = self._optimizer.step(self._learning_rate(), config.clip_norm)
        state.update += 1
        state.epoch, state.batch = self._next(state.epoch, state.batch)
        self._words += words
        self._pending.append(_PendingUpdate(state.update, loss_sum, norm, predicted))
        if self._device.type == "cpu" or len(self._pending) >= _GPU_UPDATES:
            self._look_at_losses()
        self._look_at_clock()
        self._report(self._progress())

    def _make_gradient(self, batch: PairBatch, pairs: int) -> Tensor:
        """Give the parameters the gradient of the batch's loss, and return -log p of its pairs."""
        if not len(batch.target.lengths):  # a last batch of fewer pairs than there are ranks
            return torch.zeros(())
        if self._network.config.dropout > 0:
            seed = _seed_of_update(self._config.seed, self.state.update)
            torch.manual_seed(seed + self._ranks.rank)
        with self._autocast:
            loss_sum: Tensor = -self._network(batch).float().sum()
        (loss_sum / pairs if self._config.loss == "mean" else loss_sum).backward()
        return loss_sum.detach()

    def _seconds(self) -> float:
        """Return the seconds of training, all resumptions counted, by this rank's clock."""
        return self._seconds_before + time.monotonic() - self._start

    def _look_at_clock(self) -> None:
        if self._ranks.size == 1:
            self.state.seconds = self._seconds()

    def _look_at_losses(self) -> None:
        for step in self._pending:
            loss_sum = step.loss_sum.item()
            self._check_finite(loss_sum, step.update, "loss")
            self._check_finite(float(step.norm), step.update, "norm of the gradient")
            self.state.loss_sum += loss_sum
            self.state.loss_words += step.words
        self._pending.clear()

    def _check_finite(self, value: float, update: int, quantity: str) -> None:
        if not math.isfinite(value):
            saved = self._saved_update
            kept = f"The state after update {saved} is kept" if saved else "No state was saved yet"
            raise ModelError(
                f"update {update}: the {quantity} is {value}; try a smaller learning rate or "
                f"clip_norm. {kept}"
            )

    def _validation_is_due(self) -> bool:
        updates = self._config.validation_updates
        # The first batch of an epoch is next when the last one is done.
        return self.state.update % updates == 0 if updates else self.state.batch == 0

    def _validate(self) -> None:
        """Add a point to the curve, and keep the weights if they are the best so far."""
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

    def _lacks_validation(self) -> bool:
        curve = self.state.curve
        return not curve or curve[-1].update != self.state.update

    def _done(self) -> dict[str, float]:
        """Return how much of each limit is used up, from 0 to 1 and above."""
        state, config = self.state, self._config
        used = {
            "updates": (state.update, config.updates),
            "epochs": (self.epochs, config.epochs),
            "minutes": (state.seconds / 60, config.minutes),
        }
        return {name: value / limit for name, (value, limit) in used.items() if limit}

    def _stop_reason(self) -> str:
        for name, done in self._done().items():
            if done >= 1:
                return name
        return "patience" if 0 < self._config.patience <= self.state.stale else ""

    def _learning_rate(self) -> float:
        config = self._config
        if config.schedule == "linear":
            done = max(self._done().values(), default=0.0)
            return config.learning_rate * max(1.0 - done, 0.0)
        if config.schedule == "halving" and self.epochs >= config.halving_start:
            halvings = 1 + math.floor((self.epochs - config.halving_start) / config.halving_epochs)
            return math.ldexp(config.learning_rate, -halvings)
        return config.learning_rate

    def _checkpoint_is_due(self) -> bool:
        config = self._config
        updates = self.state.update - self._saved_update
        minutes = (time.monotonic() - self._saved_at) / 60
        # Best weights without a state would be those of a damaged run.
        first_best = self.state.best_update > 0 and self._saved_update == 0
        by_updates = 0 < config.checkpoint_updates <= updates
        return first_best or by_updates or 0 < config.checkpoint_minutes <= minutes

    def _save(self) -> None:
        self._look_at_losses()
        if self._ranks.is_first:
            self._folder.save_state(self.state, self._network, self._optimizer)
        self._saved_update, self._saved_at = self.state.update, time.monotonic()

    def _progress(self) -> TrainingProgress:
        state = self.state
        here = max(state.seconds - self._seconds_before, 1e-9)
        done = max(self._done().values(), default=0.0)
        return TrainingProgress(
            update=state.update,
            epochs=self.epochs,
            loss=state.loss_sum / max(state.loss_words, 1),
            words_per_second=self._words / here,
            seconds=state.seconds,
            seconds_left=state.seconds * (1 - done) / done if done else None,
            latest=state.curve[-1] if state.curve else None,
        )


def _seed_of_update(seed: int, update: int) -> int:
    numbers: npt.NDArray[np.uint64] = np.array([seed, update], np.uint64)
    return int(mix(mix(numbers[:1]) ^ numbers[1:])[0] >> np.uint64(1))


@contextlib.contextmanager
def _precision(config: TrainingConfig, device: torch.device) -> Iterator[None]:
    """Set how products of float32 are computed."""
    backends: Any = torch.backends  # torch's types lack mkldnn.matmul
    backend = backends.cuda.matmul if device.type == "cuda" else backends.mkldnn.matmul
    reduced = "tf32" if device.type == "cuda" else "bf16"
    before = backend.fp32_precision
    if config.precision != "float32":
        # oneDNN compiles a rounded product anew for each number of rows, and packed steps have
        # many: 1,024 of them, which it keeps by default, are gigabytes. Read at its first use.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    backend.fp32_precision = "ieee" if config.precision == "float32" else reduced
    try:
        yield
    finally:
        backend.fp32_precision = before
