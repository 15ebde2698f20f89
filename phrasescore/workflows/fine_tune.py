"""Train a network further, for the expected BLEU of n-best lists."""

import os
from collections.abc import Sequence

from moses_integration.moses_ini import WeightsSource, load_weights, weights_path
from phrasescore.arguments import (
    StrPath,
    check_positive,
    check_sequences,
)
from phrasescore.errors import ArgumentError, ModelError
from phrasescore.evaluation.sentences import find_references
from phrasescore.features import network_name
from phrasescore.io.output import check_files, optional_path
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.progress import ProgressCallback
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import fine_tuning_settings
from phrasescore.settings.training import ListTraining, UnfinishedRun
from phrasescore.training.objectives import ExpectedBleu, ListRun
from phrasescore.training.ranks import device_of_rank
from phrasescore.training.run_folder import RunFolder
from phrasescore.workflows.train import (
    TrainSummary,
    check_alignments,
    run_folders,
    run_training,
)
from phrasescore.workflows.training_lists import find_feature, read_training_lists


def fine_tune(
    model: StrPath,
    lists: Sequence[StrPath],
    source: StrPath,
    references: Sequence[StrPath],
    weights: WeightsSource,
    output: StrPath,
    *,
    alignments: StrPath | None = None,
    kind: str | None = None,
    settings: ListTraining = ListTraining(),
    state: UnfinishedRun = UnfinishedRun(),
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> TrainSummary:
    """Fine-tune a network so that the log-linear model with it has a higher expected BLEU.

    The gradient of the expected sentence BLEU of n-best lists changes only the network: its weight
    and the other features' weights stay. Some lists are held out. A validation that raises their
    expected BLEU keeps the network; otherwise the best one is restored and the learning rate is
    halved. Gao et al. (2014), section 4; Auli and Gao (2014), section 4.

    :param model: the folder of a trained network.
    :param lists: n-best lists of all sentences, which no table, language model or network should
        have learned from; the lists of several files follow one another. An encoder-decoder needs
        their segmentation into phrases, and a joint model their word alignments; `decode` writes
        both.
    :param source: the sentences, tokenised, one per line.
    :param references: their translations; ``NAME`` may stand for ``NAME0``, ``NAME1`` and so on.
    :param weights: all weights of the log-linear model, the network's included: a file or values.
    :param output: the folder to make.
    :param alignments: word alignments of the sentences and their first references, ``0-0 1-2`` per
        line; for a joint model.
    :param kind: the expected kind of the network; None for any.
    :raises StoppedError: if SIGINT or SIGTERM stopped the run; its state is kept.
    :raises DataError: if a file is malformed, or belongs to other sentences.
    :raises PhrasescoreError: if a folder is in the way, the run to resume is another one, or the
        network has no weight.
    """
    check_sequences(lists=lists, references=references)
    check_positive(epochs=settings.epochs, minutes=settings.minutes)
    compute.check_only("device", "threads")
    if not lists or not references:
        raise ArgumentError("--lists and --references are needed, at least one of each")
    paths = [os.fspath(path) for path in lists]
    texts = [os.fspath(source), *find_references(references)]
    aligned = optional_path(alignments)
    named = (*paths, *texts, aligned, weights_path(weights))
    files = tuple(path for path in named if path is not None)
    check_files(files, ())
    folder, work = run_folders(output, state.work_dir)
    start = load_checkpoint(model)
    found = start.config.kind
    if kind not in (None, found):
        raise ModelError(f"{os.fspath(model)}: expected a model of the kind {kind}, found {found}")
    check_alignments(start.config.network, aligned)
    known, where = load_weights(weights).lists, weights_path(weights) or "the weights"
    prefix = network_name(found, reverse=start.reverse, right_to_left=start.right_to_left)
    name = settings.feature or f"{prefix}0"
    own = find_feature(known, name, where)
    stored = RunFolder(work).settings() if state.resume else None
    run = ListRun(
        start=start,
        feature=name,
        objective=ExpectedBleu(own.weight, settings.likelihood),
        inputs=files,
        read=lambda: read_training_lists(
            *(paths, texts[0], texts[1:], known, own, start),
            alignments=aligned,
            where=where,
            progress=progress,
        ),
        model=folder,
        work=work,
        config=fine_tuning_settings(start.config, settings.changes, settings.limits(), stored),
        device=device_of_rank(compute.device),
        keep_work=state.keep_work,
    )
    return run_training(run, resume=state.resume, threads=compute.threads, progress=progress)
