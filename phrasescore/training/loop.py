"""The training loop: from batches to weights, with validation, limits and checkpoints.

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
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from phrasescore.config.settings import TrainingConfig
from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.models.checkpoint import CurvePoint
from phrasescore.models.layers import PairNetwork
from phrasescore.signals import catching_signals
from phrasescore.training.optimizers import build_optimizer
from phrasescore.training.pair_store import PairDraw, mix
from phrasescore.training.ranks import Ranks
from phrasescore.training.run_folder import RunFolder

# Batches that are read ahead.
_LOOKAHEAD = 4
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


class Batch(Protocol):
    """What an update learns from."""

    def pin_memory(self) -> Self:
        """Return the batch where a CUDA device can fetch it by itself."""

    def to(self, device: torch.device) -> Self:
        """Return the batch on ``device``."""


_Batch = TypeVar("_Batch", bound=Batch)


class UpdateLoop(Generic[_Batch]):
    """Train a network from where its work folder says it is; a subclass has the objective.

    :param network: on its device, with its start weights. If it has dropout, torch's global
        generators start each update from a state that the seed and the update's number give.
    :param draw: of the items of each batch.
    :param folder: of the run's states.
    :param report: called after each update.
    :param ranks: the processes of the run; each has a loop. The first one writes the states.
    :raises PhrasescoreError: if the state in ``folder`` is not of this network, or of another
        number of ranks.
    """

    def __init__(
        self,
        network: PairNetwork,
        draw: PairDraw,
        config: TrainingConfig,
        folder: RunFolder,
        report: Callable[[TrainingProgress], None],
        ranks: Ranks,
    ) -> None:
        self._network = network
        self._config = config
        self._folder = folder
        self._report = report
        self._ranks = ranks
        self._device = next(network.parameters()).device
        # On a GPU, the products of the recurrences (phrasescore.models.layers) stay in float32
        # under autocast, as TF32. A CPU rounds the factors of float32 products by itself.
        is_mixed = self._device.type == "cuda" and config.precision == "bfloat16"
        self._autocast = torch.autocast("cuda", torch.bfloat16, is_mixed)
        self._draw = draw
        self._optimizer = build_optimizer(network, config)
        self.state = folder.load_state(network, self._optimizer)
        if self.state.update and self.state.world_size != ranks.size:
            problem = f"the run was begun by {self.state.world_size} processes, not {ranks.size}"
            raise PhrasescoreError(f"{folder.path}: {problem}: go on with as many")
        if self.state.batch >= draw.batches_per_epoch:
            problem = f"there is no batch {self.state.batch} in an epoch of so many pairs"
            raise ModelError(f"{folder.path}: cannot go on from this state: {problem}")
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
            self._begin()
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

    # The objective

    def _begin(self) -> None:
        """Do what comes before the first update of this process."""

    def _read_batch(self, indices: npt.NDArray[np.int64]) -> _Batch:
        """Return a batch, in another thread than that of the updates."""
        raise NotImplementedError

    def _sizes(self, batch: _Batch) -> tuple[int, int]:
        """Return the words of a batch, without ``</s>``, and what its loss is divided by."""
        raise NotImplementedError

    def _make_gradient(self, batch: _Batch, count: int) -> Tensor:
        """Give the parameters the gradient of a batch's loss, and return the sum of its losses.

        :param batch: this rank's share.
        :param count: items of the whole batch.
        """
        raise NotImplementedError

    def _validate(self) -> None:
        """Add a point to the curve, and keep the weights if they are the best so far."""
        raise NotImplementedError

    # The updates

    def _batches(self) -> Generator[tuple[_Batch, int], None, None]:
        """Yield this rank's share of each batch on its device, and the size of the whole batch."""
        position = (self.state.epoch, self.state.batch)
        waiting: deque[Future[tuple[_Batch, int]]] = deque()
        with ThreadPoolExecutor(1) as pool:
            try:
                while True:
                    while len(waiting) < _LOOKAHEAD:
                        waiting.append(pool.submit(self._read, *position))
                        position = self._next(*position)
                    batch, count = waiting.popleft().result()
                    yield batch.to(self._device), count
            finally:
                pool.shutdown(cancel_futures=True)

    def _read(self, epoch: int, number: int) -> tuple[_Batch, int]:
        indices = self._draw.batch(epoch, number)
        batch = self._read_batch(self._ranks.share(indices))
        return batch.pin_memory() if self._device.type == "cuda" else batch, len(indices)

    def _next(self, epoch: int, number: int) -> tuple[int, int]:
        last = number + 1 == self._draw.batches_per_epoch
        return (epoch + 1, 0) if last else (epoch, number + 1)

    def _update(self, batch: _Batch, count: int) -> None:
        """Make one update: the gradient of a batch, and a step of the optimizer.

        :param batch: this rank's share.
        :param count: items of the whole batch.
        """
        state, config = self.state, self._config
        loss_sum = self._make_gradient(batch, count)
        words, predicted = self._sizes(batch)
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
            problem = f"update {update}: the {quantity} is {value}"
            cure = f"try a smaller learning rate or clip_norm. {kept}"
            raise ModelError(f"{self._folder.path}: {problem}; {cure}")

    def _validation_is_due(self) -> bool:
        updates = self._config.validation_updates
        # The first batch of an epoch is next when the last one is done.
        return self.state.update % updates == 0 if updates else self.state.batch == 0

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
            seconds_left=state.seconds * max(1 - done, 0.0) / done if done else None,
            latest=state.curve[-1] if state.curve else None,
        )


def held_out_size(config: TrainingConfig, size: int) -> int:
    """Return how many of so many items are held out for validation."""
    return min(config.validation_pairs, int(config.validation_share * size))


def seed_of_update(seed: int, update: int) -> int:
    """Return where the random choices of an update begin."""
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
