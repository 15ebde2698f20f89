"""Tune on existing n-best lists, or on the files that Moses' extractor made from them."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from moses_integration import tuning_files
from moses_integration.ini_text import named_files
from moses_integration.moses_ini import MosesIni, WeightsSource, load_weights, weights_path
from moses_integration.weight_lines import check_weights, is_sparse
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError, some_names
from phrasescore.evaluation.sentences import find_references
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import WeightPair
from phrasescore.report.tuning import MethodRow, ReplicaRow, TuneReport
from phrasescore.settings.compute import Compute
from phrasescore.settings.tuning import ListTuning, ListTuningFiles
from phrasescore.signals import EndedBySignal
from phrasescore.workflows.tune import outcome
from phrasescore.workflows.tune.optimiser import ListReader, Optimiser, read_extracted, read_metric
from tuning.methods import Tuned, load_method
from tuning.methods import cross_validate as validate
from tuning.metrics import CorpusBleu, Metric
from tuning.pool import Pool, Vector, named_weights, weights_vector
from tuning.settings import METHODS

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TuneOutcome:
    """The best weights from tuning on n-best lists."""

    weights: Mapping[str, tuple[float, ...]]
    report: TuneReport

    def __repr__(self) -> str:
        """Return the report as text."""
        return self.report.to_text()


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
    """Find feature weights that increase a metric on n-best lists for a development set.

    On the lists, the weights are never worse than the start weights. The same seed gives the same
    bits with any number of threads. All files are written at the end. After Ctrl-C or SIGTERM the
    best weights so far are written before the signal is raised.

    :param lists: n-best lists in Moses' format; the lists in several files are pooled.
    :param references: the references, one line per sentence; ``NAME`` may stand for ``NAME0``,
        ``NAME1`` and so on, as in mert-moses.pl.
    :param start: the weights with which the lists were made: a file or values; None for the
        weights in ``moses_ini`` or ``ifile``. Features without a weight start at 0.
    :param output: the file for the weights, as ``Name= value`` lines.
    :param features: feature files from Moses' extractor, instead of lists and references.
    :param scores: the extractor's files with statistics.
    :param ifile: start weights in the format of Moses' mert.
    :param compute: the number of threads.
    :param progress: counts the method's steps: starts, epochs or iterations.
    :raises KeyboardInterrupt: after Ctrl-C.
    """
    metrics, seed = settings.metric_weights, settings.seed
    compute.check_only("threads")
    check_sequences(lists=lists, references=references)
    check_sequences(features=features, scores=scores)
    if bool(lists) == bool(features or scores):
        raise ArgumentError("give either n-best lists, or --features with --scores")
    if len(features) != len(scores):
        raise ArgumentError("--features and --scores must be given in pairs")
    if features and references:
        raise ArgumentError(
            "--references can only be used with n-best lists: --scores was made with references"
        )
    if features and (set(metrics) != {"bleu"} or settings.reference_length != "closest"):
        raise ArgumentError(
            "--metric and --reference-length require n-best lists: --scores has the statistics"
        )
    if not features and not references:
        raise ArgumentError("--references is required")
    if start is None and ifile is None and files.moses_ini is None:
        problem = "give the weights with which the lists were made, to start from:"
        raise ArgumentError(f"{problem} --weights or --moses-ini")
    if ifile is not None and (start is not None or not features):
        raise ArgumentError("--ifile requires --features, and replaces --weights")
    if files.moses_ini_out is not None and files.moses_ini is None:
        raise ArgumentError("--moses-ini-out requires the --moses-ini to change")
    if (files.features_out is None) != (files.scores_out is None):
        raise ArgumentError("--features-out and --scores-out must be given together")
    if files.features_out is not None and set(metrics) != {"bleu"}:
        raise ArgumentError("--features-out requires the metric bleu")
    if settings.allow_missing and not lists:
        raise ArgumentError("--allow-missing requires n-best lists")
    outputs = [output, files.moses_ini_out, files.report]
    outputs += [files.features_out, files.scores_out, files.ifile_out]
    inputs = (*lists, *references, *features, *scores, ifile, files.moses_ini, weights_path(start))
    ini = None if files.moses_ini is None else MosesIni.read(os.fspath(files.moses_ini))
    named = () if ini is None else map(str, named_files(ini))
    outcome.check_outputs([*_paths(*inputs), *named], *outputs)
    optimiser = Optimiser(settings, compute.threads)
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
        first = tuning_files.read_start_weights(where, pool.num_features)
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
    features_found = outcome.feature_rows(pool, first, found)
    cut_short: BaseException | None = None
    try:
        if files.report is not None:
            features_found = outcome.with_contributions(features_found, pool, metric, found)
    except (KeyboardInterrupt, EndedBySignal) as error:
        cut_short = error  # only the report's details about each feature are missing
    if files.features_out is not None and files.scores_out is not None:
        tuning_files.write_features(
            os.fspath(files.features_out), pool.labels, pool.features, pool.starts
        )
        tuning_files.write_scores(os.fspath(files.scores_out), pool.stats, pool.starts)
    if files.ifile_out is not None:
        dense = [not is_sparse(label.name) for label in pool.labels]
        tuning_files.write_start_weights(os.fspath(files.ifile_out), found[dense])
    weights = named_weights(found, pool.labels)
    report = TuneReport(
        settings.method,
        metric.name,
        seed,
        pool.num_segments,
        len(pool.stats),
        100 * pool.score(metric, first),
        100 * pool.score(metric, found),
        features=features_found,
        notes=notes,
        replicas=rows,
        cross_validation=methods,
    )
    outcome.write_outputs(output, files, WeightPair(weights, weights), report, ini)
    if cut_short is not None:
        raise cut_short
    if optimiser.stopped:
        optimiser.raise_stop()
    return TuneOutcome(weights, report)


def merge_weights(weights: StrPath, moses_ini: StrPath, moses_ini_out: StrPath) -> None:
    """Write a moses.ini with the weights in a file; if it has two sets, use the search's."""
    (output,) = outcome.check_outputs(_paths(weights, moses_ini), moses_ini_out)
    ini = MosesIni.read(os.fspath(moses_ini))
    merged = load_weights(weights).search
    check_weights({**ini.tuneable_weights(), **merged}, os.fspath(weights))
    outcome.write_ini(ini, merged, output)


