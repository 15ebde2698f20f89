"""``phrasescore join``: make one file of the parts of a run."""

import logging
from typing import Any

import click

from phrasescore.cli import options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading

_logger = logging.getLogger(__name__)


@click.command(cls=Verb)
@options.argument("parts", metavar="PART...", nargs=-1, required=True)
@heading("Output")
@options.output
@heading("Input")
@options.file("--moses-ini", "Of parts of a table: the moses.ini that uses the table.", "IN")
@heading("Output")
@options.file("--moses-ini-out", "Where it goes with the new columns in it.", "OUT")
@heading("Input")
@options.flag(
    "--allow-unlike",
    "Let the parts' machines differ in processor or torch, and so in the last bits of values.",
)
@options.verbosity
def join(parts: tuple[str, ...], output: str, **settings: Any) -> None:
    """Join all files PART that --part has made of one run, in any order.

    The result has the bytes of one run without --part. Parts that are missing, there twice,
    changed, or of another run are refused.
    """
    from phrasescore.workflows.join import join as run

    done = run(parts, output, **settings, progress=show_progress)
    _logger.info("%s: %d parts, %s %s", done.verb, done.parts, f"{done.size:,}", done.unit)
