"""Tune on n-best lists that are there, or on what Moses' extractor made of them."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from moses_integration.moses_ini import MosesIni
from moses_integration.start_points import read_start_point, write_start_point
from moses_integration.tuning_file_writer import write_features, write_scores
from moses_integration.weights import is_sparse, read_weights, write_both_weights
from phrasescore.errors import ArgumentError
from phrasescore.io.output import check_files, check_output, open_output
from phrasescore.records import WeightPair, Weights
from phrasescore.signals import EndedBySignal
from phrasescore.workflows.tune.optimiser import Optimiser, read_metric
from phrasescore.workflows.tune.pooling import (
    ListReader,
    find_references,
    read_extracted,
    some_names,
)
from phrasescore.workflows.tune.report import (
    MethodRow,
    ReplicaRow,
    TuneReport,
    feature_rows,
    with_contributions,
)
from phrasescore.workflows.warnings import collecting_warnings
from tuning.bleu import CorpusBleu, ReferenceLength
from tuning.cross_validation import cross_validate as validate
from tuning.loop import union
from tuning.methods import METHODS, Tuned, load_method
from tuning.metric import Metric
from tuning.pool import Pool, Vector
from tuning.replicas import summarise
from tuning.weights import named_weights, weights_vector

_logger = logging.getLogger(__name__)

Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class TuneOutcome:
    """The weights found on n-best lists."""

    weights: Weights
    report: TuneReport
    warnings: tuple[str, ...] = ()


def tune(
    lists: Sequence[Path],
    references: Sequence[Path],
    start: Path | Weights | None,
    output: Path | None = None,
    *,
    method: str = "mert",
    metrics: Mapping[str, float] | None = None,
    reference_length: ReferenceLength = "closest",
    starts: int = 20,
    plateau_smoothing: int = 0,
    replicas: int = 1,
    cross_validate: int | None = None,
    fixed: Sequence[str] = (),
    features: Sequence[Path] = (),
    scores: Sequence[Path] = (),
    ifile: Path | None = None,
    moses_ini: Path | None = None,
    moses_ini_out: Path | None = None,
    features_out: Path | None = None,
    scores_out: Path | None = None,
    ifile_out: Path | None = None,
    report: Path | None = None,
    report_format: Literal["text", "json"] = "text",
    seed: int = 1,
    threads: int | None = None,
) -> TuneOutcome:
    """Find feature weights that raise a metric on n-best lists of a development set.

    The weights are never worse on the lists than the start. The same seed gives the same bits, with
    any number of threads. All files are written at the end, whole or not at all. After Ctrl-C or
    SIGTERM the best weights so far are written, before the signal is raised.

    :param lists: n-best lists in Moses' format; the lists of several files are pooled.
    :param references: of all sentences, a line each; ``NAME`` may stand for ``NAME0``, ``NAME1``
        and so on, as in mert-moses.pl.
    :param start: the weights that the lists were made with, or a file of them; where None, those
        of ``moses_ini``, or of ``ifile``. Features without a weight start at 0.
    :param output: gets the weights as ``Name= value`` lines.
    :param metrics: the weights of ``bleu`` and ``chrf`` in what is raised; BLEU alone if None.
    :param reference_length: of several references, the one whose length BLEU takes.
    :param starts: of mert: random starts besides the given weights.
    :param plateau_smoothing: of mert: intervals on each side of one that smooth the metric.
    :param replicas: runs with seeds from ``seed`` on, whose weights are averaged.
    :param cross_validate: the number of parts into which the set is cut, to compare all methods.
    :param fixed: features whose weights stay; ``LM0_0`` for a single value.
    :param features: files of Moses' extractor instead of lists and references.
    :param scores: their statistics.
    :param ifile: start weights as Moses' mert has them.
    :param moses_ini_out: gets the moses.ini with the new weights.
    :param features_out: gets the pool as Moses' extractor writes it, with ``scores_out``.
    :param ifile_out: gets the weights for Moses' mert.
    :param report: gets the contribution of each feature, and how the run went.
    :raises ArgumentError: if arguments do not go together.
    :raises DataError: if a file is not what it should be.
    :raises KeyboardInterrupt: after Ctrl-C.
    """
    metrics = dict(metrics) if metrics else {"bleu": 1.0}
    given = start if isinstance(start, dict) or start is None else os.fspath(start)
    if bool(lists) == bool(features or scores):
        raise ArgumentError("give one of n-best lists and `features` with `scores`")
    if len(features) != len(scores):
        raise ArgumentError("`features` and `scores` come in pairs")
    if features:
        _check_extracted(references, metrics, reference_length)
    elif not references:
        raise ArgumentError("`references` is needed")
    if start is None and ifile is None and moses_ini is None:
        problem = "give the weights that the lists were made with, to start from"
        raise ArgumentError(f"{problem}: `start`, or `moses_ini`")
    if ifile is not None and (start is not None or not features):
        raise ArgumentError("`ifile` goes with `features`, in place of `start`")
    if moses_ini_out is not None and moses_ini is None:
        raise ArgumentError("`moses_ini_out` needs the `moses_ini` to change")
    if (features_out is None) != (scores_out is None):
        raise ArgumentError("`features_out` and `scores_out` come in pairs")
    if features_out is not None and set(metrics) != {"bleu"}:
        raise ArgumentError("`features_out` goes with n-best lists and the metric bleu")
    read = _paths(*lists, *references, *features, *scores, ifile, moses_ini)
    read += [given] if isinstance(given, str) else []
    written = (output, moses_ini_out, report, features_out, scores_out, ifile_out)
    check_written(read, _paths(*written))
    with collecting_warnings() as warnings:
        ini = None if moses_ini is None else MosesIni.read(os.fspath(moses_ini))
        metric: Metric
        if features:
            metric, pool = CorpusBleu(), read_extracted(_paths(*features), _paths(*scores))
        else:
            paths = find_references(_paths(*references))
            metric, words = read_metric(paths, metrics, reference_length)
            reader = ListReader(metric, words)
            pool = union([reader.read(path).distinct() for path in _paths(*lists)])
        if ifile is not None:
            first = read_start_point(os.fspath(ifile), pool.num_features).weights
        else:
            first = _start_vector(given, ini, pool)
        optimiser = Optimiser(method, starts, plateau_smoothing, fixed, threads)
        size = f"{pool.num_segments:,} sentences, {len(pool.stats):,} hypotheses"
        _logger.info("%s, %d weights", size, pool.num_features)
        methods: tuple[MethodRow, ...] = ()
        if cross_validate is not None:
            methods = _compare_methods(cross_validate, optimiser, pool, metric, first, seed)
        found, notes, rows = _replicate(replicas, optimiser, pool, metric, first, seed)
        features_found = feature_rows(pool, first, found)
        cut_short: BaseException | None = None
        try:
            if report is not None:
                features_found = with_contributions(features_found, pool, metric, found)
        except (KeyboardInterrupt, EndedBySignal) as error:
            cut_short = error  # the weights are found; only single features were not looked at
        if features_out is not None and scores_out is not None:
            write_features(os.fspath(features_out), pool.labels, pool.features, pool.starts)
            write_scores(os.fspath(scores_out), pool.stats, pool.starts)
        if ifile_out is not None:
            dense = [at for at, label in enumerate(pool.labels) if not is_sparse(label.name)]
            write_start_point(os.fspath(ifile_out), found[dense])
        weights = named_weights(found, pool.labels)
        made = TuneReport(
            *(method, metric.name, seed, pool.num_segments, len(pool.stats)),
            *(100 * pool.score(metric, first), 100 * pool.score(metric, found)),
            features=features_found,
            notes=notes,
            replicas=rows,
            methods=methods,
        )
        write_outcome(
            WeightPair(weights, weights), made, output, ini, moses_ini_out, report, report_format
        )
        if cut_short is not None:
            raise cut_short
        if optimiser.stopped:
            optimiser.raise_stop()
    return TuneOutcome(weights, made, tuple(warnings))


def merge_weights(weights: Path, moses_ini: Path, moses_ini_out: Path) -> None:
    """Write a moses.ini with the weights of a file; of two sets, those of the search.

    :raises DataError, ConfigError: if a file is not what it should be.
    """
    check_written(_paths(weights, moses_ini), _paths(moses_ini_out))
    ini = MosesIni.read(os.fspath(moses_ini))
    write_ini(ini, read_weights(os.fspath(weights), "search"), os.fspath(moses_ini_out))


def check_written(read: Sequence[str], written: Sequence[str]) -> None:
    """Check that all files can be written, before the long work.

    :raises ArgumentError, PhrasescoreError: as `check_files` and `check_output`.
    """
    for name in written:
        check_output(name)
    check_files(read, written)


def write_outcome(
    weights: WeightPair,
    made: TuneReport,
    output: Path | None,
    ini: MosesIni | None,
    moses_ini_out: Path | None,
    report: Path | None,
    report_format: Literal["text", "json"],
) -> None:
    """Write the weights, moses.ini and report that are wanted; say the score reached."""
    if moses_ini_out is not None and ini is not None:
        write_ini(ini, weights.search, os.fspath(moses_ini_out))
    if output is not None:
        write_both_weights(os.fspath(output), weights)
    if report is not None:
        text = made.to_json() if report_format == "json" else made.to_text()
        with open_output(os.fspath(report)) as stream:
            stream.write(text.encode())
    _logger.info("%s", made.last_line())


def write_ini(ini: MosesIni, weights: Weights, path: str) -> None:
    """Write a moses.ini with other weights; warn of those that it has no features for."""
    unknown = ini.set_weights(weights)
    if unknown:
        _logger.warning(
            "%s has no features for these weights: %s: the decoder alone will not choose what "
            "was measured; rescore and rerank its lists with all weights",
            ini.path,
            some_names(unknown),
        )
    ini.write(path)


def _paths(*paths: Path | None) -> list[str]:
    return [os.fspath(path) for path in paths if path is not None]


def _check_extracted(
    references: Sequence[Path], metrics: Mapping[str, float], reference_length: str
) -> None:
    if references:
        raise ArgumentError("`references` goes with n-best lists: `scores` is made with them")
    if set(metrics) != {"bleu"} or reference_length != "closest":
        problem = "`metrics` and `reference_length` go with n-best lists"
        raise ArgumentError(f"{problem}: the statistics in `scores` are made already")


def _start_vector(start: str | Weights | None, ini: MosesIni | None, pool: Pool) -> Vector:
    """Return the weight of each value to start from."""
    where = "the start weights"
    if isinstance(start, str):
        where, weights = start, read_weights(start)
    elif start is not None:
        weights = start
    else:
        assert ini is not None
        where, weights = ini.path, ini.tuneable_weights()
    vector = weights_vector(weights, pool.labels, where)
    names = dict.fromkeys(label.name for label in pool.labels)
    if missing := [name for name in names if name not in weights]:
        _logger.info("without a weight in %s, and so from 0: %s", where, some_names(missing))
    if unused := sorted(weights.keys() - names.keys()):
        _logger.warning("no list has these features of %s: %s", where, some_names(unused))
    return vector


def _replicate(
    replicas: int, optimiser: Optimiser, pool: Pool, metric: Metric, start: Vector, seed: int
) -> tuple[Vector, tuple[str, ...], tuple[ReplicaRow, ...]]:
    """Return the weights found, averaged over the replicas, with notes and a row per replica.

    An average may be worse than its parts; where it is worse than the start, the weights of the
    best replica are returned. After Ctrl-C there are no more replicas, and the one that was stopped
    counts only if there is no other.
    """
    settings = optimiser.settings(pool.labels)
    runs: list[Tuned] = []
    for number in range(seed, seed + replicas):
        tuned = optimiser(pool, metric, start, settings, seed=number)
        if not optimiser.stopped or not runs:
            runs.append(tuned)
        if optimiser.stopped:
            break
    notes = list(dict.fromkeys(note for tuned in runs for note in tuned.notes))
    if replicas == 1:
        return runs[0].weights, tuple(notes), ()
    found = summarise(runs, pool, metric)
    rows = tuple(ReplicaRow(tuned.seed, 100 * tuned.score) for tuned in runs)
    average = 100 * found.average_score
    spread = f"mean {100 * found.mean:.2f} ± {100 * found.deviation:.2f}"
    notes.append(f"{len(runs)} replicas: {spread}, average of the weights {average:.2f}")
    _logger.info("%s", notes[-1])
    best = max(runs, key=lambda tuned: tuned.score)
    if found.average_score >= best.start_score:
        return found.average, tuple(notes), rows
    notes.append(f"the average is worse than the start: seed {best.seed} is taken, the best")
    _logger.warning("%s", notes[-1])
    return best.weights, tuple(notes), rows


def _compare_methods(
    parts: int, optimiser: Optimiser, pool: Pool, metric: Metric, start: Vector, seed: int
) -> tuple[MethodRow, ...]:
    """Return how each method does on sentences that it was not tuned on."""
    found = validate(
        {name: load_method(name) for name in sorted(METHODS)},
        pool,
        metric,
        start,
        optimiser.settings(pool.labels),
        num_folds=parts,
        seed=seed,
        report=_logger.debug,
    )
    rows = [MethodRow("start", 100 * found.start_score, 100 * found.start_score)]
    for name, held_out in found.methods.items():
        rows.append(MethodRow(name, 100 * held_out.tuned_score, 100 * held_out.score))
    for row in rows:
        scores = f"{row.tuned_on:.2f} where tuned, {row.held_out:.2f} held out"
        _logger.info("cross-validation: %s: %s", row.method, scores)
    return tuple(rows)
