"""Tune weights on existing n-best lists."""

import logging
import os
from collections.abc import Sequence

from moses_integration.moses_ini import WeightsSource, weights_path
from moses_integration.weight_lines import check_weights, write_weights
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError, some_names
from phrasescore.evaluation.sentences import check_aligned, find_references, read_sentences
from phrasescore.evaluation.tune_report import TuneReport
from phrasescore.io.output import check_files, optional_path
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import WeightPair
from phrasescore.settings import old_names
from phrasescore.settings.compute import Compute
from phrasescore.settings.training import ListTuning
from phrasescore.signals import raise_signal
from phrasescore.systems.system import read_weights
from phrasescore.systems.tuning import (
    ListReader,
    Optimiser,
    TuneOutcome,
    feature_rows,
)
from tuning.pool import Pool, Vector, named_weights, weights_vector

_logger = logging.getLogger(__name__)


def tune(
    lists: Sequence[StrPath],
    references: Sequence[StrPath],
    start: WeightsSource,
    output: StrPath | None = None,
    *,
    settings: ListTuning = ListTuning(),
    report: StrPath | None = None,
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
    :param start: the weights with which the lists were made: values, a file, a moses.ini or a
        system. Features without a weight start at 0.
    :param output: the file for the weights, as ``Name= value`` lines.
    :param report: a file for the report, as JSON if its name ends in ``.json``.
    :param compute: the number of threads.
    :param progress: counts the method's steps: starts, epochs or iterations.
    :raises KeyboardInterrupt: after Ctrl-C.
    """
    compute.check_only("threads")
    check_sequences(lists=lists, references=references)
    if not lists:
        raise ArgumentError("lists: expected at least one")
    if not references:
        raise ArgumentError("--references is required")
    paths, texts = [os.fspath(path) for path in lists], find_references(references)
    written = [optional_path(output), optional_path(report)]
    check_files([*paths, *texts, weights_path(start)], written)
    words = [read_sentences(path) for path in texts]
    check_aligned(words)
    reader = ListReader([each.words for each in words], settings.metric)
    pool = reader.read_files(paths, allow_missing=settings.allow_missing)
    first = _start_vector(start, pool)
    size = f"{pool.num_segments:,} sentences, {len(pool.stats):,} hypotheses"
    _logger.info("%s, %d weights", size, len(pool.labels))
    optimiser = Optimiser(settings, compute.threads)
    with Meter("tune", "steps", progress) as meter:

        def count_step(line: str) -> None:
            _logger.debug("%s", line)
            meter.update(note=line)

        optimiser.report = count_step
        tuned = optimiser(pool, reader.metric, first, settings.seed)
    weights = named_weights(tuned.weights, pool.labels)
    if output is not None:  # before details of the report, which may be interrupted
        write_weights(os.fspath(output), WeightPair(weights, weights))
    metric = None if report is None else reader.metric
    found = TuneOutcome(
        WeightPair(weights, weights),
        TuneReport(
            settings.method,
            reader.metric.name,
            settings.seed,
            pool.num_segments,
            len(pool.stats),
            100 * tuned.start_score,
            100 * tuned.score,
            features=feature_rows(pool, first, tuned.weights, metric=metric),
            notes=tuned.notes,
        ),
    )
    if report is not None:
        found.write_report(report)
    found.log()
    if optimiser.stopped_by is not None:
        raise_signal(optimiser.stopped_by)
    return found


def _start_vector(start: WeightsSource, pool: Pool) -> Vector:
    where, weights = weights_path(start) or "the start weights", read_weights(start).lists
    check_weights(weights, where)
    names = dict.fromkeys(label.name for label in pool.labels)
    weights = old_names.weights_for(names, weights)
    vector = weights_vector(weights, pool.labels, where)
    if missing := [name for name in names if name not in weights]:
        _logger.info("features without a weight in %s start at 0: %s", where, some_names(missing))
    if unused := sorted(weights.keys() - names.keys()):
        _logger.warning("the lists lack these features of %s: %s", where, some_names(unused))
    check_weights(named_weights(vector, pool.labels), where)
    return vector
