"""``phrasescore score``: score parallel text."""

import logging
from typing import Any

import click

from phrasescore.cli import foreign_options, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import heading

_logger = logging.getLogger(__name__)


@click.command(cls=options.OrderedColumns)
@options.argument("source", metavar="SOURCE")
@options.argument("target", metavar="TARGET")
@heading("Networks and features")
@options.models
@foreign_options.foreign_models
@options.features
@options.language_models
@options.lexicons
@options.ensemble
@heading("Output")
@options.word_scores
@heading("Speed")
@options.cache
@heading("Networks and features")
@options.cslm
@heading("Output")
@options.output
@heading("Speed")
@options.computing
@options.engine
@options.verbosity
@click.pass_context
def score(ctx: click.Context, /, source: str, target: str, output: str, **settings: Any) -> None:
    """Print the scores of each sentence of SOURCE with its translation in TARGET, a line for each.

    Both are tokenised, a sentence a line. A model's score is the natural logarithm of
    p(translation | sentence), end symbol included, or of the reverse. Several columns are separated
    by tabs, in the order of the options.
    """
    from phrasescore.workflows.score import score as run

    columns = foreign_options.take_columns(ctx, settings)
    settings["engine"] = options.take_engine(settings)
    done = run(source, target, columns, output, **settings, progress=show_progress)
    for line in done.summary():
        _logger.info("%s", line)
