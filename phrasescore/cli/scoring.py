"""``phrasescore annotate``, ``rescore`` and ``score``: add scores to tables, lists and text."""

import logging
from typing import Any

import click

from phrasescore.cli import columns, next_step, options
from phrasescore.cli.options import heading
from phrasescore.cli.progress import show_progress
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import grouped
from phrasescore.settings.scoring import Rescoring, TextScoring

_logger = logging.getLogger(__name__)


@options.verb(
    "Add scores of networks to a system's phrase table",
    "annotate system --model model -o new-system",
    columns.OrderedColumns,
    main="--model --feature -o --for --resume --workers",
)
@options.argument("table", metavar="SYSTEM|TABLE")
@columns.of_tables
@options.output
@heading("Input")
@options.files(
    "--for texts",
    "Keep only lines whose source occurs in this text, which has one tokenised sentence per line.",
    "TEXT",
)
@options.resume
@options.of(Compute)
@click.pass_context
def annotate(ctx: click.Context, /, table: str, output: str, **given: Any) -> None:
    """Add one score column per model or feature to the phrase table of SYSTEM, or to TABLE.

    For a SYSTEM, the output is the folder of a new system, in which the new columns have weight 0.
    They follow the table's own columns, in the order of the options; all other bytes are unchanged.
    As Moses expects, a column holds probabilities: exp of a natural logarithm.
    """
    from phrasescore.workflows.annotate import annotate as run

    wanted = columns.take_columns(ctx, given)
    done = run(table, wanted, output, **grouped(run, given), progress=show_progress)
    if given["texts"]:
        counts = f"{done.scored:,} of {done.lines:,}"
        _logger.info("%s lines have a source that occurs in the texts", counts)
    next_step.suggest()


@options.verb(
    "Add scores of networks to n-best lists",
    "rescore nbest.gz --source dev.en --model model -o nbest.new.gz",
    columns.OrderedColumns,
    main="--source --model --feature --lm -o --resume --workers --device",
)
@options.argument("nbest", metavar="NBEST")
@heading("Input")
@options.file("--source", "The tokenised source sentences.", "SRC", required=True)
@columns.of_lists
@columns.named_scores
@options.of(Rescoring)
@options.output
@options.resume
@options.of(Compute)
@click.pass_context
def rescore(ctx: click.Context, /, nbest: str, source: str, output: str, **given: Any) -> None:
    """Add features to the hypotheses of NBEST, an n-best list in Moses' format.

    A model's score is the natural logarithm of p(hypothesis | source), or of p(source |
    hypothesis), and includes the end symbol. New features are appended to field 3; all other
    bytes are unchanged.
    """
    from phrasescore.workflows.rescore import rescore as run

    wanted = columns.take_columns(ctx, given)
    done = run(nbest, source, wanted, output, **grouped(run, given), progress=show_progress)
    for line in done.summary():
        _logger.info("%s", line)
    next_step.suggest()


@options.verb(
    "Score sentences and their translations",
    "score test.en test.fr --model model -o scores.tsv",
    columns.OrderedColumns,
    main="--model --feature --lm -o --workers --device",
)
@options.argument("source", metavar="SOURCE")
@options.argument("target", metavar="TARGET")
@columns.of_text
@options.of(TextScoring)
@options.output
@options.of(Compute)
@click.pass_context
def score(ctx: click.Context, /, source: str, target: str, output: str, **given: Any) -> None:
    """Print a line of scores for each sentence in SOURCE and its translation in TARGET.

    Both files have one tokenised sentence per line. A model's score is the natural logarithm of
    p(translation | sentence), or of p(sentence | translation), and includes the end symbol. Columns
    are separated by tabs, in the order of the options.
    """
    from phrasescore.workflows.score import score as run

    wanted = columns.take_columns(ctx, given)
    done = run(source, target, wanted, output, **grouped(run, given), progress=show_progress)
    for line in done.summary():
        _logger.info("%s", line)
    next_step.suggest()
