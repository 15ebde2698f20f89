"""Tune on existing n-best lists."""

import logging
import os
from collections.abc import Sequence

from moses_integration.ini_text import named_files
from moses_integration.moses_ini import MosesIni, WeightsSource, load_weights, weights_path
from moses_integration.weight_lines import check_weights
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError, some_names
from phrasescore.evaluation.sentences import find_references
from phrasescore.evaluation.tune_report import TuneReport
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import WeightPair
from phrasescore.settings import old_names
from phrasescore.settings.compute import Compute
from phrasescore.settings.tuning import ListTuning, TuningFiles
from phrasescore.signals import EndedBySignal
from phrasescore.workflows.tune import outcome
from phrasescore.workflows.tune.optimiser import ListReader, Optimiser, read_metric
from tuning.pool import Pool, Vector, named_weights, weights_vector

_logger = logging.getLogger(__name__)


def tune(
    lists: Sequence[StrPath],
    references: Sequence[StrPath],
    start: WeightsSource | None,
    output: StrPath | None = None,
    *,
    settings: ListTuning = ListTuning(),
    files: TuningFiles = TuningFiles(),
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> outcome.TuneOutcome:
    """Find feature weights that increase a metric on n-best lists for a development set.

    On the lists, the weights are never worse than the start weights. The same seed gives the same
    bits with any number of threads. All files are written at the end. After Ctrl-C or SIGTERM the
    best weights so far are written before the signal is raised.

    :param lists: n-best lists in Moses' format; the lists in several files are pooled.
    :param references: the references, one line per sentence; ``NAME`` may stand for ``NAME0``,
        ``NAME1`` and so on, as in mert-moses.pl.
    :param start: the weights with which the lists were made: a file or values; None for the
        weights in ``moses_ini``. Features without a weight start at 0.
    :param output: the file for the weights, as ``Name= value`` lines.
    :param compute: the number of threads.
    :param progress: counts the method's steps: starts, epochs or iterations.
    :raises KeyboardInterrupt: after Ctrl-C.
    """
    metrics = settings.metric_weights
    compute.check_only("threads")
    check_sequences(lists=lists, references=references)
    if not lists:
        raise ArgumentError("lists: expected at least one")
    if not references:
        raise ArgumentError("--references is required")
    if start is None and files.moses_ini is None:
        problem = "give the weights with which the lists were made, to start from:"
        raise ArgumentError(f"{problem} --weights or --moses-ini")
    if files.moses_ini_out is not None and files.moses_ini is None:
        raise ArgumentError("--moses-ini-out requires the --moses-ini to change")
    inputs = (*lists, *references, files.moses_ini, weights_path(start))
    ini = None if files.moses_ini is None else MosesIni.read(os.fspath(files.moses_ini))
    named = () if ini is None else map(str, named_files(ini))
    outcome.check_outputs([*_paths(*inputs), *named], output, files.moses_ini_out, files.report)
    optimiser = Optimiser(settings, compute.threads)
    metric, words = read_metric(find_references(references), metrics)
    reader = ListReader(metric, words)
    pool = reader.read_all(_paths(*lists), allow_missing=settings.allow_missing)
    if ini is not None and files.moses_ini_out is not None:
        ini.check_writable(os.fspath(files.moses_ini_out), [label.name for label in pool.labels])
    first, where = _start_vector(start, ini, pool)
    check_weights(named_weights(first, pool.labels), where)
    size = f"{pool.num_segments:,} sentences, {len(pool.stats):,} hypotheses"
    _logger.info("%s, %d weights", size, pool.num_features)
    with Meter("tune", "steps", progress) as meter:

        def count_step(line: str) -> None:
            _logger.debug("%s", line)
            meter.update(note=line)

        optimiser.report = count_step
        tuned = optimiser(pool, metric, first, settings.seed)
    found = tuned.weights
    features_found = outcome.feature_rows(pool, first, found)
    cut_short: BaseException | None = None
    try:
        if files.report is not None:
            features_found = outcome.with_contributions(features_found, pool, metric, found)
    except (KeyboardInterrupt, EndedBySignal) as error:
        cut_short = error  # only the report's details about each feature are missing
    weights = named_weights(found, pool.labels)
    report = TuneReport(
        settings.method,
        metric.name,
        settings.seed,
        pool.num_segments,
        len(pool.stats),
        100 * pool.score(metric, first),
        100 * pool.score(metric, found),
        features=features_found,
        notes=tuned.notes,
    )
    both = WeightPair(weights, weights)
    outcome.write_outputs(output, files, both, report, ini)
    if cut_short is not None:
        raise cut_short
    if optimiser.stopped:
        optimiser.raise_stop()
    return outcome.TuneOutcome(both, report)


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
    names = dict.fromkeys(label.name for label in pool.labels)
    weights = old_names.weights_for(names, weights, where)
    vector = weights_vector(weights, pool.labels, where)
    if missing := [name for name in names if name not in weights]:
        _logger.info("features without a weight in %s start at 0: %s", where, some_names(missing))
    if unused := sorted(weights.keys() - names.keys()):
        _logger.warning("the lists lack these features of %s: %s", where, some_names(unused))
    return vector, where
