"""A whole training run, from its input to a model folder, with a work folder for its state.

The work folder (:mod:`phrasescore.training.run_folder`) exists while the run is unfinished, so that
it can be resumed after a kill; the model folder appears whole at the end.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch

from phrasescore.devices import is_out_of_memory
from phrasescore.errors import ConfigError, PhrasescoreError, StoppedError
from phrasescore.io.folders import check_folder_above, locked
from phrasescore.kernels.precision import has_matrix_units
from phrasescore.models.checkpoint import (
    Checkpoint,
    TrainingRecord,
    load_checkpoint,
    save_checkpoint,
)
from phrasescore.progress import format_count
from phrasescore.settings.config import Config, TrainingPrecision, check_resumable
from phrasescore.training.loop import INTERRUPTED, TrainingLoop, TrainingProgress
from phrasescore.training.ranks import Ranks, joined_ranks
from phrasescore.training.run_folder import RunFolder

_logger = logging.getLogger(__name__)

NETWORK_PROBLEM = "the network does not fit; choose smaller sizes in [model] or [vocabulary]"

Report = Callable[[TrainingProgress], None]


class Task(NamedTuple):
    """A training run whose inputs have been read."""

    # The network with its start weights, on the run's device, and the record of its inputs.
    start: Checkpoint
    description: list[str]  # phrases about the items, for the log
    make_loop: Callable[[Report], TrainingLoop]


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """A run: its inputs, settings and folders. A subclass provides its items and its loss.

    :param work: the folder of the unfinished run, which is removed at the end unless ``keep_work``.
    """

    # Whether the processes that torchrun has started share the run.
    joins_ranks: ClassVar = True

    inputs: tuple[str, ...]
    model: Path
    work: Path
    config: Config
    device: torch.device
    keep_work: bool = False

    def prepare(self, folder: RunFolder, ranks: Ranks, *, is_resumed: bool) -> Task:
        """Read the inputs. A resumed run opens its stored inputs, after checking them."""
        raise NotImplementedError

    def has_made(self, model: Checkpoint, folder: RunFolder) -> bool:
        """Return whether a model may be the result of the unfinished run in ``folder``."""
        raise NotImplementedError


def train_model(
    run: TrainingRun,
    *,
    resume: bool = False,
    begin: Callable[[], None] = lambda: None,
    report: Report = lambda _progress: None,
) -> TrainingRecord:
    """Train a network and write its model folder; return its record.

    The model has the best weights on the held-out items, or the last weights if no item is held
    out.

    :param begin: called after the inputs are read and before the first update.
    :raises StoppedError: if SIGINT or SIGTERM stopped the run; its state is kept.
    """
    check_settings(run.config, run.device)
    folder = RunFolder(run.work)
    joined = joined_ranks(run.device) if run.joins_ranks else contextlib.nullcontext(Ranks())
    with joined as ranks, contextlib.ExitStack() as stack:
        stored = folder.settings() if resume else None
        config = _choose_precision(run.config, stored, run.device, ranks)
        run = replace(run, config=config)
        if ranks.is_first:
            _check_folders(run, folder, resume=resume)
            stack.enter_context(locked(run.work))
            # Another process may have finished its run before we had the lock.
            _check_folders(run, folder, resume=resume)
        task, loop = _prepare(run, folder, report, ranks, resume=resume)
        start, training = task.start, run.config.training
        facts = [
            *task.description,
            f"{start.num_parameters:,} parameters",
            f"device {run.device}, {format_count(torch.get_num_threads(), 'threads')}",
            f"precision {training.precision}, seed {training.seed}",
        ]
        if loop.state.update:
            facts.append(f"continuing after update {loop.state.update:,}")
        _logger.info("%s", "; ".join(facts))
        begin()
        name = "batch_words" if training.batch_words else "batch_size"
        problem = f"a batch does not fit; choose a training.{name} below {getattr(training, name)}"
        with enough_memory(run.device, problem):
            stopped_by = loop.run()
        state = loop.state
        if stopped_by == INTERRUPTED:
            raise StoppedError(
                loop.caught[0],
                f"stopped after update {state.update}; --resume continues from there",
            )
        tuning = start.record.fine_tuning
        has_best = state.best_quality is not None
        record = replace(
            start.record,
            seed=training.seed,
            updates=state.update,
            epochs=loop.epochs,
            minutes=state.seconds / 60,
            best_update=state.best_update if has_best else state.update,
            stopped_by=stopped_by,
            device=str(run.device),
            curve=tuple(state.curve),
            fine_tuning=None if tuning is None else replace(tuning, scale=state.scale),
        )
        if ranks.is_first:
            if has_best:
                folder.load_best(state.best_update, start.model)
            save_checkpoint(run.model, replace(start, record=record))
            if not run.keep_work:
                folder.remove()
    return record


def _choose_precision(
    config: Config, stored: Config | None, device: torch.device, ranks: Ranks
) -> Config:
    """Return the settings with ``precision = "auto"`` replaced by the faster precision.

    It is bfloat16 for the kinds that train faster in it with AMX, if the processor of the first
    rank has AMX. A measurement would depend on what else the machine does, and then the same
    command would train different models.

    :param stored: settings of the run to resume, which keeps its precision.
    """
    if config.training.precision != "auto":
        return config
    chosen: TrainingPrecision = "float32"
    if stored is not None:
        chosen = stored.training.precision
    elif (
        device.type == "cpu"
        and config.network.gains_by_bfloat16
        and ranks.sum([ranks.is_first and has_matrix_units()])[0]
    ):
        chosen = "bfloat16"
    training = replace(config.training, precision=chosen)
    return replace(config, training=training)


def check_settings(config: Config, device: torch.device) -> None:
    """Raise a ConfigError if the device lacks the precision, or the run would never end."""
    training = config.training
    limits = any((training.updates, training.epochs, training.minutes))
    can_stop = training.patience and training.validation_pairs and training.validation_share
    if training.precision == "tf32" and device.type != "cuda":
        setting, problem = "precision", "tf32 needs a CUDA device"
    elif training.schedule == "linear" and not limits:
        setting, problem = "schedule", "linear needs a limit: --updates, --epochs or --minutes"
    elif not limits and not can_stop:
        limits_or_patience = "a limit (--updates, --epochs, --minutes) or patience"
        setting, problem = "updates", f"the run would never end: set {limits_or_patience}"
    elif training.average_checkpoints > 1 and not (
        training.validation_pairs and training.validation_share
    ):
        setting = "average_checkpoints"
        problem = "weights are averaged at validations, but validation_pairs or _share is 0"
    else:
        return
    raise ConfigError("--set", f"[training] {setting}", problem)


def _prepare(
    run: TrainingRun, folder: RunFolder, report: Report, ranks: Ranks, *, resume: bool
) -> tuple[Task, TrainingLoop]:
    """Read the inputs, and build the network and its loop. On failure, remove a new run."""
    is_resumed = resume and folder.is_begun
    try:
        if ranks.is_first and not is_resumed:
            # Write the settings first, so that a run that is killed while reading can be resumed.
            folder.begin(run.config)
        task = run.prepare(folder, ranks, is_resumed=is_resumed)
        with enough_memory(run.device, NETWORK_PROBLEM):
            loop = task.make_loop(report)
        if ranks.is_first:
            # A resumed run may have different limits.
            folder.write_settings(run.config)
        ranks.wait()  # every rank has read the state before the first one writes another
    except BaseException:
        if not is_resumed and ranks.is_first:
            folder.remove()
        raise
    return task, loop


def _check_folders(run: TrainingRun, folder: RunFolder, *, resume: bool) -> None:
    """Reject a run that would overwrite a model or an unfinished run, or mix two runs."""
    # A run that was stopped before its first state may be resumed or started over.
    work, model = run.work, run.model
    check_folder_above(model)
    is_taken = os.path.lexists(os.path.realpath(model))
    stored = folder.settings()
    if stored is not None and folder.state is not None:
        if not resume:
            raise PhrasescoreError(
                f"{work}: holds an unfinished run; continue it with --resume, or remove the folder"
            )
        check_resumable(stored, run.config)
        if is_taken and not _may_replace(run, folder):
            raise PhrasescoreError(
                f"{model}: already exists, and the run in {work} has not written it; move it away "
                "or choose another --output"
            )
    elif is_taken:
        # A finished run can be trained further only with --keep-work.
        problem = f", and {work} holds no run to continue" if resume else ""
        raise PhrasescoreError(
            f"{model}: already exists{problem}; remove it or choose another --output"
        )
    elif stored is not None:
        if resume:
            check_resumable(stored, run.config)
    elif folder.is_foreign:  # the folder is removed at the end
        raise PhrasescoreError(
            f"{work}: expected a folder for this run only; remove the other files in it"
        )


def _may_replace(run: TrainingRun, folder: RunFolder) -> bool:
    try:
        model = load_checkpoint(run.model)
        check_resumable(model.config, run.config)
    except PhrasescoreError:
        return False
    state = folder.state
    assert state is not None
    return model.record.updates <= state.update and run.has_made(model, folder)


@contextlib.contextmanager
def enough_memory(device: torch.device, problem: str) -> Iterator[None]:
    """Turn memory errors from torch and numpy into a PhrasescoreError that suggests a fix."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise PhrasescoreError(f"out of memory on {device}: {problem}") from error
