"""Tune on existing n-best lists, or on the files that Moses' extractor made of them."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from moses_integration.ini_text import named_files
from moses_integration.moses_ini import MosesIni, WeightsSource, load_weights, weights_path
from moses_integration.tuning_files import (
    read_start_weights,
    write_features,
    write_scores,
    write_start_weights,
)
from moses_integration.weight_lines import check_weights, is_sparse
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError
from phrasescore.evaluation.sentences import find_references
from phrasescore.io.output import check_files, check_output
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import WeightPair
from phrasescore.report.tuning import MethodRow, ReplicaRow, TuneReport
from phrasescore.settings.compute import Compute
from phrasescore.settings.tuning import ListTuning, ListTuningFiles
from phrasescore.signals import EndedBySignal
from phrasescore.workflows.tune.optimiser import Optimiser, read_metric
from phrasescore.workflows.tune.outcome import (
    OutputFiles,
    feature_rows,
    with_contributions,
    write_ini,
)
from phrasescore.workflows.tune.pooling import ListReader, read_extracted, some_names
from tuning.methods import Tuned, load_method
from tuning.methods import cross_validate as validate
from tuning.metrics import CorpusBleu, Metric
from tuning.pool import Pool, Vector, named_weights, weights_vector
from tuning.settings import METHODS

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TuneOutcome:
    """The weights found on n-best lists."""

    weights: Mapping[str, tuple[float, ...]]
    report: TuneReport


def tune(
    lists: Sequence[StrPath],
    references: Sequence[StrPath],
    start: WeightsSource | None,
    output: StrPath | None = None,
    *,
    settings: ListTuning = ListTuning(),
    features: Sequence[StrPath] = (),
    scores: Sequence[StrPath] = (),
    ifile: StrPath | None = None,
    files: ListTuningFiles = ListTuningFiles(),
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> TuneOutcome:
    """Find feature weights that raise a metric on n-best lists of a development set.

    The weights are never worse on the lists than the start. The same seed gives the same bits, with
    any number of threads. All files are written at the end, whole or not at all. After Ctrl-C or
    SIGTERM the best weights so far are written, before the signal is raised.

    :param lists: n-best lists in Moses' format; the lists of several files are pooled.
    :param references: the references, one line per sentence; ``NAME`` may stand for ``NAME0``,
        ``NAME1`` and so on, as in mert-moses.pl.
    :param start: the weights that the lists were made with: a file or values; None for the
        weights of ``moses_ini`` or ``ifile``. Features without a weight start at 0.
    :param output: the file for the weights, as ``Name= value`` lines.
    :param features: files of Moses' extractor instead of lists and references.
    :param scores: the extractor's files of statistics.
    :param ifile: start weights in the format of Moses' mert.
    :param compute: the number of threads.
    :param progress: counts steps of the method: starts, epochs or iterations.
    :raises ArgumentError: if arguments do not go together, or a number is too low.
    :raises DataError: if a file is malformed.
    :raises KeyboardInterrupt: after Ctrl-C.
    """
    metrics, seed = settings.metric_weights, settings.seed
    compute.check_only("threads")
    check_sequences(lists=lists, references=references)
    check_sequences(features=features, scores=scores)
    if bool(lists) == bool(features or scores):
        raise ArgumentError("give one of n-best lists and --features with --scores")
    if len(features) != len(scores):
        raise ArgumentError("--features and --scores come in pairs")
    if features:
        _check_extracted(references, metrics, settings.reference_length)
    elif not references:
        raise ArgumentError("--references is needed")
    if start is None and ifile is None and files.moses_ini is None:
        problem = "give the weights that the lists were made with, to start from"
        raise ArgumentError(f"{problem}: --weights, or --moses-ini")
    if ifile is not None and (start is not None or not features):
        raise ArgumentError("--ifile goes with --features, in place of --weights")
    if files.moses_ini_out is not None and files.moses_ini is None:
        raise ArgumentError("--moses-ini-out needs the --moses-ini to change")
    if (files.features_out is None) != (files.scores_out is None):
        raise ArgumentError("--features-out and --scores-out come in pairs")
    if files.features_out is not None and set(metrics) != {"bleu"}:
        raise ArgumentError("--features-out goes with n-best lists and the metric bleu")
    if settings.allow_missing and not lists:
        raise ArgumentError("--allow-missing goes with n-best lists")
    outputs = OutputFiles(output, files)
    inputs = (*lists, *references, *features, *scores, ifile, files.moses_ini, weights_path(start))
    outputs.check(_paths(*inputs), files.features_out, files.scores_out, files.ifile_out)
    optimiser = Optimiser(settings, compute.threads)
    ini = None if files.moses_ini is None else MosesIni.read(os.fspath(files.moses_ini))
    if ini is not None:
        outputs.check([*map(str, named_files(ini))])
    metric: Metric
    if features:
        metric, pool = CorpusBleu(), read_extracted(_paths(*features), _paths(*scores))
    else:
        paths = find_references(references)
        metric, words = read_metric(paths, metrics, settings.reference_length)
        reader = ListReader(metric, words)
        pool = reader.read_all(_paths(*lists), allow_missing=settings.allow_missing)
    if ini is not None and files.moses_ini_out is not None:
        ini.check_writable(os.fspath(files.moses_ini_out), [label.name for label in pool.labels])
    if ifile is not None:
        where = os.fspath(ifile)
        first = read_start_weights(where, pool.num_features)
    else:
        first, where = _start_vector(start, ini, pool)
    check_weights(named_weights(first, pool.labels), where)
    size = f"{pool.num_segments:,} sentences, {len(pool.stats):,} hypotheses"
    _logger.info("%s, %d weights", size, pool.num_features)
    methods: tuple[MethodRow, ...] = ()
    with Meter("tune", "steps", progress) as meter:

        def count_step(line: str) -> None:
            _logger.debug("%s", line)
            meter.update(note=line)

        optimiser.report = count_step
        if settings.cross_validate is not None:
            methods = _compare_methods(
                settings.cross_validate, optimiser, pool, metric, first, seed
            )
        found, notes, rows = _replicate(settings.replicas, optimiser, pool, metric, first, seed)
    features_found = feature_rows(pool, first, found)
    cut_short: BaseException | None = None
    try:
        if files.report is not None:
            features_found = with_contributions(features_found, pool, metric, found)
    except (KeyboardInterrupt, EndedBySignal) as error:
        cut_short = error  # the weights are found; only single features were not looked at
    if files.features_out is not None and files.scores_out is not None:
        write_features(os.fspath(files.features_out), pool.labels, pool.features, pool.starts)
        write_scores(os.fspath(files.scores_out), pool.stats, pool.starts)
    if files.ifile_out is not None:
        dense = [at for at, label in enumerate(pool.labels) if not is_sparse(label.name)]
        write_start_weights(os.fspath(files.ifile_out), found[dense])
    weights = named_weights(found, pool.labels)
    made = TuneReport(
        *(settings.method, metric.name, seed, pool.num_segments, len(pool.stats)),
        *(100 * pool.score(metric, first), 100 * pool.score(metric, found)),
        features=features_found,
        notes=notes,
        replicas=rows,
        cross_validation=methods,
    )
    outputs.write(WeightPair(weights, weights), made, ini)
    if cut_short is not None:
        raise cut_short
    if optimiser.stopped:
        optimiser.raise_stop()
    return TuneOutcome(weights, made)


def merge_weights(weights: StrPath, moses_ini: StrPath, moses_ini_out: StrPath) -> None:
    """Write a moses.ini with the weights of a file, or the search's weights of two sets.

    :raises DataError, ConfigError: if a file is malformed.
    """
    output = os.fspath(moses_ini_out)
    check_output(output)
    check_files(_paths(weights, moses_ini), [output])
    ini = MosesIni.read(os.fspath(moses_ini))
    merged = load_weights(weights).search
    check_weights({**ini.tuneable_weights(), **merged}, os.fspath(weights))
    write_ini(ini, merged, output)


def _paths(*paths: StrPath | None) -> list[str]:
    return [os.fspath(path) for path in paths if path is not None]


def _check_extracted(
    references: Sequence[StrPath], metrics: Mapping[str, float], reference_length: str
) -> None:
    if references:
        raise ArgumentError("--references goes with n-best lists: --scores is made with them")
    if set(metrics) != {"bleu"} or reference_length != "closest":
        problem = "--metric and --reference-length go with n-best lists"
        raise ArgumentError(f"{problem}: the statistics in --scores are made already")


def _start_vector(
    start: WeightsSource | None, ini: MosesIni | None, pool: Pool
) -> tuple[Vector, str]:
    """Return the start weight of each feature value, and the weights' origin."""
    if start is None:
        assert ini is not None
        where, weights = ini.path, ini.tuneable_weights()
    else:
        where, weights = weights_path(start) or "the start weights", load_weights(start).lists
    check_weights(weights, where)
    vector = weights_vector(weights, pool.labels, where)
    names = dict.fromkeys(label.name for label in pool.labels)
    if missing := [name for name in names if name not in weights]:
        _logger.info("without a weight in %s, and so from 0: %s", where, some_names(missing))
    if unused := sorted(weights.keys() - names.keys()):
        _logger.warning("no list has these features of %s: %s", where, some_names(unused))
    return vector, where


