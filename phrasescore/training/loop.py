"""The training loop: from batches to weights, with validation, limits and checkpoints.

The order of the items depends on the seed and the number of the epoch, and dropout on the seed and
the number of the update. On a CPU with the same number of threads, a resumed run therefore ends
with the same bits as an uninterrupted one, unless the learning rate depends on the clock
(``schedule = "linear"`` with a limit in minutes). On a GPU, torch adds some gradients in a varying
order.
"""

import contextlib
import math
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phrasescore.devices import keep_memory
from phrasescore.engines import LoadedWork, ThreadPool
from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.kernels.pieces import mix
from phrasescore.kernels.precision import products_in
from phrasescore.models.checkpoint import CurvePoint
from phrasescore.models.layers import PairNetwork
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import TrainingConfig, TrainingPrecision
from phrasescore.signals import catching_signals
from phrasescore.training.draw import Draw, Store, held_out_size, stream_key
from phrasescore.training.optimizers import build_optimizer
from phrasescore.training.ranks import Ranks
from phrasescore.training.run_folder import RunFolder

# Number of batches that are read ahead.
_LOOKAHEAD = 4
# Number of updates between two readings of a GPU's losses; each reading waits for the GPU.
_GPU_UPDATES = 16

INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The state of training after an update."""

    update: int
    epochs: float  # including the fraction of the current epoch
    loss: float  # -log p per predicted word, including </s>, since the last validation
    # Source and target words per second, without </s>, since this process started training.
    words_per_second: float
    share: float | None  # the used share of the nearest limit; None if the run has no limit
    latest: CurvePoint | None  # the latest point of the curve, if any
    is_validating: bool = False  # after the update


class TrainingLoop:
    """Train a network from the state in its work folder; a subclass provides the loss.

    :param ranks: the processes of the run; each has a loop, and the first one saves the states.
    """

    def __init__(
        self,
        network: PairNetwork,
        store: Store,
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
        # under autocast, as TF32. A CPU rounds the factors of float32 products itself.
        is_mixed = self._device.type == "cuda" and config.precision == "bfloat16"
        self._autocast = torch.autocast("cuda", torch.bfloat16, is_mixed)
        self.num_held_out = held_out_size(config, len(store))
        self._draw = Draw(store, config, self.num_held_out)
        self._optimizer = build_optimizer(network, config)
        self.state, self._recent = folder.load_state(network, self._optimizer)
        if self.state.update and self.state.world_size != ranks.size:
            raise PhrasescoreError(
                f"{folder.path}: the run was started with {self.state.world_size} processes, not "
                f"{ranks.size}: resume it with the same number"
            )
        if self.state.batch >= self._draw.batches_per_epoch:
            raise ModelError(
                f"{folder.path}: cannot resume: the state is at batch {self.state.batch}, but "
                f"an epoch of these pairs has only {self._draw.batches_per_epoch} batches"
            )
        self.state.world_size = ranks.size
        self._saved_update = self.state.update
        # The updates whose losses are not checked yet: their number, the sum of the losses, the
        # norm of the gradient before it was clipped, and the number of losses.
        self._pending: list[tuple[int, Tensor, float | Tensor, int]] = []
        self._words = 0
        self._start = self._saved_at = time.monotonic()
        self._seconds_before = self.state.seconds
        # The signals that ended a run.
        self.caught: list[int] = []

    @property
    def epochs(self) -> float:
        """Number of epochs so far, including the fraction of the current one."""
        return self.state.epoch + self.state.batch / self._draw.batches_per_epoch

    def run(self) -> str:
        """Train until a limit is reached or validation stops improving; return the reason.

        Ctrl-C ends the run after the current update; the state is saved, and the result is
        ``interrupted``. A second Ctrl-C ends it immediately.
        """
        self._start = self._saved_at = time.monotonic()
        keep_memory()
        with (
            catching_signals() as self.caught,
            product_precision(self._config.precision, self._device),
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
            is_validated = self.state.curve and self.state.curve[-1].update == self.state.update
            if stopped_by != INTERRUPTED and not is_validated:
                self._validate()
            self._save()
        return stopped_by

    # Methods that a subclass provides

    def _begin(self) -> None:
        """Prepare for this process's first update."""

    def _count(self, batch: Any) -> tuple[int, int]:
        """Return the number of words in a batch, without ``</s>``, and of losses in its sum."""
        raise NotImplementedError

    def _make_gradient(self, batch: Any, count: int) -> Tensor:
        """Add the gradients of this rank's share of a batch; return the sum of losses.

        :param count: number of items in the whole batch, or of predicted words with `batch_words`.
        """
        raise NotImplementedError

    def _measure(self) -> float:
        """Return the quality on the held-out items; higher is better."""
        raise NotImplementedError

    def _shown(self, quality: float) -> tuple[float | None, float | None]:
        """Return the quality as (perplexity, expected BLEU); the measure not used is None."""
        raise NotImplementedError

    def _add_gradients(self, loss_sum: Tensor, count: int) -> Tensor:
        (loss_sum / count if self._config.loss == "mean" else loss_sum).backward()
        return loss_sum.detach()

    # The updates

    def _batches(self) -> Generator[tuple[Any, int], None, None]:
        """Yield this rank's share of each batch on its device, and the divisor of its loss."""
        with ThreadPool(LoadedWork(self._read), Compute(workers=1)) as pool:
            for batch, count in pool.map(self._positions(), _LOOKAHEAD):
                yield batch.to(self._device), count

    def _positions(self) -> Iterator[tuple[int, int]]:
        position = (self.state.epoch, self.state.batch)
        while True:
            yield position
            position = self._next(*position)

    def _read(self, position: tuple[int, int]) -> tuple[Any, int]:
        rows = self._draw.batch(*position)
        store = self._store.in_epoch(position[0])
        # Take every size-th item, because neighbours have similar lengths.
        batch = store.batch(rows[self._ranks.rank :: self._ranks.size])
        count = len(rows)
        if self._config.batch_words:
            count += int(store.lengths(rows)[1].sum())  # with each </s>
        return batch.pin_memory() if self._device.type == "cuda" else batch, count

    def _next(self, epoch: int, number: int) -> tuple[int, int]:
        last = number + 1 == self._draw.batches_per_epoch
        return (epoch + 1, 0) if last else (epoch, number + 1)

    def _update(self, batch: Any, count: int) -> None:
        state, config = self.state, self._config
        loss_sum = self._make_gradient(batch, count)
        words, losses = self._count(batch)
        if self._ranks.size > 1:
            # All ranks use the first one's clock, so that they take the same decisions.
            clock = self._seconds() if self._ranks.is_first else 0.0
            loss, words_sum, losses_sum, state.seconds, caught = self._ranks.sum_gradients(
                self._network.parameters(),
                [float(loss_sum), words, losses, clock, bool(self.caught)],
            )
            loss_sum, words, losses = torch.tensor(loss), int(words_sum), int(losses_sum)
            if caught and not self.caught:
                self.caught.append(signal.SIGTERM)
        # On a CPU, no step is made if a gradient is not finite.
        norm = self._optimizer.step(self._learning_rate(), config.clip_norm)
        state.update += 1
        state.epoch, state.batch = self._next(state.epoch, state.batch)
        self._words += words
        self._pending.append((state.update, loss_sum, norm, losses))
        if self._device.type == "cpu" or len(self._pending) >= _GPU_UPDATES:
            self._check_losses()
        self._read_clock()
        self._report(self._progress())

    def _seed_update(self) -> None:
        """Seed torch's generators from the seed, the update and the rank."""
        key = stream_key(self._config.seed, self.state.update)
        torch.manual_seed(int(mix(key)[0] >> np.uint64(1)) + self._ranks.rank)

    def _seconds(self) -> float:
        """Return the training time in seconds on this rank's clock, including earlier processes."""
        return self._seconds_before + time.monotonic() - self._start

    def _read_clock(self) -> None:
        if self._ranks.size == 1:
            self.state.seconds = self._seconds()

    def _check_losses(self) -> None:
        for update, loss_sum, norm, losses in self._pending:
            self._check_finite(loss_sum.item(), update, "loss")
            self._check_finite(float(norm), update, "norm of the gradient")
            self.state.loss_sum += loss_sum.item()
            self.state.loss_words += losses
        self._pending.clear()

    def _check_finite(self, value: float, update: int, quantity: str) -> None:
        if not math.isfinite(value):
            saved = self._saved_update
            kept = f"The state after update {saved} is kept" if saved else "No state was saved yet"
            raise ModelError(
                f"{self._folder.path}: update {update}: the {quantity} is {value}; try a smaller "
                f"learning rate or clip_norm. {kept}"
            )

    # Validation

    def _validate(self) -> None:
        """Validate, add a point to the curve, and save the weights if they are the best so far."""
        self._check_losses()
        self._report(self._progress(is_validating=True))
        state = self.state
        with self._average():
            quality = self._measure() if self.num_held_out else None
            is_best = quality is not None and (
                state.best_quality is None or quality > state.best_quality
            )
            if is_best and self._ranks.is_first:
                self._folder.save_best(state.update, self._network)
        self._read_clock()
        loss = state.loss_sum / max(state.loss_words, 1)
        shown = (None, None) if quality is None else self._shown(quality)
        state.curve.append(CurvePoint(state.update, state.seconds / 60, loss, *shown))
        state.loss_sum, state.loss_words = 0.0, 0
        if is_best:
            state.best_update, state.best_quality, state.stale = state.update, quality, 0
        elif quality is not None:
            state.stale += 1

    @contextlib.contextmanager
    def _average(self) -> Iterator[None]:
        count = self._config.average_checkpoints
        if count == 1:
            yield
            return
        own = {name: each.clone() for name, each in self._network.state_dict().items()}
        self._recent = [*self._recent, own][-count:]
        share = 1 / len(self._recent)
        mean = {name: sum(share * each[name] for each in self._recent) for name in own}
        self._network.load_state_dict(mean)
        yield
        self._network.load_state_dict(own)

    def _held_out_batches(self, size: int) -> Iterator[Any]:
        """Yield this rank's share of the held-out items in batches, in evaluation mode."""
        rows = self._draw.held_out()
        batches = np.split(rows, range(size, len(rows), size))
        self._network.eval()
        with torch.inference_mode(), self._autocast:
            for chosen in batches[self._ranks.rank :: self._ranks.size]:
                yield self._store.batch(chosen).to(self._device)
        self._network.train()

    def _validation_is_due(self) -> bool:
        updates = self._config.validation_updates
        # The first batch of an epoch is next when the last one is done.
        return self.state.update % updates == 0 if updates else self.state.batch == 0

    # Limits

    def _used_limits(self) -> dict[str, float]:
        state, config = self.state, self._config
        used = {
            "updates": (state.update, config.updates),
            "epochs": (self.epochs, config.epochs),
            "minutes": (state.seconds / 60, config.minutes),
        }
        return {name: value / limit for name, (value, limit) in used.items() if limit}

    def _used_share(self) -> float:
        return max(self._used_limits().values(), default=0.0)

    def _stop_reason(self) -> str:
        for name, share in self._used_limits().items():
            if share >= 1:
                return name
        return "patience" if 0 < self._config.patience <= self.state.stale else ""

    def _learning_rate(self) -> float:
        config = self._config
        update, warmup = self.state.update + 1, config.warmup_updates
        rate = config.learning_rate * min(update / max(warmup, 1), 1.0)
        if config.schedule == "linear":
            return rate * max(1.0 - self._used_share(), 0.0)
        if config.schedule == "inverse-sqrt":
            return rate * min(math.sqrt(max(warmup, 1) / update), 1.0)
        if config.schedule == "halving" and self.epochs >= config.halving_start:
            halvings = 1 + math.floor((self.epochs - config.halving_start) / config.halving_epochs)
            return math.ldexp(rate, -halvings)
        return rate

    # States

    def _checkpoint_is_due(self) -> bool:
        config = self._config
        updates = self.state.update - self._saved_update
        minutes = (time.monotonic() - self._saved_at) / 60
        # Save a state at the first best weights, in case the run is killed.
        first_best = self.state.best_update > 0 and self._saved_update == 0
        by_updates = 0 < config.checkpoint_updates <= updates
        return first_best or by_updates or 0 < config.checkpoint_minutes <= minutes

    def _save(self) -> None:
        self._check_losses()
        if self._ranks.is_first:
            self._folder.save_state(self.state, self._network, self._optimizer, self._recent)
        self._saved_update, self._saved_at = self.state.update, time.monotonic()

    def _progress(self, *, is_validating: bool = False) -> TrainingProgress:
        state = self.state
        here = max(state.seconds - self._seconds_before, 1e-9)
        return TrainingProgress(
            update=state.update,
            epochs=self.epochs,
            loss=state.loss_sum / max(state.loss_words, 1),
            words_per_second=self._words / here,
            share=min(self._used_share(), 1.0) or None,
            latest=state.curve[-1] if state.curve else None,
            is_validating=is_validating,
        )


def product_precision(
    precision: TrainingPrecision, device: torch.device
) -> contextlib.AbstractContextManager[None]:
    """Set the precision of float32 products within a block; ``auto`` is float32 here."""
    backends: Any = torch.backends  # torch's types lack mkldnn.matmul
    backend = backends.cuda.matmul if device.type == "cuda" else backends.mkldnn.matmul
    if precision in ("float32", "auto"):
        return products_in(backend, "ieee")
    # oneDNN compiles a rounded product for each number of rows, and packed steps have many numbers:
    # the 1,024 products that it keeps by default are gigabytes. It is read at its first use.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    return products_in(backend, "tf32" if device.type == "cuda" else "bf16")
