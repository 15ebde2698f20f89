"""A run that trains a network on, from n-best lists: from its model folder to another one.

The work folder is that of any training run (:mod:`phrasescore.training.run_folder`), without pairs:
a run that goes on reads the lists again.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from phrasescore.config.config import Config
from phrasescore.errors import PhrasescoreError, StoppedError
from phrasescore.io.state import digest_text
from phrasescore.models.checkpoint import (
    Checkpoint,
    FineTuning,
    TrainingRecord,
    save_checkpoint,
)
from phrasescore.models.layers import PairNetwork
from phrasescore.training.list_loop import ExpectedBleu, ListLoop
from phrasescore.training.list_store import ListStore
from phrasescore.training.loop import INTERRUPTED, TrainingProgress, held_out_size
from phrasescore.training.run import check_settings, enough_memory
from phrasescore.training.run_folder import RunFolder, RunInputs

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingLists:
    """The lists of a run, and what they and their scores came from."""

    store: ListStore
    # By what it is: all that scores and gains depend on.
    inputs: dict[str, str]


@dataclass(frozen=True)
class ListRun:
    """A run: its network, its lists, its settings and its folders.

    :param start: the network that is trained on, on the CPU.
    :param feature: the network's in the log-linear model, for the record.
    :param inputs: the paths of all files that ``read`` opens; ``-`` for stdin.
    :param read: opens them and returns the lists; called once.
    :param model: the folder that will be written.
    :param work: the folder of the unfinished run.
    """

    start: Checkpoint
    feature: str
    objective: ExpectedBleu
    inputs: tuple[str, ...]
    read: Callable[[], TrainingLists]
    model: Path
    work: Path
    config: Config
    device: torch.device
    keep_work: bool = False


def train_on_lists(
    run: ListRun,
    *,
    resume: bool = False,
    begin: Callable[[], None] = lambda: None,
    report: Callable[[TrainingProgress], None] = lambda _progress: None,
) -> TrainingRecord:
    """Train a network for expected BLEU and write its model folder; return its record.

    The weights are those of the best expected BLEU of held-out lists: if nothing raises it, those
    of the start.

    :param resume: go on with the unfinished run in the work folder, if there is one.
    :param begin: called when the lists are read, before the first update.
    :param report: called after each update.
    :raises StoppedError: if SIGINT or SIGTERM stopped the run; its state is kept.
    :raises PhrasescoreError: as :func:`phrasescore.training.run.train_model`.
    """
    check_settings(run.config, run.device)
    folder = RunFolder(run.work)
    with folder.held(run.model, run.inputs, run.config, resume=resume):
        found, network, loop = _prepare(run, folder, report, is_resumed=resume and folder.is_begun)
        _logger.info("%s", _describe(run, found, loop))
        lists = run.config.training.batch_size
        problem = f"a batch does not fit; choose a training.batch_size below {lists}"
        begin()
        with enough_memory(run.device, problem):
            stopped_by = loop.run()
        if stopped_by == INTERRUPTED:
            problem = f"stopped after update {loop.state.update}; --resume goes on from there"
            raise StoppedError(loop.caught[0], problem)
        folder.load_best(loop.state.best_update, network)
        record = _make_record(run, found, loop, stopped_by)
        made = replace(run.start, model=network, config=run.config, record=record)
        save_checkpoint(run.model, made)
        if not run.keep_work:
            folder.remove()
    return record


def _prepare(
    run: ListRun,
    folder: RunFolder,
    report: Callable[[TrainingProgress], None],
    *,
    is_resumed: bool,
) -> tuple[TrainingLists, PairNetwork, ListLoop]:
    """Read the lists and build the loop; if that fails, nothing is left of a new run."""
    training = run.config.training
    try:
        if not is_resumed:
            folder.begin(run.config)
        found = run.read()
        found.inputs["likelihood"] = repr(run.objective.likelihood)
        folder.check_inputs(RunInputs(found.inputs, _fingerprint(found)))
        size = len(found.store)
        if not held_out_size(training, size):
            problem = f"{size} lists, of which validation_share {training.validation_share} is none"
            cure = "give more lists, or change training.validation_share or validation_pairs"
            raise PhrasescoreError(f"no list is held out of {problem}: {cure}")
        assert isinstance(run.start.model, PairNetwork)
        network = run.start.model.requires_grad_().train().to(run.device)
        loop = ListLoop(network, found.store, training, run.objective, folder, report)
        folder.write_settings(run.config)  # the limits of a run that is resumed may be others
    except BaseException:
        if not is_resumed:
            folder.remove()
        raise
    return found, network, loop


def _fingerprint(found: TrainingLists) -> str:
    return digest_text(repr(sorted(found.inputs.items())))


def _describe(run: ListRun, found: TrainingLists, loop: ListLoop) -> str:
    store, training = found.store, run.config.training
    return "; ".join(
        [
            f"{len(store):,} lists, {store.num_hypotheses:,} hypotheses",
            f"{loop.held_out:,} lists held out",
            f"{run.feature} with the weight {run.objective.weight:g}",
            f"{run.start.num_parameters:,} parameters",
            f"device {run.device}, {torch.get_num_threads()} threads",
            f"precision {training.precision}, seed {training.seed}",
            f"from update {loop.state.update:,}",
        ]
    )


def _make_record(
    run: ListRun, found: TrainingLists, loop: ListLoop, stopped_by: str
) -> TrainingRecord:
    state = loop.state
    return replace(
        run.start.record,
        seed=run.config.training.seed,
        data_fingerprint=_fingerprint(found),
        updates=state.update,
        epochs=loop.epochs,
        minutes=state.seconds / 60,
        best_update=state.best_update,
        stopped_by=stopped_by,
        device=str(run.device),
        curve=tuple(state.curve),
        fine_tuning=FineTuning(
            objective="xbleu",
            start_fingerprint=run.start.fingerprint,
            lists=len(found.store) - loop.held_out,
            held_out_lists=loop.held_out,
            feature=run.feature,
            weight=run.objective.weight,
            scale=state.scale,
            likelihood=run.objective.likelihood,
        ),
    )