def _paths(*paths: StrPath | None) -> list[str]:
    return [os.fspath(path) for path in paths if path is not None]


def _start_vector(
    start: WeightsSource | None, ini: MosesIni | None, pool: Pool
) -> tuple[Vector, str]:
    """Return the start weight for each feature value, and the origin of the weights."""
    if start is None:
        assert ini is not None
        where, weights = ini.path, ini.tuneable_weights()
    else:
        where, weights = weights_path(start) or "the start weights", load_weights(start).lists
    check_weights(weights, where)
    vector = weights_vector(weights, pool.labels, where)
    names = dict.fromkeys(label.name for label in pool.labels)
    if missing := [name for name in names if name not in weights]:
        _logger.info("features without a weight in %s start at 0: %s", where, some_names(missing))
    if unused := sorted(weights.keys() - names.keys()):
        _logger.warning("the lists lack these features of %s: %s", where, some_names(unused))
    return vector, where


def _replicate(
    replicas: int, optimiser: Optimiser, pool: Pool, metric: Metric, start: Vector, seed: int
) -> tuple[Vector, tuple[str, ...], tuple[ReplicaRow, ...]]:
    """Return the replicas' average weights, with notes and one row per replica.

    If the average is worse than the start, the weights of the best replica are returned instead.
    After Ctrl-C no further replica starts, and the stopped replica is used only if it is the first.
    """
    runs: list[Tuned] = []
    for number in range(seed, seed + replicas):
        tuned = optimiser(pool, metric, start, number)
        if not optimiser.stopped or not runs:
            runs.append(tuned)
            if replicas > 1:
                before, after = 100 * tuned.start_score, 100 * tuned.score
                _logger.info("seed %d: %s %.2f -> %.2f", number, metric.name, before, after)
        if optimiser.stopped:
            break
    notes = list(dict.fromkeys(note for tuned in runs for note in tuned.notes))
    if replicas == 1:
        return runs[0].weights, tuple(notes), ()
    rows = tuple(ReplicaRow(tuned.seed, 100 * tuned.score) for tuned in runs)
    scores = np.array([tuned.score for tuned in runs])
    deviation = float(scores.std(ddof=1)) if len(scores) > 1 else 0.0
    # The average is usually as good as the best weights, and more stable (Clark et al., 2011,
    # Better Hypothesis Testing for Statistical Machine Translation: Controlling for Optimizer
    # Instability).
    average = np.mean([tuned.weights for tuned in runs], axis=0)
    average_score = pool.score(metric, average)
    spread = f"mean {100 * float(scores.mean()):.2f} ± {100 * deviation:.2f}"
    notes.append(
        f"{len(runs)} seeds: {spread}; with the average of their weights {100 * average_score:.2f}"
    )
    _logger.info("%s", notes[-1])
    best = max(runs, key=lambda tuned: tuned.score)
    if average_score >= best.start_score:
        return average, tuple(notes), rows
    notes.append(f"the average is worse than the start: using the best, of seed {best.seed}")
    _logger.warning("%s", notes[-1])
    return best.weights, tuple(notes), rows


def _compare_methods(
    parts: int, optimiser: Optimiser, pool: Pool, metric: Metric, start: Vector, seed: int
) -> tuple[MethodRow, ...]:
    methods = {name: load_method(name) for name in sorted(METHODS)}
    settings, report = optimiser.settings(pool.labels), optimiser.report
    found = validate(
        methods, pool, metric, start, settings, num_folds=parts, seed=seed, report=report
    )
    start_score = pool.score(metric, start)
    scores = {"start": (start_score, start_score), **found}
    rows = [MethodRow(name, 100 * tuned, 100 * held) for name, (tuned, held) in scores.items()]
    for row in rows:
        text = "cross-validation: %s: %.2f where tuned, %.2f held out"
        _logger.info(text, row.method, row.tuned_on, row.held_out)
    return tuple(rows)