def _replicate(
    replicas: int, optimiser: Optimiser, pool: Pool, metric: Metric, start: Vector, seed: int
) -> tuple[Vector, tuple[str, ...], tuple[ReplicaRow, ...]]:
    """Return the weights found, averaged over the replicas, with notes and a row per replica.

    An average may be worse than its parts; where it is worse than the start, the weights of the
    best replica are returned. After Ctrl-C there are no more replicas, and the one that was stopped
    counts only if there is no other.
    """
    runs: list[Tuned] = []
    for number in range(seed, seed + replicas):
        tuned = optimiser(pool, metric, start, number)
        if not optimiser.stopped or not runs:
            runs.append(tuned)
        if optimiser.stopped:
            break
    notes = list(dict.fromkeys(note for tuned in runs for note in tuned.notes))
    if replicas == 1:
        return runs[0].weights, tuple(notes), ()
    rows = tuple(ReplicaRow(tuned.seed, 100 * tuned.score) for tuned in runs)
    scores = np.array([tuned.score for tuned in runs])
    deviation = float(scores.std(ddof=1)) if len(scores) > 1 else 0.0
    # Their mean is mostly as good as the best, and steadier (Clark et al., 2011, Better Hypothesis
    # Testing for Statistical Machine Translation: Controlling for Optimizer Instability).
    average = np.mean([tuned.weights for tuned in runs], axis=0)
    average_score = pool.score(metric, average)
    spread = f"mean {100 * float(scores.mean()):.2f} ± {100 * deviation:.2f}"
    of_average = f"average of the weights {100 * average_score:.2f}"
    notes.append(f"{len(runs)} replicas: {spread}, {of_average}")
    _logger.info("%s", notes[-1])
    best = max(runs, key=lambda tuned: tuned.score)
    if average_score >= best.start_score:
        return average, tuple(notes), rows
    notes.append(f"the average is worse than the start: seed {best.seed} is taken, the best")
    _logger.warning("%s", notes[-1])
    return best.weights, tuple(notes), rows


def _compare_methods(
    parts: int, optimiser: Optimiser, pool: Pool, metric: Metric, start: Vector, seed: int
) -> tuple[MethodRow, ...]:
    """Return the scores of each method on held-out sentences."""
    found = validate(
        {name: load_method(name) for name in sorted(METHODS)},
        pool,
        metric,
        start,
        optimiser.settings(pool.labels),
        num_folds=parts,
        seed=seed,
        report=optimiser.report,
    )
    start_score = pool.score(metric, start)
    scores = {"start": (start_score, start_score), **found}
    rows = [MethodRow(name, 100 * tuned, 100 * held) for name, (tuned, held) in scores.items()]
    for row in rows:
        said = f"{row.tuned_on:.2f} where tuned, {row.held_out:.2f} held out"
        _logger.info("cross-validation: %s: %s", row.method, said)
    return tuple(rows)
