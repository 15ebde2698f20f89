"""``phrasescore tune``: find the weights that make the best translations of the n-best lists."""

import logging
from typing import TYPE_CHECKING, Any

import click

from phrasescore.cli import options, tune_parameters
from phrasescore.cli.ending import EndedBySignal
from phrasescore.cli.tune_options import TuneOptions

if TYPE_CHECKING:
    from moses_integration.moses_ini import MosesIni
    from moses_integration.weights import Part, Weights
    from phrasescore.cli.tune_loop import LoopRun
    from phrasescore.cli.tune_report import TuneReport
    from tuning.metric import ReferenceMetric
    from tuning.pool import Pool, Vector

_logger = logging.getLogger(__name__)


@click.command()
@click.argument("nbest", metavar="[NBEST]...", nargs=-1)
@tune_parameters.inputs
@tune_parameters.search
@tune_parameters.loop
@click.option(
    "--report",
    metavar="FILE",
    help="Write what each feature has, gives, and costs to leave out, and how the run went.",
)
@options.cslm
@options.output
@options.report_format
@options.seed
@options.device
@options.threads
@options.verbosity
@click.pass_context
def tune(ctx: click.Context, /, **given: Any) -> None:
    """Find feature weights that raise BLEU on NBEST, Moses' n-best lists of a development set.

    Lists of several files are pooled. The weights found are never worse on them than those given.
    They are written as 'Name= value' lines, which rerank and Moses' tools read. With --decoder
    the lists are made in rounds, as by mert-moses.pl. The last line on stderr has the BLEU reached.

    Without lists, --weights FILE --moses-ini INI --moses-ini-out FILE puts the weights into the
    moses.ini, and tunes nothing.
    """
    tune_parameters.check_loop(ctx)
    wanted = TuneOptions(**given)
    wanted.check()
    if wanted.only_merges:
        _merge(wanted)
    elif wanted.decoder is None:
        _tune_lists(wanted)
    else:
        _tune_loop(wanted)


def _merge(wanted: TuneOptions) -> None:
    """Put weights that are there into a moses.ini."""
    from moses_integration.moses_ini import MosesIni
    from moses_integration.weights import read_weights

    assert wanted.weights is not None
    assert wanted.moses_ini is not None
    assert wanted.moses_ini_out is not None
    ini = MosesIni.read(wanted.moses_ini)
    _write_ini(ini, read_weights(wanted.weights, "search"), wanted.moses_ini_out)


def _write_ini(ini: "MosesIni", weights: "Weights", path: str) -> None:
    """Write a moses.ini with other weights, and say which of them it has no features for."""
    from phrasescore.cli.tune_pool import some_names

    unknown = ini.set_weights(weights)
    if unknown:
        _logger.warning(
            "%s has no features for these weights: %s: the decoder alone will not choose what "
            "was measured; rescore and rerank its lists with all weights",
            ini.path,
            some_names(unknown),
        )
    ini.write(path)


def _tune_lists(wanted: TuneOptions) -> None:
    """Tune on lists that are there."""
    from moses_integration.moses_ini import MosesIni
    from phrasescore.cli.tune_pool import named_weights, read_extracted
    from phrasescore.cli.tune_replicas import compare_methods, replicate
    from phrasescore.cli.tune_report import TuneReport
    from phrasescore.cli.tune_search import Search
    from tuning.bleu import CorpusBleu
    from tuning.metric import Metric

    ini = None if wanted.moses_ini is None else MosesIni.read(wanted.moses_ini)
    metric: Metric
    if wanted.features:
        metric, pool = CorpusBleu(), read_extracted(wanted.features, wanted.scores)
    else:
        metric, pool = _read_lists(wanted)
    start = _start_weights(wanted, ini, pool)
    search = Search(wanted)
    lists = f"{pool.num_segments:,} sentences, {len(pool.stats):,} hypotheses"
    _logger.info("%s, %d weights", lists, pool.num_features)
    report = TuneReport(wanted.method, metric.name, wanted.seed)
    if wanted.cross_validate is not None:
        compare_methods(wanted, search, pool, metric, start, report)
    found = replicate(wanted, search, pool, metric, start, report)
    cut_short: BaseException | None = None
    try:
        report.measure(pool, metric, start, found, details=wanted.report is not None)
    except (KeyboardInterrupt, EndedBySignal) as error:
        cut_short = error  # the weights are found; only single features were not looked at
    _write_for_moses(wanted, pool, found)
    weights = named_weights(found, pool.labels)
    _write(wanted, {"search": weights, "lists": weights}, ini, report)
    if cut_short is not None:
        raise cut_short
    if search.stopped:
        search.end()


