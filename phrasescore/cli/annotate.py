"""``phrasescore annotate``: add score columns to a phrase table."""

import logging
from typing import Any

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import heading
from phrasescore.settings.compute import Compute

_logger = logging.getLogger(__name__)


@click.command(cls=options.OrderedColumns)
@options.argument("table", metavar="TABLE")
@heading("Networks and features")
@options.models
@options.features
@options.lexicons
@options.line_scores
@heading("Output")
@options.output
@heading("Input")
@options.file("--moses-ini", "The moses.ini that uses the table.", "IN")
@heading("Output")
@options.file("--moses-ini-out", "Where it goes with the new columns in it.", "OUT")
@heading("Input")
@options.files(
    "--for texts",
    "Keep only lines whose source occurs in this text, a tokenised sentence a line.",
    "TEXT",
)
@options.option(
    "--keep-others",
    "With --for: keep the other lines, too, with this probability in the new columns (1: log 0).",
    type=float,
    metavar="VALUE",
)
@heading("Long runs")
@options.flag("--resume", "Go on with a run of this command that was killed.")
@from_settings.of(Compute)
@options.verbosity
@click.pass_context
def annotate(ctx: click.Context, /, table: str, output: str, **settings: Any) -> None:
    """Add one score column per model or feature to the phrase table TABLE.

    The columns come after the table's own, in the order of the options; every other byte stays.
    A column holds probabilities, exp of a natural logarithm, as Moses wants them.
    """
    from phrasescore.workflows.annotate import annotate as add_columns

    columns = options.take_columns(ctx, settings)
    settings["compute"] = from_settings.take(Compute, settings)
    done = add_columns(table, columns, output, **settings, progress=show_progress)
    if settings["texts"]:
        counts = f"{done.scored:,} of {done.lines:,}"
        _logger.info("%s lines have a source that occurs in the texts", counts)
    for summary in done.columns:
        _logger.info("%s", summary)
