"""A whole training run: from pairs of text to a model folder, by way of a work folder.

The work folder (:mod:`phrasescore.training.run_folder`) exists as long as the run is unfinished,
so that a run that was killed can be resumed; the model folder appears whole at the end.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from phrasescore.arguments import flag
from phrasescore.config.config import Config
from phrasescore.config.settings import ALIGNED, FEED_FORWARD, LANGUAGE_MODELS
from phrasescore.devices import is_out_of_memory
from phrasescore.errors import ConfigError, ModelError, PhrasescoreError, StoppedError, shown_path
from phrasescore.models.checkpoint import (
    Checkpoint,
    TrainingRecord,
    direction_of,
    empty_network,
    save_checkpoint,
)
from phrasescore.models.layers import PairNetwork
from phrasescore.training.likelihood_loop import TrainingLoop
from phrasescore.training.loop import INTERRUPTED, TrainingProgress
from phrasescore.training.pair_store import PairStore
from phrasescore.training.pair_store_writer import (
    CountedPair,
    Shortlist,
    fingerprint_input,
    write_pair_store,
)
from phrasescore.training.ranks import Ranks, joined_ranks
from phrasescore.training.run_folder import RunFolder

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingRun:
    """A run: its inputs, its settings and its folders.

    :param inputs: the path of a phrase table or of a language model's text, or those of a parallel
        text and of its alignments; ``-`` for stdin.
    :param read: opens them and yields their pairs; called once at most.
    :param model: the folder that will be written.
    :param work: the folder of the unfinished run.
    :param shortlists: of the side that the network reads and of the one that it predicts; called
        when the pairs are to be read, since it may mean to read a corpus.
    """

    inputs: tuple[str, ...]
    read: Callable[[], Iterable[CountedPair]]
    model: Path
    work: Path
    config: Config
    device: torch.device
    reverse: bool = False
    right_to_left: bool = False
    shortlists: Callable[[], tuple[Shortlist, Shortlist]] = lambda: (Shortlist(), Shortlist())
    keep_work: bool = False

    @property
    def is_language_model(self) -> bool:
        """Whether it learns from one text, stored as the targets of pairs without a source."""
        return self.config.kind in LANGUAGE_MODELS


def train_model(
    run: TrainingRun,
    *,
    resume: bool = False,
    begin: Callable[[], None] = lambda: None,
    report: Callable[[TrainingProgress], None] = lambda _progress: None,
) -> TrainingRecord:
    """Train a network and write its model folder; return its record.

    :param resume: go on with the unfinished run in the work folder, if there is one; read the
        pairs again if it was killed before they were stored. A run that was stopped before its
        first state is begun anew without it.
    :param begin: called when the pairs are read, before the first update.
    :param report: called after each update.
    :raises StoppedError: if SIGINT or SIGTERM stopped the run; its state is kept.
    :raises PhrasescoreError: if the model is there already, or an unfinished run that is not to be
        resumed, or one with other settings, another table or other shortlists; if one of the two
        folders is or holds the other; if memory is short; and for whatever is wrong with table,
        settings or disk.
    """
    check_settings(run.config, run.device)
    folder = RunFolder(run.work)
    with joined_ranks(run.device) as ranks, contextlib.ExitStack() as stack:
        if ranks.is_first:
            stack.enter_context(folder.held(run.model, run.inputs, run.config, resume=resume))
        store, network, loop = _prepare(run, folder, report, ranks, resume=resume)
        _logger.info("%s", _describe(run, store, loop, network))
        batch = run.config.training.batch_size
        problem = f"a batch does not fit; choose a training.batch_size below {batch}"
        begin()
        with enough_memory(run.device, problem):
            stopped_by = loop.run()
        if stopped_by == INTERRUPTED:
            problem = f"stopped after update {loop.state.update}; --resume goes on from there"
            raise StoppedError(loop.caught[0], problem)
        record = _make_record(run, store, loop, stopped_by)
        if ranks.is_first:
            if loop.state.best_perplexity is not None:
                folder.load_best(loop.state.best_update, network)
            save_checkpoint(
                run.model,
                Checkpoint(
                    network, run.config, store.source_vocabulary, store.target_vocabulary, record
                ),
            )
            if not run.keep_work:
                folder.remove()
    return record


def check_settings(config: Config, device: torch.device) -> None:
    """Check that a device has a run's precision, and that the run would end.

    :raises ConfigError: if not.
    """
    training = config.training
    if training.precision == "tf32" and device.type != "cuda":
        raise ConfigError("--set", "[training] precision", "tf32 needs a CUDA device")
    limits = (training.updates, training.epochs, training.minutes)
    if training.schedule == "linear" and not any(limits):
        raise ConfigError(
            "--set",
            "[training] schedule",
            "linear needs a limit: --updates, --epochs or --minutes",
        )
    can_stop = training.patience and training.validation_pairs and training.validation_share
    if not any(limits) and not can_stop:
        raise ConfigError(
            "--set",
            "[training] updates",
            "the run would never end: set a limit (--updates, --epochs, --minutes) or patience",
        )


def _prepare(
    run: TrainingRun,
    folder: RunFolder,
    report: Callable[[TrainingProgress], None],
    ranks: Ranks,
    *,
    resume: bool,
) -> tuple[PairStore, PairNetwork, TrainingLoop]:
    """Open the pairs and build the network and its loop.

    The first rank stores the pairs, the others wait. If it fails, nothing is left of a run that
    began here.
    """
    is_resumed = resume and folder.is_begun
    # Pairs that are missing beside a state were removed by somebody: opening them says so.
    has_pairs = is_resumed and (folder.pairs.exists() or folder.has_state)
    config = run.config
    try:
        if not ranks.is_first:
            ranks.wait()
            store = PairStore(folder.pairs)
        elif has_pairs:
            store = _open_pairs(run, folder)
        else:
            store = _store_pairs(run, folder, is_resumed)
        if ranks.is_first:
            ranks.wait()
        problem = "the network does not fit; choose smaller sizes in [model] or [vocabulary]"
        with enough_memory(run.device, problem):
            sizes = (len(store.source_vocabulary), len(store.target_vocabulary))
            network = empty_network(config, *sizes).to_empty(device="cpu").train()
            # On the CPU, so that a seed gives the same start on every device.
            network.initialize(torch.Generator().manual_seed(config.training.seed))
            network = network.to(run.device)
            loop = TrainingLoop(network, store, config.training, folder, report, ranks)
        if ranks.is_first:
            # The limits of a run that is resumed may be others.
            folder.write_settings(config)
        ranks.wait()  # all have read the state, before the first one writes another
    except BaseException:
        if not is_resumed and ranks.is_first:
            folder.remove()
        raise
    return store, network, loop


@contextlib.contextmanager
def enough_memory(device: torch.device, problem: str) -> Iterator[None]:
    """Turn the errors of torch and numpy where memory is short into one for the user.

    :param problem: what does not fit, and the cure.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise PhrasescoreError(f"out of memory on {device}: {problem}") from error


