"""``phrasescore rescore``: add the networks' scores to n-best lists."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain

import click

from phrasescore.cli import options
from phrasescore.cli.rescore_columns import check_names, make_columns, with_normalized
from phrasescore.cli.rescore_networks import (
    check_cslm,
    load_models,
    network_scores,
    open_cache,
)
from phrasescore.features.column_spec import check_columns

_logger = logging.getLogger(__name__)


@click.command(cls=options.OrderedColumns)
@click.argument("nbest", metavar="NBEST")
@click.option("--source", metavar="SRC", required=True, help="What was translated, tokenised.")
@options.models
@options.features
@options.language_models
@options.lexicons
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    show_default="LSTM0, Attention0, RNN0, GrConv0, CSLM0, KenLM0, UnknownWords0 and so on",
    help="Name of a new feature: once for each column in the order of the options, and for the "
    "ensemble.",
)
@click.option(
    "--ensemble",
    is_flag=True,
    help="One more column: the models' probabilities, averaged at each word. They should have one "
    "shortlist: a smaller one gives <unk> more probability than a larger one any one rare word.",
)
@click.option(
    "--normalize",
    is_flag=True,
    help="For each network one more column, NAMENorm: its score divided by predicted words and "
    "end symbol.",
)
@click.option(
    "--word-scores", metavar="FILE", help="Write the log-probability of each predicted word."
)
@click.option(
    "--replace", is_flag=True, help="Remove features that have a new one's name, where they are."
)
@click.option(
    "--allow-missing", is_flag=True, help="Let source sentences have no hypotheses at all."
)
@click.option(
    "--cache", "cache_file", metavar="FILE", help="Keep scores here, and take them from here."
)
@click.option(
    "--cache-size",
    type=click.IntRange(min=1),
    metavar="N",
    default=10_000_000,
    show_default=True,
    help="Scores that the cache keeps, of about 65 bytes each; beyond, the oldest go.",
)
@options.cslm
@options.output
@options.precision
@options.device
@options.threads
@options.verbosity
@click.pass_context
def rescore(
    ctx: click.Context,
    nbest: str,
    source: str,
    models: tuple[str, ...],
    features: tuple[str, ...],
    language_models: tuple[str, ...],
    lexicons: tuple[str, ...],
    reverse_lexicons: tuple[str, ...],
    names: tuple[str, ...],
    ensemble: bool,
    normalize: bool,
    word_scores: str | None,
    replace: bool,
    allow_missing: bool,
    cache_file: str | None,
    cache_size: int,
    backoff_lm: str | None,
    unnormalized: bool,
    output: str,
    precision: str,
    device: str,
    threads: int | None,
) -> None:
    """Add features to the hypotheses of NBEST, an n-best list as Moses writes it.

    A model's is the natural logarithm of p(hypothesis | source), end symbol included, or of the
    reverse. Each goes to the end of field 3; every other byte stays.
    """
    from moses_integration.nbest import read_nbest, with_sources
    from phrasescore.cli.rescore_lists import read_items, write_lists
    from phrasescore.cli.source_words import SourceWords
    from phrasescore.config.settings import LANGUAGE_MODELS

    order = options.column_order(
        ctx,
        models=models,
        features=features,
        language_models=language_models,
        lexicons=lexicons,
        reverse_lexicons=reverse_lexicons,
    )
    check_columns(order, of_phrases=False)
    if ensemble and len(models) < 2:
        raise click.UsageError("--ensemble averages at least two models")
    if not models and (normalize or word_scores is not None or cache_file is not None):
        raise click.UsageError("--normalize, --word-scores and --cache are of a --model's scores")
    read = (nbest, source, *language_models, *lexicons, *reverse_lexicons)
    if backoff_lm is not None:
        read = (*read, backoff_lm)
    _check_files(read, cache_file, output, word_scores)
    checkpoints = load_models(models, device)
    configs = [checkpoint.config for checkpoint in checkpoints]
    check_cslm(configs, backoff_lm, unnormalized=unnormalized)
    columns = make_columns(order, checkpoints, names, ensemble=ensemble)
    if normalize:
        columns = with_normalized(columns)
    new_names = check_names([column.name for column in columns])
    lists = read_nbest(nbest, () if replace else new_names)
    items = read_items(with_sources(lists, source, allow_missing=allow_missing))
    known = {
        path: checkpoint.table_source_vocabulary
        for path, checkpoint in zip(models, checkpoints, strict=True)
        if checkpoint.config.kind not in LANGUAGE_MODELS
    }
    items = SourceWords(source, known).reading(items)
    first = next(items)  # what is wrong with the files is often seen here, before the long work
    with ExitStack() as stack:
        scores = None
        if checkpoints:
            scores = network_scores(
                checkpoints,
                device,
                open_cache(stack, cache_file, cache_size, word_scores),
                precision=precision,
                threads=threads,
                ensemble=ensemble,
                words=word_scores is not None,
                backoff_lm=backoff_lm,
                unnormalized=unnormalized,
            )
        write_lists(chain([first], items), columns, scores, output, word_scores, replace=replace)
    if scores is not None:
        _logger.info("%s", scores.summary())
    for column in columns:
        if column.feature is not None:
            _logger.info("%s: %s", column.name, column.feature.summary())


def _check_files(
    read: Sequence[str], cache_file: str | None, output: str, word_scores: str | None
) -> None:
    """Check that no file is in another's way, before anything is written."""
    from phrasescore.io.file_names import check_files

    check_files(read, (output, word_scores))
    if cache_file == "-":
        raise click.UsageError("--cache needs a file: a stream cannot be a cache")
    check_files(read, (output, word_scores, cache_file))
