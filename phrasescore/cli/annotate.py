"""``phrasescore annotate``: add score columns to a phrase table."""

import logging
from typing import Any

import click

from phrasescore.cli import options
from phrasescore.cli.progress import show_progress

_logger = logging.getLogger(__name__)


@click.command(cls=options.OrderedColumns)
@click.argument("table", metavar="TABLE")
@options.models
@options.features
@options.lexicons
@options.output
@click.option("--moses-ini", metavar="IN", help="The moses.ini that uses the table.")
@click.option("--moses-ini-out", metavar="OUT", help="Where it goes with the new columns in it.")
@click.option("--resume", is_flag=True, help="Go on with a run of this command that was killed.")
@options.precision
@options.device
@options.threads
@options.verbosity
@click.pass_context
def annotate(
    ctx: click.Context,
    /,
    table: str,
    models: tuple[str, ...],
    features: tuple[str, ...],
    lexicons: tuple[str, ...],
    reverse_lexicons: tuple[str, ...],
    output: str,
    **settings: Any,
) -> None:
    """Add one score column per model or feature to the phrase table TABLE.

    The columns come after the table's own, in the order of the options; every other byte stays.
    A column holds probabilities, exp of a natural logarithm, as Moses wants them.
    """
    from phrasescore.workflows.annotate import annotate as add_columns

    columns = options.column_order(
        ctx,
        models=models,
        features=features,
        lexicons=lexicons,
        reverse_lexicons=reverse_lexicons,
    )
    done = add_columns(table, columns, output, **settings, progress=show_progress)
    for summary in done.columns:
        _logger.info("%s", summary)
