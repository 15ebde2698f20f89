"""Train a network on a phrase table or text."""

import logging
import os
from collections.abc import Sequence

from phrasescore.arguments import StrPath
from phrasescore.devices import torch_threads, usable_threads
from phrasescore.errors import ArgumentError
from phrasescore.io.folders import model_folders
from phrasescore.io.output import check_files, optional_path
from phrasescore.io.text import count_lines, is_stream, read_blocks, same_file
from phrasescore.models.checkpoint import CurvePoint, TrainingRecord
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import layer_settings
from phrasescore.settings.kinds import NetworkKind, find_kind, kind_names
from phrasescore.settings.training import NewNetwork, UnfinishedRun
from phrasescore.training.likelihood import PairRun
from phrasescore.training.loop import TrainingProgress
from phrasescore.training.ranks import device_of_rank, local_ranks
from phrasescore.training.run import TrainingRun, train_model
from phrasescore.training.run_folder import RunFolder
from phrasescore.training.verdict import judge
from phrasescore.vocabulary import CHARACTERS
from phrasescore.workflows.training_pairs import read_training_pairs

_logger = logging.getLogger(__name__)

_TABLE_LINES = 40  # lines of a phrase table for each sentence pair: 19 to 90, and more per word


def train(
    kind: str,
    inputs: StrPath | Sequence[StrPath],
    output: StrPath,
    *,
    settings: NewNetwork = NewNetwork(),
    alignments: StrPath | None = None,
    state: UnfinishedRun = UnfinishedRun(),
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> TrainingRecord:
    """Train a network and write its model folder atomically.

    Training stops at the first limit that is reached, or when the perplexity of held-out pairs
    stops decreasing; the weights with the lowest perplexity are kept. A run that was stopped or
    killed can be continued with ``resume``; on a CPU, the result is the same to the last bit.
    Cho et al. (2014), section 2.

    If torchrun starts several processes that call this function, each batch is divided among them.
    All need the same folders and inputs; the first process writes.

    :param kind: the kind of network, a key of `phrasescore.settings.kinds.KINDS`.
    :param inputs: the two files of a parallel text, a phrase table for an encoder-decoder, or one
        or more texts for a language model. At most one file may be ``-``, which is stdin.
    :param output: the model folder to write.
    :param alignments: the word alignment of the parallel text, ``0-0 1-2`` per line; for a joint
        model.
    :param compute: the device and the threads; by default all usable threads, divided among the
        processes.
    :raises StoppedError: if SIGINT or SIGTERM stopped the run; its state is kept.
    :raises PhrasescoreError: if a folder is in the way, or belongs to a different run.
    """
    names = [inputs] if isinstance(inputs, str | os.PathLike) else inputs
    paths = tuple(os.fspath(name) for name in names)
    aligned = optional_path(alignments)
    reverse, right_to_left = settings.reverse, settings.right_to_left
    compute.check_only("device", "threads")
    network = find_kind(kind)
    _check_arguments(network, paths, aligned, settings)
    paths = paths if aligned is None else (*paths, aligned)
    model, work = model_folders(output)
    stored = RunFolder(work).settings() if state.resume else None
    changes = settings.all_changes()
    subwords = CHARACTERS if settings.characters else settings.subwords
    if subwords is not None:
        changes.append(f"vocabulary.subwords={subwords}")
    config = optional_path(settings.config)
    preset = settings.preset
    if preset is None and config is None and stored is None:
        preset = network.preset_for(_count_pairs(paths))
    layered = layer_settings(network, preset, config, changes, stored)
    if layered.vocabulary.subwords and network.is_aligned:
        problem = f"--subwords: {kind} predicts aligned words, but subwords have no alignment"
        raise ArgumentError(problem)
    if layered.training.subword_dropout > 0 and not layered.vocabulary.subwords:
        raise ArgumentError(
            "training.subword_dropout needs --subwords: this network's shortlists hold whole words"
        )
    if state.resume and stored is None and not model.exists():
        # A run that ended while it was reading its input has left no settings.
        _logger.info("%s: no unfinished run found; starting a new one", work)
    run = PairRun(
        inputs=paths,
        read=lambda: read_training_pairs(network, paths, progress),
        model=model,
        work=work,
        config=layered,
        device=device_of_rank(compute.device),
        reverse=reverse,
        right_to_left=right_to_left,
        keep_work=state.keep_work,
    )
    return run_training(run, state, compute, progress)


def _count_pairs(paths: tuple[str, ...]) -> int:
    """Return the number of sentence pairs in files, about that for a table; 0 for a stream."""
    if is_stream(paths[0]):
        return 0
    lines = sum(map(count_lines, read_blocks(paths[0])))
    return lines if len(paths) > 1 else lines // _TABLE_LINES


def run_training(
    run: TrainingRun, state: UnfinishedRun, compute: Compute, progress: ProgressCallback | None
) -> TrainingRecord:
    """Train, log the results, and return the record of the model."""
    curve: list[CurvePoint] = []
    threads = compute.threads or max(1, usable_threads(None) // local_ranks())
    with torch_threads(threads), Meter("train", "updates", progress) as meter:
        record = train_model(
            run,
            resume=state.resume,
            begin=meter.begin,
            report=lambda now: report_update(meter, now, curve),
        )
    _logger.info("%s: %s", run.model, record.summary())
    if verdict := judge(record):
        _logger.info("%s", verdict)
    return record


def check_alignments(kind: NetworkKind, alignments: str | None) -> None:
    """Reject a missing word alignment, and one that the kind does not use."""
    if kind.is_aligned and alignments is None:
        problem = "--alignments is missing: the word alignment of source and target"
        raise ArgumentError(f"{kind.name} is trained on aligned text: {problem}")
    if not kind.is_aligned and alignments is not None:
        names = ", ".join(kind_names(is_aligned=True))
        raise ArgumentError(f"--alignments can only be used with {names}, not with {kind.name}")


def _check_arguments(
    kind: NetworkKind, inputs: tuple[str, ...], alignments: str | None, settings: NewNetwork
) -> None:
    check_files((*inputs, alignments), ())
    if not kind.reads_source:
        if settings.reverse:
            raise ArgumentError(f"{kind.name} reads no source: it cannot have --reverse")
    elif len(inputs) not in (1, 2):
        problem = f"expected a phrase table or two files of parallel text, got {len(inputs)} files"
        raise ArgumentError(problem)
    elif len(inputs) == 1 and not kind.scores_phrases:
        problem = f"{kind.name} is trained on parallel text: name two files, SOURCE and TARGET"
        raise ArgumentError(problem)
    elif len(inputs) == 2 and same_file(*inputs):
        problem = "SOURCE and TARGET are the same file: expected a text and a translation"
        raise ArgumentError(problem)
    if kind.is_feed_forward and settings.right_to_left:
        raise ArgumentError(f"--right-to-left: {kind.name} predicts from left to right only")
    check_alignments(kind, alignments)
    if kind.is_aligned and settings.reverse:
        raise ArgumentError(f"{kind.name} predicts only the target: it cannot have --reverse")


def report_update(meter: Meter, now: TrainingProgress, curve: list[CurvePoint]) -> None:
    """Count an update; add a new point to the curve, and log it."""
    if now.is_validating:
        meter.show("validating")
        return
    meter.skipped, meter.share = now.update - meter.done - 1, now.share
    note = f"loss {now.loss:.3f}, epoch {now.epochs:.2f}, {now.words_per_second:,.0f} words/s"
    meter.update(1, note)
    point = now.latest
    if point is not None and curve[-1:] != [point]:
        # The last point before the run was resumed is not logged again.
        is_news = bool(curve) or point.update >= now.update - 1
        curve.append(point)
        if is_news and point.quality():
            done = f"update {point.update:,}, {point.minutes:.1f} minutes"
            _logger.info(f"{done}: loss {point.training_loss:.3f}, {point.quality()}")
