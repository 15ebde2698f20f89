"""``phrasescore rescore``: add features to n-best lists."""

import logging

import click

from phrasescore.arguments import PrecisionName
from phrasescore.cli import options
from phrasescore.cli.progress import show_progress

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
    help="Name of a new feature: one per column in the order of the options, then the ensemble's.",
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
@click.option("--cache", metavar="FILE", help="Keep scores in this file, and take them from it.")
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
    cache: str | None,
    cache_size: int,
    backoff_lm: str | None,
    unnormalized: bool,
    output: str,
    precision: PrecisionName,
    device: str,
    threads: int | None,
) -> None:
    """Add features to the hypotheses of NBEST, an n-best list as Moses writes it.

    A model's is the natural logarithm of p(hypothesis | source), end symbol included, or of the
    reverse. Each goes to the end of field 3; every other byte stays.
    """
    from phrasescore.workflows.rescore import rescore as run

    columns = options.column_order(
        ctx,
        models=models,
        features=features,
        language_models=language_models,
        lexicons=lexicons,
        reverse_lexicons=reverse_lexicons,
    )
    done = run(
        nbest,
        source,
        columns,
        output,
        names=names,
        ensemble=ensemble,
        normalize=normalize,
        word_scores=word_scores,
        replace=replace,
        allow_missing=allow_missing,
        cache=cache,
        cache_size=cache_size,
        backoff_lm=backoff_lm,
        unnormalized=unnormalized,
        precision=precision,
        device=device,
        threads=threads,
        progress=show_progress,
    )
    for line in done.summary():
        _logger.info("%s", line)
