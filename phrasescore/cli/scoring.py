"""``phrasescore annotate``, ``rescore`` and ``score``: add scores to tables, lists and text."""

import logging
from collections.abc import Collection
from typing import Any

import click

from phrasescore.cli import next_step, options
from phrasescore.cli.options import heading
from phrasescore.cli.progress import show_progress
from phrasescore.features.columns import COLUMN_KINDS, Column, load_kind, parse_column
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import grouped
from phrasescore.settings.scoring import Rescoring, TextScoring

_logger = logging.getLogger(__name__)

_SUBJECT: options.Subject = "Networks and features"

_named_scores = options.files(
    "--scores named_scores_columns",
    "Add the scores in FILE, one number per line of the lists, as the feature NAME.",
    "FILE=NAME",
    callback=options.matching(".+=.+", "FILE=NAME"),
    subject=_SUBJECT,
)
_general = options.option(
    "--column column_columns",
    "Add a column with options, as in 'model = \"joint\", unnormalized = true'. Every kind of "
    "column has the option name, its name in n-best lists.",
    multiple=True,
    metavar="COLUMN",
    subject=_SUBJECT,
)


def _column_options(names: Collection[str]) -> options.Decorator:
    """Return an option for each kind of column, and ``--column`` for all kinds."""
    of_kinds = [
        options.option(
            f"--{name.replace('_', '-')} {name}_columns",
            line.help,
            type=options.FILE_NAME if line.metavar in ("MODEL", "FOLDER", "FILE") else str,
            multiple=True,
            metavar=line.metavar,
            subject=_SUBJECT,
        )
        for name, line in ((name, COLUMN_KINDS[name]) for name in names)
    ]
    return options.together(*of_kinds, _general)


_of_tables = _column_options(
    [name for name, kind in COLUMN_KINDS.items() if not kind.not_of_phrases]
)
_of_lists = _column_options([name for name in COLUMN_KINDS if name != "scores"])
_of_text = _column_options(["model", "ctranslate2", "command", "feature", "lm"])


def _take_columns(ctx: click.Context, given: dict[str, Any]) -> list[Column]:
    """Remove the columns from a command's parameters; return them in command-line order."""
    names = [name for name in given if name.endswith("_columns")]
    values = {name: iter(given.pop(name)) for name in names}
    order = [name for name in ctx.meta[options.ORDER] if name in values]
    return [_column(name.removesuffix("_columns"), next(values[name])) for name in order]


def _column(name: str, value: str) -> Column:
    if name == "column":
        return parse_column(value)
    if name == "named_scores":
        path, _, name = value.rpartition("=")
        return load_kind("scores").of(path, name)
    return load_kind(name).of(value)


@options.verb(
    "Add scores of networks to a system's phrase table",
    "annotate system --model model -o new-system",
    main="--model --feature -o --for --resume --workers",
)
@options.argument("table", metavar="SYSTEM|TABLE")
@_of_tables
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

    wanted = _take_columns(ctx, given)
    done = run(table, wanted, output, **grouped(run, given), progress=show_progress)
    if given["texts"]:
        counts = f"{done.scored:,} of {done.lines:,}"
        _logger.info("%s lines have a source that occurs in the texts", counts)
    next_step.suggest()


@options.verb(
    "Add scores of networks to n-best lists",
    "rescore nbest.gz --source dev.en --model model -o nbest.new.gz",
    main="--source --model --feature --lm -o --resume --workers --device",
)
@options.argument("nbest", metavar="NBEST")
@heading("Input")
@options.file("--source", "The tokenised source sentences.", "SRC", required=True)
@_of_lists
@_named_scores
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

    wanted = _take_columns(ctx, given)
    done = run(nbest, source, wanted, output, **grouped(run, given), progress=show_progress)
    for line in done.summary():
        _logger.info("%s", line)
    next_step.suggest()


@options.verb(
    "Score sentences and their translations",
    "score test.en test.fr --model model -o scores.tsv",
    main="--model --feature --lm -o --workers --device",
)
@options.argument("source", metavar="SOURCE")
@options.argument("target", metavar="TARGET")
@_of_text
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

    wanted = _take_columns(ctx, given)
    done = run(source, target, wanted, output, **grouped(run, given), progress=show_progress)
    for line in done.summary():
        _logger.info("%s", line)
    next_step.suggest()
