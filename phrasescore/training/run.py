"""A whole training run: from a phrase table to a model folder, by way of a work folder.

The work folder has the pairs (``pairs/``), the settings (``run.json``) and the states. It exists
as long as the run is unfinished, so that a run that was killed can be resumed; the model folder
appears whole at the end.
"""

import contextlib
import fcntl
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from phrasescore.checkpoint import (
    FORWARD,
    REVERSE,
    Checkpoint,
    TrainingRecord,
    empty_network,
    save_checkpoint,
)
from phrasescore.config import Config, check_resumable
from phrasescore.errors import ConfigError, ModelError, PhrasescoreError
from phrasescore.folders import remove_folder
from phrasescore.training.loop import INTERRUPTED, TrainingLoop, TrainingProgress
from phrasescore.training.pair_store import PairStore
from phrasescore.training.pair_store_writer import Shortlist, fingerprint_table, write_pair_store
from phrasescore.training.run_state import load_best
from phrasescore.training.table_spool import CountedPair

_logger = logging.getLogger(__name__)

_SETTINGS = "run.json"
# What a run that was killed before it began to train leaves in its work folder.
_BEGINNINGS = {"lock", "pairs", "pairs.new", "run.json.part"}


@dataclass(frozen=True)
class TrainingRun:
    """What to train, and where.

    :param table: the phrase table's path, ``-`` for stdin.
    :param read: opens the table and yields its lines; called once at most.
    :param model: the folder that will be written.
    :param work: the folder of the unfinished run.
    :param shortlists: of the side that the network reads and of the one that it predicts; called
        when the pairs are to be read, since it may mean to read a corpus.
    """

    table: str
    read: Callable[[], Iterable[CountedPair]]
    model: Path
    work: Path
    config: Config
    device: torch.device
    reverse: bool = False
    shortlists: Callable[[], tuple[Shortlist, Shortlist]] = lambda: (Shortlist(), Shortlist())
    keep_work: bool = False


def default_work(model: Path) -> Path:
    """Return the work folder of a model folder: beside it, with ``.work`` at the end."""
    return model.with_name(f"{model.name}.work")


def stored_config(work: Path) -> Config | None:
    """Return the settings of the unfinished run in a work folder, None if there is none.

    :raises PhrasescoreError: if they are not what was written.
    """
    path = work / _SETTINGS
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ModelError(f"{path}: expected the settings of a run: {error}") from error
    return Config.from_dict(values, str(path))


def train_model(
    run: TrainingRun,
    *,
    resume: bool = False,
    report: Callable[[TrainingProgress], None] = lambda _progress: None,
) -> TrainingRecord | None:
    """Train a network and write its model folder; return its record, or None after Ctrl-C.

    :param resume: go on with the unfinished run in the work folder, if there is one.
    :param report: called after each update.
    :raises PhrasescoreError: if the model is there already, or an unfinished run that is not to be
        resumed, or one with other settings or another table; and for whatever is wrong with table,
        settings or disk.
    """
    _check_limits(run.config)
    if run.config.training.precision == "tf32" and run.device.type != "cuda":
        raise ConfigError("--set", "[training] precision", "tf32 needs a CUDA device")
    _check_folders(run, resume)
    with _locked(run.work):
        store = _prepare(run)
        network = _start_network(run.config, store).to(run.device)
        loop = TrainingLoop(network, store, run.config.training, run.work, report=report)
        _logger.info("%s", _describe(run, store, loop, network))
        stopped_by = loop.run()
        if stopped_by == INTERRUPTED:
            _logger.info("stopped after update %d; --resume goes on from there", loop.state.update)
            return None
        if loop.state.best_perplexity is not None:
            load_best(run.work, loop.state.best_update, network)
        record = _make_record(run, store, loop, stopped_by)
        save_checkpoint(
            run.model,
            Checkpoint(
                network, run.config, store.source_vocabulary, store.target_vocabulary, record
            ),
        )
        if not run.keep_work:
            remove_folder(run.work)
    return record


def _check_limits(config: Config) -> None:
    training = config.training
    limits = (training.updates, training.epochs, training.minutes)
    if training.schedule == "linear" and not any(limits):
        raise ConfigError(
            "--set", "[training] schedule", "linear needs a limit: --updates, --epochs or --minutes"
        )
    can_stop = training.patience and training.validation_pairs and training.validation_share
    if not any(limits) and not can_stop:
        raise ConfigError(
            "--set",
            "[training] updates",
            "the run would never end: set a limit (--updates, --epochs, --minutes) or patience",
        )


