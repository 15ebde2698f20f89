"""``phrasescore rescore``: add features to n-best lists."""

import logging
from typing import Any

import click

from phrasescore.cli import foreign_options, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import heading

_logger = logging.getLogger(__name__)


@click.command(cls=options.OrderedColumns)
@options.argument("nbest", metavar="NBEST")
@heading("Input")
@options.file("--source", "What was translated, tokenised.", "SRC", required=True)
@heading("Networks and features")
@options.models
@foreign_options.foreign_models
@options.features
@options.language_models
@options.lexicons
@options.named_scores
@options.option(
    "--name names",
    "Name of a new feature: one per column in the order of the options, then the ensemble's.",
    multiple=True,
    metavar="NAME",
    show_default="LSTM0, Attention0, RNN0, CSLM0, CT20, KenLM0, UnknownWords0 and so on",
)
@options.ensemble
@options.flag(
    "--normalize",
    "For each network one more column, NAMENorm: its score divided by predicted words and end "
    "symbol.",
)
@heading("Output")
@options.word_scores
@options.flag("--replace", "Remove features that have a new one's name, where they are.")
@heading("Input")
@options.flag("--allow-missing", "Let source sentences have no hypotheses at all.")
@heading("Speed")
@options.cache
@heading("Networks and features")
@options.cslm
@heading("Output")
@options.output
@heading("Long runs")
@options.flag("--resume", "Go on with a run of this command that was killed.")
@heading("Speed")
@options.computing
@options.engine
@options.verbosity
@click.pass_context
def rescore(ctx: click.Context, /, nbest: str, source: str, output: str, **settings: Any) -> None:
    """Add features to the hypotheses of NBEST, an n-best list as Moses writes it.

    A model's is the natural logarithm of p(hypothesis | source), end symbol included, or of the
    reverse. Each goes to the end of field 3; every other byte stays.
    """
    from phrasescore.workflows.rescore import rescore as run

    columns = foreign_options.take_columns(ctx, settings)
    settings["engine"] = options.take_engine(settings)
    done = run(nbest, source, columns, output, **settings, progress=show_progress)
    for line in done.summary():
        _logger.info("%s", line)
