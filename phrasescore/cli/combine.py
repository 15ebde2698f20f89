"""``phrasescore combine``: join the n-best lists of several systems."""

import logging

import click

from phrasescore.cli import options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading

_logger = logging.getLogger(__name__)


@click.command(cls=Verb)
@options.argument("lists", metavar="NBEST...", nargs=-1, required=True)
@heading("Output")
@options.output
@options.verbosity
def combine(lists: tuple[str, ...], output: str) -> None:
    """Join all files NBEST: for each sentence one list of all systems' hypotheses.

    The first file is the decoder's. Of hypotheses of the same words those of the earliest file are
    kept. Features Made0, Made1 and so on say which files have a hypothesis. The decoder's features,
    where it lacks them, are those of the decoder's hypothesis with the lowest total.
    """
    from phrasescore.workflows.combine import combine as run

    done = run(lists, output, progress=show_progress)
    for path, name, count in zip(lists, done.features, done.hypotheses, strict=True):
        _logger.info("%s: %s hypotheses of %s", name, f"{count:,}", path)
    if done.filled:
        _logger.info("filled where they were lacking: %s", ", ".join(done.filled))
    if done.left_out:
        text = "left out, because the first file lacks them: %s; rescore adds them to all"
        _logger.info(text, ", ".join(done.left_out))
