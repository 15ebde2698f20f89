"""``phrasescore evaluate``: how good translations are, and whether a difference is chance."""

from typing import Any

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from phrasescore.settings.evaluation import Evaluating


@click.command(cls=Verb)
@options.argument("hypotheses", metavar="[HYP]...", nargs=-1)
@heading("Input")
@options.files(
    "--references",
    "Reference translations, line by line, or NAME for NAME0, NAME1, ...; repeat it for another "
    "set of references.",
    required=True,
)
@options.file(
    "--nbest",
    "Measure the oracle of these n-best lists, too: the choice from them with the highest BLEU.",
    "NBEST",
)
@options.file("--source", "The source, for --by-length and --by-unknown.")
@from_settings.of(Evaluating)
@heading("Output")
@options.file("--plot", "Draw these figures: a name in .png, .svg or .pdf.")
@options.output
@options.report_format
@options.verbosity
def evaluate(**given: Any) -> None:
    """Measure translations HYP against references: one sentence per line in every file.

    Every figure of sacrebleu comes with its signature. The figures of groups and of n-best lists
    are multi-bleu's: of text as it is split, without smoothing.
    """
    from phrasescore.workflows.evaluate import evaluate as run

    given["settings"] = from_settings.take(Evaluating, given)
    run(**given, progress=show_progress)
