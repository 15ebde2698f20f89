"""``phrasescore select``: keep the training text that is like the text to be translated."""

import logging
from typing import Any

import click

from phrasescore.cli import options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading

_logger = logging.getLogger(__name__)


@click.command(cls=Verb)
@options.argument("text", metavar="TEXT")
@options.argument("target", metavar="[TARGET]", required=False)
@heading("Networks and features")
@options.file("--in-domain", "An n-gram model of text as it is wanted.", "LM")
@options.file("--general", "An n-gram model of text such as TEXT.", "LM")
@options.file("--in-domain-target", "Likewise for TARGET: both sides add up.", "LM")
@options.file("--general-target", "Likewise for TARGET.", "LM")
@heading("Method")
@options.option(
    "--share",
    "Keep this part of the lines, the best ones: 0.5 for half of them.",
    type=click.FloatRange(min=0, max=1, min_open=True),
)
@options.count("--lines", "Keep this many lines, the best ones.")
@options.option(
    "--threshold",
    "Keep lines with a difference below this, in nats per token; at 0 both models agree.",
    type=float,
)
@options.flag(
    "--random at_random", "Keep as many lines drawn at random, as a baseline. Needs no models."
)
@options.seed
@heading("Output")
@options.file("--scores differences", "Write the difference of each line, one per line.")
@heading("Speed")
@options.count(
    "--processes", "How many processes score at the same time.", show_default="all cores"
)
@heading("Output")
@options.output
@options.file("--target-output", "Where the lines of TARGET go.")
@options.verbosity
def select(text: str, output: str, **settings: Any) -> None:
    """Keep those lines of TEXT, tokenised sentences, that are most like an in-domain text.

    The difference of the cross-entropies under two n-gram models decides (Moore and Lewis, 2010).
    With TARGET, the other side of parallel text, pairs stay together, and the models of both sides
    add up where they are given (Axelrod et al., 2011). Lines stay as they are, in their order.
    """
    from phrasescore.workflows.select import select as run

    done = run(text, output, **settings, progress=show_progress)
    kept = f"select: kept {done.kept:,} of {done.lines:,} lines"
    if done.highest_difference is not None:
        kept += f"; differences up to {done.highest_difference:.4f}"
    _logger.info("%s", kept)
