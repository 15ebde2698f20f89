"""``phrasescore score``: score parallel text."""

import logging
from typing import Any

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import heading
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import TextScoring

_logger = logging.getLogger(__name__)


@click.command(cls=options.OrderedColumns)
@options.argument("source", metavar="SOURCE")
@options.argument("target", metavar="TARGET")
@heading("Networks and features")
@options.models
@options.foreign_models
@options.features
@options.language_models
@options.lexicons
@from_settings.of(TextScoring)
@heading("Output")
@options.word_scores
@options.output
@from_settings.of(Compute)
@options.verbosity
@click.pass_context
def score(ctx: click.Context, /, source: str, target: str, output: str, **given: Any) -> None:
    """Print the scores of each sentence of SOURCE with its translation in TARGET, a line for each.

    Both are tokenised, a sentence a line. A model's score is the natural logarithm of
    p(translation | sentence), end symbol included, or of the reverse. Several columns are separated
    by tabs, in the order of the options.
    """
    from phrasescore.workflows.score import score as run

    columns = options.take_foreign_columns(ctx, given)
    given["settings"] = from_settings.take(TextScoring, given)
    given["compute"] = from_settings.take(Compute, given)
    done = run(source, target, columns, output, **given, progress=show_progress)
    for line in done.summary():
        _logger.info("%s", line)
