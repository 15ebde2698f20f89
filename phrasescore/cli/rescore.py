"""``phrasescore rescore``: add features to n-best lists."""

import logging
from typing import Any

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import heading
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Rescoring

_logger = logging.getLogger(__name__)


@click.command(cls=options.OrderedColumns)
@options.argument("nbest", metavar="NBEST")
@heading("Input")
@options.file("--source", "What was translated, tokenised.", "SRC", required=True)
@heading("Networks and features")
@options.models
@options.foreign_models
@options.features
@options.language_models
@options.lexicons
@options.named_scores
@from_settings.of(Rescoring)
@heading("Output")
@options.word_scores
@options.output
@heading("Long runs")
@options.flag("--resume", "Continue a run of this command that was killed.")
@from_settings.of(Compute)
@options.verbosity
@click.pass_context
def rescore(ctx: click.Context, /, nbest: str, source: str, output: str, **given: Any) -> None:
    """Add features to the hypotheses of NBEST, an n-best list as Moses writes it.

    A model's is the natural logarithm of p(hypothesis | source), end symbol included, or of the
    reverse. Each goes to the end of field 3; every other byte stays.
    """
    from phrasescore.workflows.rescore import rescore as run

    columns = options.take_foreign_columns(ctx, given)
    given["settings"] = from_settings.take(Rescoring, given)
    given["compute"] = from_settings.take(Compute, given)
    done = run(nbest, source, columns, output, **given, progress=show_progress)
    for line in done.summary():
        _logger.info("%s", line)
