"""Several runs of a method: with other seeds, and on parts of the development set."""

import logging

from phrasescore.cli.tune_options import METHODS, TuneOptions
from phrasescore.cli.tune_report import MethodRow, ReplicaRow, TuneReport
from phrasescore.cli.tune_search import Search
from tuning.cross_validation import cross_validate
from tuning.methods import Tuned, load_method
from tuning.metric import Metric
from tuning.pool import Pool, Vector
from tuning.replicas import summarise

_logger = logging.getLogger(__name__)


def replicate(
    wanted: TuneOptions,
    search: Search,
    pool: Pool,
    metric: Metric,
    start: Vector,
    report: TuneReport,
) -> Vector:
    """Return the weights found, averaged over the replicas where there are several.

    An average may be worse than what it is made of; where it is worse than the start, the best
    replica is returned. After Ctrl-C there are no more replicas, and the one that
    was stopped counts only if there is no other.
    """
    settings = search.settings(pool.labels)
    runs: list[Tuned] = []
    for seed in range(wanted.seed, wanted.seed + wanted.replicas):
        tuned = search(pool, metric, start, settings, seed=seed)
        if not search.stopped or not runs:
            runs.append(tuned)
        if search.stopped:
            break
    report.notes += dict.fromkeys(note for tuned in runs for note in tuned.notes)
    if wanted.replicas == 1:
        return runs[0].weights
    found = summarise(runs, pool, metric)
    report.replicas = [ReplicaRow(tuned.seed, 100 * tuned.score) for tuned in runs]
    average = 100 * found.average_score
    spread = f"mean {100 * found.mean:.2f} ± {100 * found.deviation:.2f}"
    line = f"{len(runs)} replicas: {spread}, average of the weights {average:.2f}"
    _logger.info("%s", line)
    report.notes.append(line)
    best = max(runs, key=lambda tuned: tuned.score)
    if found.average_score >= best.start_score:
        return found.average
    line = f"the average is worse than the start: seed {best.seed} is taken, the best"
    _logger.warning("%s", line)
    report.notes.append(line)
    return best.weights


def compare_methods(
    wanted: TuneOptions,
    search: Search,
    pool: Pool,
    metric: Metric,
    start: Vector,
    report: TuneReport,
) -> None:
    """Put into the report how each method does on sentences that it was not tuned on."""
    assert wanted.cross_validate is not None
    found = cross_validate(
        {name: load_method(name) for name in METHODS},
        pool,
        metric,
        start,
        search.settings(pool.labels),
        num_folds=wanted.cross_validate,
        seed=wanted.seed,
        report=_logger.debug,
    )
    start_score = 100 * found.start_score
    report.methods = [MethodRow("start", start_score, start_score)]
    for name, held_out in found.methods.items():
        row = MethodRow(name, 100 * held_out.tuned_score, 100 * held_out.score)
        report.methods.append(row)
    for row in report.methods:
        scores = f"{row.tuned_on:.2f} where tuned, {row.held_out:.2f} held out"
        _logger.info("cross-validation: %s: %s", row.method, scores)
