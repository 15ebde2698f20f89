"""Several runs of a method: with other seeds, and on parts of the development set."""

from phrasescore.cli.tune_options import TuneOptions
from phrasescore.cli.tune_report import TuneReport
from phrasescore.cli.tune_search import Search
from tuning.metric import Metric
from tuning.pool import Pool, Vector


def replicate(
    wanted: TuneOptions,
    search: Search,
    pool: Pool,
    metric: Metric,
    start: Vector,
    report: TuneReport,
) -> Vector:
    """Return the weights found, averaged over the replicas where there are several."""
    settings = search.settings(pool.labels)
    tuned = search(pool, metric, start, settings, seed=wanted.seed)
    report.notes += tuned.notes
    return tuned.weights


def compare_methods(
    wanted: TuneOptions, pool: Pool, metric: Metric, start: Vector, report: TuneReport
) -> None:
    """Put into the report how each method does on sentences that it was not tuned on."""
    raise NotImplementedError