def _check_folders(run: TrainingRun, resume: bool) -> None:
    """Refuse to overwrite a model or an unfinished run, and to mix two runs."""
    stored = stored_config(run.work)
    if stored is None:
        if run.model.exists():
            raise PhrasescoreError(
                f"{run.model}: there is something already; remove it or choose another --output"
            )
        if run.work.is_dir() and {path.name for path in run.work.iterdir()} - _BEGINNINGS:
            # It will be removed in the end.
            raise PhrasescoreError(f"{run.work}: expected a folder for this run alone")
        return
    if not resume:
        raise PhrasescoreError(
            f"{run.work}: an unfinished run; go on with it by --resume, or remove the folder"
        )
    check_resumable(stored, run.config)


@contextlib.contextmanager
def _locked(work: Path) -> Iterator[None]:
    """Make the work folder if need be, and keep other processes out of it."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        # A file beside what is in the folder: the folder itself is removed at the end.
        lock = (work / "lock").open("w")
    except OSError as error:
        raise PhrasescoreError(f"{work}: cannot write: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise PhrasescoreError(f"{work}: another run is at work here") from error
        yield


def _prepare(run: TrainingRun) -> PairStore:
    """Open the pairs; when this returns the run can be resumed, and if it fails nothing is left."""
    try:
        store = _open_pairs(run)
        _write_settings(run)
    except BaseException:
        if not (run.work / _SETTINGS).exists():
            remove_folder(run.work)
        raise
    return store


def _open_pairs(run: TrainingRun) -> PairStore:
    """Return the pairs of the table; those of the run to resume, if the table is still the same."""
    folder = run.work / "pairs"
    if stored_config(run.work) is None:
        training = run.config.training
        return write_pair_store(
            folder,
            run.read(),
            run.config.vocabulary,
            max_length=training.max_length,
            reverse=run.reverse,
            shortlists=run.shortlists(),
        )
    store = PairStore(folder)
    if store.record.reverse != run.reverse:
        had = "with" if store.record.reverse else "without"
        raise ConfigError("--resume", "--reverse", f"the run to resume was started {had} it")
    if fingerprint_table(run.table) != store.record.fingerprint:
        table = "<stdin>" if run.table == "-" else run.table
        raise PhrasescoreError(
            f"{table}: not the table that the run in {run.work} was started with; resume it with "
            "that table, or train into another folder"
        )
    return store


def _write_settings(run: TrainingRun) -> None:
    part = run.work / f"{_SETTINGS}.part"
    try:
        part.write_text(json.dumps(run.config.to_dict(), indent=1) + "\n", encoding="utf-8")
        part.replace(run.work / _SETTINGS)
    except OSError as error:
        raise PhrasescoreError(f"{run.work}: cannot write: {error.strerror}") from error


def _start_network(config: Config, store: PairStore) -> nn.Module:
    """Return a network with the start weights that the seed gives, on the CPU."""
    sizes = (len(store.source_vocabulary), len(store.target_vocabulary))
    network: Any = empty_network(config, *sizes).to_empty(device="cpu")
    # On the CPU, so that a seed gives the same start on every device.
    network.initialize(torch.Generator().manual_seed(config.training.seed))
    trainable: nn.Module = network.train()
    return trainable


def _describe(run: TrainingRun, store: PairStore, loop: TrainingLoop, network: nn.Module) -> str:
    record, training = store.record, run.config.training
    left_out = [
        f"{number:,} {what}"
        for number, what in (
            (record.duplicates, "duplicates left out"),
            (record.too_long, f"with more than {record.max_length} words left out"),
        )
        if number
    ]
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return "; ".join(
        [
            f"{record.lines:,} lines, {record.pairs:,} distinct pairs",
            *left_out,
            f"{loop.held_out:,} held out",
            f"coverage: reads {record.source_coverage:.2%}, predicts {record.target_coverage:.2%}",
            f"{parameters:,} parameters",
            f"device {run.device}, {torch.get_num_threads()} threads",
            f"precision {training.precision}, seed {training.seed}",
            f"from update {loop.state.update:,}",
        ]
    )


def _make_record(
    run: TrainingRun, store: PairStore, loop: TrainingLoop, stopped_by: str
) -> TrainingRecord:
    pairs, state = store.record, loop.state
    return TrainingRecord(
        direction=REVERSE if run.reverse else FORWARD,
        seed=run.config.training.seed,
        data_fingerprint=pairs.fingerprint,
        training_pairs=pairs.pairs - loop.held_out,
        validation_pairs=loop.held_out,
        duplicates=pairs.duplicates,
        too_long=pairs.too_long,
        source_coverage=pairs.source_coverage,
        target_coverage=pairs.target_coverage,
        source_shortlist_from=pairs.source_shortlist_from,
        target_shortlist_from=pairs.target_shortlist_from,
        updates=state.update,
        epochs=loop.epochs,
        minutes=state.seconds / 60,
        best_update=state.best_update or state.update,
        stopped_by=stopped_by,
        device=str(run.device),
        curve=tuple(state.curve),
    )