def _read_lists(wanted: TuneOptions) -> "tuple[ReferenceMetric, Pool]":
    """Return the metric, and the union of the lists, each hypothesis once."""
    from phrasescore.cli.tune_pool import ListReader
    from tuning.loop import union

    metric, references = _metric(wanted)
    reader = ListReader(metric, references)
    pools = [reader.read(path).distinct() for path in wanted.nbest]
    return metric, union(pools)


def _metric(wanted: TuneOptions) -> "tuple[ReferenceMetric, list[list[tuple[str, ...]]]]":
    """Return the metric, and the words of the references by file and sentence."""
    from phrasescore.cli.tune_pool import read_references
    from phrasescore.evaluation.sentences import check_aligned, read_sentences
    from tuning.bleu import Bleu
    from tuning.metric import Interpolated

    references = [read_sentences(path) for path in read_references(wanted.references)]
    check_aligned(references)
    words = [sentences.words for sentences in references]
    made: list[ReferenceMetric] = []
    for name in wanted.metrics:
        if name == "bleu":
            made.append(Bleu(words, reference_length=wanted.reference_length))
        else:
            from tuning.chrf import Chrf

            made.append(Chrf(words))
    found = made[0] if len(made) == 1 else Interpolated(made, list(wanted.metrics.values()))
    return found, words


def _start_weights(wanted: TuneOptions, ini: "MosesIni | None", pool: "Pool") -> "Vector":
    """Return the weight of each value to start from."""
    from moses_integration.start_points import read_start_point
    from moses_integration.weights import read_weights
    from phrasescore.cli.tune_pool import some_names, weights_vector

    if wanted.ifile is not None:
        return read_start_point(wanted.ifile, pool.num_features).weights
    where = wanted.weights or wanted.moses_ini
    assert where is not None
    weights = read_weights(where) if ini is None or wanted.weights else ini.tuneable_weights()
    start, missing = weights_vector(weights, pool.labels, where)
    if missing:
        _logger.info("without a weight in %s, and so from 0: %s", where, some_names(missing))
    unused = sorted(weights.keys() - {label.name for label in pool.labels})
    if unused:
        _logger.warning("no list has these features of %s: %s", where, some_names(unused))
    return start


def _write_for_moses(wanted: TuneOptions, pool: "Pool", weights: "Vector") -> None:
    """Write what Moses' own tuners read, where it is wanted."""
    from moses_integration.start_points import write_start_point
    from moses_integration.tuning_file_writer import write_features, write_scores
    from moses_integration.weights import is_sparse

    if wanted.features_out is not None and wanted.scores_out is not None:
        write_features(wanted.features_out, pool.labels, pool.features, pool.starts)
        write_scores(wanted.scores_out, pool.stats, pool.starts)
    if wanted.ifile_out is not None:
        dense = [at for at, label in enumerate(pool.labels) if not is_sparse(label.name)]
        write_start_point(wanted.ifile_out, weights[dense])


def _tune_loop(wanted: TuneOptions) -> None:
    """Tune in rounds with a decoder."""
    from phrasescore.cli.tune_loop import LoopRun
    from phrasescore.cli.tune_report import TuneReport
    from phrasescore.cli.tune_search import Search

    metric, references = _metric(wanted)
    report = TuneReport(wanted.method, metric.name, wanted.seed)
    run = LoopRun(wanted, metric, references, Search(wanted))
    try:
        run.run()
    except (KeyboardInterrupt, EndedBySignal):
        if run.result.best is not None:
            _finish_loop(wanted, run, report)
        raise
    _finish_loop(wanted, run, report)


def _finish_loop(wanted: TuneOptions, run: "LoopRun", report: "TuneReport") -> None:
    weights = run.finish(report, details=wanted.report is not None)
    _write(wanted, weights, run.ini, report)


def _write(
    wanted: TuneOptions,
    weights: "dict[Part, Weights]",
    ini: "MosesIni | None",
    report: "TuneReport",
) -> None:
    """Write the weights, moses.ini and report that the user wants; say the score reached."""
    from moses_integration.weights import write_both_weights
    from phrasescore.io.output import open_output

    if wanted.moses_ini_out is not None and ini is not None:
        _write_ini(ini, weights["search"], wanted.moses_ini_out)
    write_both_weights(wanted.output, weights)
    if wanted.report is not None:
        text = report.to_json() if wanted.report_format == "json" else report.to_text()
        with open_output(wanted.report) as stream:
            stream.write(text.encode())
    _logger.info("%s", report.last_line())
