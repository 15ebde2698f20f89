"""Fine-tune a network on n-best lists."""

import os
from collections.abc import Sequence

from moses_integration.moses_ini import WeightsSource, load_weights, weights_path
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError, ModelError
from phrasescore.evaluation.sentences import find_references
from phrasescore.features.model import network_name
from phrasescore.io.folders import model_folders
from phrasescore.io.output import check_files, optional_path
from phrasescore.models.checkpoint import FineTuning, TrainingRecord, load_checkpoint
from phrasescore.progress import ProgressCallback
from phrasescore.settings import old_names
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import fine_tuning_settings
from phrasescore.settings.training import ListTraining, UnfinishedRun
from phrasescore.training.expected_bleu import ListRun
from phrasescore.training.ranks import device_of_rank
from phrasescore.training.run_folder import RunFolder
from phrasescore.workflows.train import check_alignments, run_training
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
) -> TrainingRecord:
    """Fine-tune a network to increase the expected BLEU of its log-linear model.

    The gradient of the expected sentence BLEU on n-best lists changes only the network: its weight
    and the other features' weights are fixed. Some lists are held out, and the network with which
    they had the highest expected BLEU is kept. Gao et al. (2014), section 4; Auli and Gao (2014),
    section 4.

    :param lists: n-best lists for all sentences; the lists in several files are concatenated. No
        table, language model or network should have been trained on these sentences. An
        encoder-decoder requires lists with the phrase segmentation, and a joint model lists with
        word alignments; `translate` writes both.
    :param source: the tokenised sentences, one per line.
    :param references: their translations; ``NAME`` may stand for ``NAME0``, ``NAME1`` and so on.
    :param weights: all weights of the log-linear model, including the network's: a file or values.
    :param output: the model folder to write.
    :param alignments: word alignments between the sentences and their first references,
        ``0-0 1-2`` per line; for a joint model.
    :param kind: the expected kind of the network; None for any.
    :raises StoppedError: if SIGINT or SIGTERM stopped the run; its state is kept.
    :raises PhrasescoreError: if a folder is in the way or belongs to a different run, or if the
        network has no weight.
    """
    check_sequences(lists=lists, references=references)
    compute.check_only("device", "threads")
    if not lists or not references:
        raise ArgumentError("--lists and --references are both required")
    paths = [os.fspath(path) for path in lists]
    texts = [os.fspath(source), *find_references(references)]
    aligned = optional_path(alignments)
    named = (*paths, *texts, aligned, weights_path(weights))
    files = tuple(path for path in named if path is not None)
    check_files(files, ())
    folder, work = model_folders(output)
    start = load_checkpoint(model)
    found = start.config.kind
    if kind not in (None, found):
        raise ModelError(f"{os.fspath(model)}: expected a model of the kind {kind}, found {found}")
    check_alignments(start.config.network, aligned)
    known, where = load_weights(weights).lists, weights_path(weights) or "the weights"
    prefix = network_name(found, reverse=start.reverse, right_to_left=start.right_to_left)
    name = settings.feature or f"{prefix}0"
    known = old_names.weights_for([name], known)
    own = find_feature(known, name, where)
    stored = RunFolder(work).settings() if state.resume else None
    run = ListRun(
        start=start,
        tuning=FineTuning(  # the run counts the lists, and chooses the scale
            "bleu", start.fingerprint, 0, 0, name, own.weight, 0.0, settings.likelihood
        ),
        inputs=files,
        read=lambda: read_training_lists(
            paths,
            texts[0],
            texts[1:],
            known,
            own,
            start,
            alignments=aligned,
            where=where,
            progress=progress,
        ),
        model=folder,
        work=work,
        config=fine_tuning_settings(start.config, settings.all_changes(), stored),
        device=device_of_rank(compute.device),
        keep_work=state.keep_work,
    )
    return run_training(run, state, compute, progress)
