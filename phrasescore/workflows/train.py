"""Train a network on a phrase table or text, or fine-tune one on n-best lists."""

import logging
import os
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from moses_integration.alignments import affiliate_sentence, parse_links
from moses_integration.moses_ini import WeightsSource, load_weights, weights_path
from moses_integration.phrase_table import read_phrase_table
from moses_integration.table_line import joint_count
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.devices import torch_threads, usable_threads
from phrasescore.errors import ArgumentError, DataError, ModelError, shown_path
from phrasescore.evaluation.sentences import find_references
from phrasescore.features.model import network_name
from phrasescore.io.corpora import check_no_marks, read_monolingual_text, read_parallel_text
from phrasescore.io.folders import model_folders
from phrasescore.io.output import check_files, optional_path
from phrasescore.io.text import read_lines, same_file
from phrasescore.models.checkpoint import CurvePoint, TrainingRecord, load_checkpoint
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import PhrasePair
from phrasescore.settings import old_names
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import fine_tuning_settings, layer_settings
from phrasescore.settings.kinds import KINDS, NetworkKind, kind_names, meant_kind
from phrasescore.settings.toml_file import unknown
from phrasescore.settings.training import ListTraining, NewNetwork, UnfinishedRun
from phrasescore.training.expected_bleu import ExpectedBleu, ListRun
from phrasescore.training.likelihood import PairRun
from phrasescore.training.loop import TrainingProgress
from phrasescore.training.pair_store_writer import CountedPair
from phrasescore.training.ranks import device_of_rank, local_ranks
from phrasescore.training.run import TrainingRun, train_model
from phrasescore.training.run_folder import RunFolder
from phrasescore.training.verdict import judge_model
from phrasescore.vocabulary import CHARACTERS
from phrasescore.workflows.training_lists import find_feature, read_training_lists

_logger = logging.getLogger(__name__)


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
        text for a language model. At most one file may be ``-``, which is stdin.
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
    network = KINDS.get(kind)
    if network is None:
        problem = old_names.renamed("kind", kind, old_names.KINDS) or unknown(
            "kind of network", meant_kind(kind), KINDS
        )
        raise ArgumentError(f"KIND: {problem}")
    _check_arguments(network, paths, aligned, settings)
    paths = paths if aligned is None else (*paths, aligned)
    model, work = model_folders(output)
    stored = RunFolder(work).settings() if state.resume else None
    changes = [*settings.changes]
    subwords = CHARACTERS if settings.characters else settings.subwords
    if subwords is not None:
        changes.append(f"vocabulary.subwords={subwords}")
    config = optional_path(settings.config)
    layered = layer_settings(network, settings.preset, config, changes, settings.limits(), stored)
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
        read=lambda: _read(network, paths, progress),
        model=model,
        work=work,
        config=layered,
        device=device_of_rank(compute.device),
        reverse=reverse,
        right_to_left=right_to_left,
        keep_work=state.keep_work,
    )
    return _run_training(run, state, compute, progress)


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
    and the other features' weights are fixed. Some lists are held out. If a validation raises their
    expected BLEU, the network is kept; otherwise the best one is restored and the learning rate is
    halved. Gao et al. (2014), section 4; Auli and Gao (2014), section 4.

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
    _check_alignments(start.config.network, aligned)
    known, where = load_weights(weights).lists, weights_path(weights) or "the weights"
    prefix = network_name(found, reverse=start.reverse, right_to_left=start.right_to_left)
    name = settings.feature or f"{prefix}0"
    known = old_names.weights_for([name], known, where)
    own = find_feature(known, name, where)
    stored = RunFolder(work).settings() if state.resume else None
    run = ListRun(
        start=start,
        feature=name,
        objective=ExpectedBleu(own.weight, settings.likelihood),
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
        config=fine_tuning_settings(start.config, settings.changes, settings.limits(), stored),
        device=device_of_rank(compute.device),
        keep_work=state.keep_work,
    )
    return _run_training(run, state, compute, progress)


def _run_training(
    run: TrainingRun, state: UnfinishedRun, compute: Compute, progress: ProgressCallback | None
) -> TrainingRecord:
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
    for found in judge_model(run.config.kind, run.model, record, len(run.inputs)):
        _logger.log(logging.WARNING if found.is_bad else logging.INFO, "%s", found.text)
    return record


def _check_alignments(kind: NetworkKind, alignments: str | None) -> None:
    if kind.is_aligned and alignments is None:
        problem = "--alignments is missing: the word alignment of source and target"
        raise ArgumentError(f"{kind.name} is trained on aligned text: {problem}")
    if not kind.is_aligned and alignments is not None:
        names = ", ".join(kind_names(is_aligned=True))
        raise ArgumentError(f"--alignments can only be used with {names}, not with {kind.name}")


def _check_arguments(
    kind: NetworkKind,
    inputs: tuple[str, ...],
    alignments: str | None,
    settings: NewNetwork,
) -> None:
    """Reject inputs that this kind cannot learn from, and options that cannot be combined."""
    check_files((*inputs, alignments), ())
    if not kind.reads_source:
        if len(inputs) != 1:
            raise ArgumentError(f"{kind.name} is trained on one text, got {len(inputs)} files")
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
    _check_alignments(kind, alignments)
    if kind.is_aligned and settings.reverse:
        raise ArgumentError(f"{kind.name} predicts only the target: it cannot have --reverse")


def _read(
    kind: NetworkKind, inputs: tuple[str, ...], progress: ProgressCallback | None
) -> Iterator[CountedPair]:
    """Yield pairs and counts from a table or from text; a single text has no sources."""
    with Meter("read", "lines", progress, lines_of=inputs[0]) as meter:
        if not kind.reads_source:
            for text in meter.track(read_monolingual_text(inputs[0], refuse_marks=True)):
                yield CountedPair(text.raw, PhrasePair._make(((), text.words)), 1.0)
        elif len(inputs) == 1:
            for line in meter.track(read_phrase_table(inputs[0])):
                for words in line.pair if b"s>" in line.raw else ():
                    check_no_marks(inputs[0], line.number, line.raw, words)
                yield CountedPair(line.raw, line.pair, joint_count(line.raw))
        elif kind.is_aligned:
            yield from meter.track(_read_aligned_text(*inputs))
        else:
            for sentence in meter.track(read_parallel_text(*inputs)):
                yield CountedPair(sentence.raw, sentence.pair, 1.0)


def report_update(meter: Meter, now: TrainingProgress, curve: list[CurvePoint]) -> None:
    """Count an update; add a new point to the curve, and log it."""
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


def _read_aligned_text(source: str, target: str, alignments: str) -> Iterator[CountedPair]:
    """Yield each sentence with its translation and its affiliations."""
    text = read_parallel_text(source, target)
    for number, (sentence, line) in enumerate(zip_longest(text, read_lines(alignments)), start=1):
        if sentence is None or line is None:
            ended, other = (source, alignments) if sentence is None else (alignments, source)
            wanted = f"expected as many lines as {shown_path(other)} has"
            raise DataError(ended, number, f"{wanted}, found the end of the file")
        num_words = len(sentence.pair.source)
        linked = parse_links(line, num_words, len(sentence.pair.target), alignments, number)
        raw = b"%b\n%b" % (sentence.raw, line)
        yield CountedPair(raw, sentence.pair, 1.0, affiliate_sentence(linked, num_words))