def _store_pairs(run: TrainingRun, folder: RunFolder, is_resumed: bool) -> PairStore:
    """Read the input and store its pairs; before that the settings, for a kill on the way."""
    if is_resumed:
        _logger.info(
            "%s: the run was stopped before its pairs were stored; they are read again, with "
            "--reverse, --right-to-left and shortlists as given now",
            run.work,
        )
    else:
        folder.begin(run.config)
    return write_pair_store(
        folder.pairs,
        run.read(),
        run.config.vocabulary,
        max_length=run.config.training.max_length,
        reverse=run.reverse,
        right_to_left=run.right_to_left,
        shortlists=run.shortlists(),
        distinct=run.config.kind not in FEED_FORWARD,
    )


def _open_pairs(run: TrainingRun, folder: RunFolder) -> PairStore:
    """Return the pairs of the run to resume, if the input is still the same."""
    store = PairStore(folder.pairs)
    store.check()
    if store.is_aligned != (run.config.kind in ALIGNED):
        raise ModelError(f"{folder.pairs}: these pairs are not of a model of this kind")
    for name in ("reverse", "right_to_left"):
        was_given = getattr(store.record, name)
        if was_given != getattr(run, name):
            had = "with" if was_given else "without"
            raise ConfigError("--resume", flag(name), f"the run to resume was started {had} it")
    if fingerprint_input(run.inputs) != store.record.fingerprint:
        names = ", ".join(map(shown_path, run.inputs))
        input_kind = "table" if len(run.inputs) == 1 and not run.is_language_model else "text"
        raise PhrasescoreError(
            f"{names}: not the {input_kind} that the run in {run.work} was started with; resume it "
            f"with that {input_kind}, or train into another folder"
        )
    _check_shortlists(run, store)
    return store


def _check_shortlists(run: TrainingRun, store: PairStore) -> None:
    """Refuse shortlists of other words than those of the run to resume have.

    The names of files may have changed. A side without a corpus or vocabulary keeps its own.
    """
    sizes = run.config.vocabulary
    for shortlist, size, vocabulary in zip(
        run.shortlists(),
        (sizes.source_size, sizes.target_size),
        (store.source_vocabulary, store.target_vocabulary),
        strict=True,
    ):
        if shortlist.is_table:
            continue
        if shortlist.build({}, size, sizes.subwords)[0] != vocabulary:
            raise PhrasescoreError(
                f"{shortlist.origin}: gives other words than the shortlist that the run in "
                f"{run.work} was started with; leave it out, or train into another folder"
            )


def _describe(run: TrainingRun, store: PairStore, loop: TrainingLoop, network: PairNetwork) -> str:
    record, training = store.record, run.config.training
    left_out = [
        f"{number:,} {name}"
        for number, name in (
            (record.duplicates, "duplicates left out"),
            (record.too_long, f"with more than {record.max_length} words left out"),
        )
        if number
    ]
    parameters = sum(parameter.numel() for parameter in network.parameters())
    unit = "sentences" if run.config.kind in FEED_FORWARD else "distinct pairs"
    reads = "" if run.is_language_model else f"reads {record.source_coverage:.2%}, "
    return "; ".join(
        [
            f"{record.lines:,} lines, {record.pairs:,} {unit}",
            *left_out,
            f"{loop.held_out:,} held out",
            f"coverage: {reads}predicts {record.target_coverage:.2%}",
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
        direction=direction_of(reverse=run.reverse, right_to_left=run.right_to_left),
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
