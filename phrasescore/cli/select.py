"""``phrasescore select``: keep the training text that is like the text to be translated."""

import logging
from typing import Any

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from phrasescore.settings.evaluation import Selecting

_logger = logging.getLogger(__name__)


@click.command(cls=Verb)
@options.argument("text", metavar="TEXT")
@options.argument("target", metavar="[TARGET]", required=False)
@heading("Networks and features")
@options.file("--in-domain", "An n-gram model of the wanted kind of text.", "LM")
@options.file("--general", "An n-gram model of text such as TEXT.", "LM")
@options.file("--in-domain-target", "Likewise for TARGET: both sides add up.", "LM")
@options.file("--general-target", "Likewise for TARGET.", "LM")
@from_settings.of(Selecting)
@heading("Output")
@options.file("--scores differences", "Write the difference of each line, one per line.")
@options.output
@options.file("--target-output", "Where the lines of TARGET go.")
@options.verbosity
def select(text: str, output: str, **given: Any) -> None:
    """Keep the lines of TEXT, tokenised sentences, that are most like an in-domain text.

    The difference of the cross-entropies under two n-gram models decides (Moore and Lewis, 2010).
    With TARGET, the other side of parallel text, pairs stay together, and the models of both sides
    add up if they are given (Axelrod et al., 2011). Lines stay as they are, in their order.
    """
    from phrasescore.workflows.select import select as run

    given["settings"] = from_settings.take(Selecting, given)
    done = run(text, output, **given, progress=show_progress)
    kept = f"select: kept {done.kept:,} of {done.lines:,} lines"
    if done.highest_difference is not None:
        kept += f"; differences up to {done.highest_difference:.4f}"
    _logger.info("%s", kept)
