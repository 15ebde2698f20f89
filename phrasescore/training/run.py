"""A whole training run: from its input to a model folder, by way of a work folder.

The work folder (:mod:`phrasescore.training.run_folder`) exists as long as the run is unfinished,
so that a run that was killed can be resumed; the model folder appears whole at the end.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch

from phrasescore.config.config import Config
from phrasescore.devices import is_out_of_memory
from phrasescore.errors import ConfigError, PhrasescoreError, StoppedError
from phrasescore.models.checkpoint import Checkpoint, TrainingRecord, save_checkpoint
from phrasescore.models.layers import PairNetwork
from phrasescore.training.loop import INTERRUPTED, TrainingLoop, TrainingProgress
from phrasescore.training.ranks import Ranks, joined_ranks
from phrasescore.training.run_folder import RunFolder, RunState

_logger = logging.getLogger(__name__)

Report = Callable[[TrainingProgress], None]


class Items(Protocol):
    """What a run learns from."""

    def __len__(self) -> int:
        """Return the number of items."""
        ...


ItemsType = TypeVar("ItemsType", bound=Items)


@dataclass(frozen=True, kw_only=True)
class TrainingRun(Generic[ItemsType]):
    """A run: its inputs, its settings and its folders. A subclass has its items and its loss.

    :param inputs: the paths of all files that are read; ``-`` for stdin.
    :param model: the folder that will be written.
    :param work: the folder of the unfinished run.
    :param keep_work: keep that folder at the end, to train further.
    """

    # Whether the processes that torchrun has started share the run.
    joins_ranks: ClassVar = True

    inputs: tuple[str, ...]
    model: Path
    work: Path
    config: Config
    device: torch.device
    keep_work: bool = False

    def open_items(self, folder: RunFolder, ranks: Ranks, *, is_resumed: bool) -> ItemsType:
        """Read the inputs, or open what was stored when the run began.

        :raises PhrasescoreError: if the run to resume was begun with other inputs.
        """
        raise NotImplementedError

    def build_network(self, items: ItemsType) -> PairNetwork:
        """Return the network with its start weights, in training, on the CPU."""
        raise NotImplementedError

    def build_loop(
        self,
        network: PairNetwork,
        items: ItemsType,
        folder: RunFolder,
        report: Report,
        ranks: Ranks,
    ) -> TrainingLoop[Any]:
        """Return the loop, which continues from the state in ``folder``."""
        raise NotImplementedError

    def describe(self, items: ItemsType, num_held_out: int) -> list[str]:
        """Return phrases about the items for the log."""
        raise NotImplementedError

    def make_record(self, items: ItemsType, num_held_out: int, state: RunState) -> TrainingRecord:
        """Return what the record says of the items; `train_model` adds the rest."""
        raise NotImplementedError

    def make_checkpoint(
        self, network: PairNetwork, items: ItemsType, record: TrainingRecord
    ) -> Checkpoint:
        """Return the trained model."""
        raise NotImplementedError

    def has_made(self, model: Checkpoint, folder: RunFolder) -> bool:
        """Return whether a model may come from the unfinished run in ``folder``."""
        raise NotImplementedError


def train_model(
    run: TrainingRun[ItemsType],
    *,
    resume: bool = False,
    begin: Callable[[], None] = lambda: None,
    report: Report = lambda _progress: None,
) -> TrainingRecord:
    """Train a network and write its model folder; return its record.

    The weights are those that were best on the held-out items, or the last ones if none is held
    out.

    :param resume: continue the unfinished run in the work folder, if there is one. Its inputs are
        read again if it was killed before they were stored. Without it, a run that was stopped
        before its first state starts from the beginning.
    :param begin: called after the inputs are read, before the first update.
    :param report: called after each update.
    :raises StoppedError: if SIGINT or SIGTERM stopped the run; its state is kept.
    :raises PhrasescoreError: if the model exists already; if there is an unfinished run that is not
        to be resumed, or one with other settings or inputs; if one of the two folders is or holds
        the other; if memory is short; and if the inputs, the settings or the disk are at fault.
    """
    check_settings(run.config, run.device)
    folder = RunFolder(run.work)
    joined = joined_ranks(run.device) if run.joins_ranks else contextlib.nullcontext(Ranks())
    with joined as ranks, contextlib.ExitStack() as stack:
        if ranks.is_first:
            stack.enter_context(
                folder.held(
                    run.model,
                    run.inputs,
                    run.config,
                    resume=resume,
                    has_made=lambda model: run.has_made(model, folder),
                )
            )
        items, network, loop = _prepare(run, folder, report, ranks, resume=resume)
        _logger.info("%s", _describe(run, items, network, loop))
        size = run.config.training.batch_size
        begin()
        with _enough_memory(
            run.device, f"a batch does not fit; choose a training.batch_size below {size}"
        ):
            stopped_by = loop.run()
        state = loop.state
        if stopped_by == INTERRUPTED:
            problem = f"stopped after update {state.update}; --resume goes on from there"
            raise StoppedError(loop.caught[0], problem)
        has_best = state.best_quality is not None
        record = replace(
            run.make_record(items, loop.num_held_out, state),
            seed=run.config.training.seed,
            updates=state.update,
            epochs=loop.epochs,
            minutes=state.seconds / 60,
            best_update=state.best_update if has_best else state.update,
            stopped_by=stopped_by,
            device=str(run.device),
            curve=tuple(state.curve),
        )
        if ranks.is_first:
            if has_best:
                folder.load_best(state.best_update, network)
            save_checkpoint(run.model, run.make_checkpoint(network, items, record))
            if not run.keep_work:
                folder.remove()
    return record


def check_settings(config: Config, device: torch.device) -> None:
    """Check that the device has the precision of a run, and that the run would end.

    :raises ConfigError: if not.
    """
    training = config.training
    limits = any((training.updates, training.epochs, training.minutes))
    can_stop = training.patience and training.validation_pairs and training.validation_share
    if training.precision == "tf32" and device.type != "cuda":
        setting, problem = "precision", "tf32 needs a CUDA device"
    elif training.schedule == "linear" and not limits:
        setting, problem = "schedule", "linear needs a limit: --updates, --epochs or --minutes"
    elif not limits and not can_stop:
        setting = "updates"
        problem = (
            "the run would never end: set a limit (--updates, --epochs, --minutes) or patience"
        )
    else:
        return
    raise ConfigError("--set", f"[training] {setting}", problem)


def _prepare(
    run: TrainingRun[ItemsType],
    folder: RunFolder,
    report: Report,
    ranks: Ranks,
    *,
    resume: bool,
) -> tuple[ItemsType, PairNetwork, TrainingLoop[Any]]:
    """Open the items and build the network and its loop.

    If the first rank fails, nothing is left of a run that began here.
    """
    is_resumed = resume and folder.is_begun
    try:
        if ranks.is_first and not is_resumed:
            # The settings come first, so that a run that is killed while it reads can be resumed.
            folder.begin(run.config)
        items = run.open_items(folder, ranks, is_resumed=is_resumed)
        with _enough_memory(
            run.device, "the network does not fit; choose smaller sizes in [model] or [vocabulary]"
        ):
            network = run.build_network(items).to(run.device)
            loop = run.build_loop(network, items, folder, report, ranks)
        if ranks.is_first:
            # A resumed run may have other limits.
            folder.write_settings(run.config)
        ranks.wait()  # every rank has read the state before the first one writes another
    except BaseException:
        if not is_resumed and ranks.is_first:
            folder.remove()
        raise
    return items, network, loop


@contextlib.contextmanager
def _enough_memory(device: torch.device, problem: str) -> Iterator[None]:
    """Turn the errors of torch and numpy about memory into one message for the user.

    :param problem: what does not fit, and the cure.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise PhrasescoreError(f"out of memory on {device}: {problem}") from error


def _describe(
    run: TrainingRun[ItemsType], items: ItemsType, network: PairNetwork, loop: TrainingLoop[Any]
) -> str:
    training = run.config.training
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return "; ".join(
        [
            *run.describe(items, loop.num_held_out),
            f"{parameters:,} parameters",
            f"device {run.device}, {torch.get_num_threads()} threads",
            f"precision {training.precision}, seed {training.seed}",
            f"from update {loop.state.update:,}",
        ]
    )
