"""``phrasescore evaluate``: how good translations are, and whether a difference is chance."""

from typing import Any, get_args

import click

from phrasescore.arguments import PairedTestName, SideName, Tokenizer
from phrasescore.cli import options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading


@click.command(cls=Verb)
@options.argument("hypotheses", metavar="[HYP]...", nargs=-1)
@heading("Input")
@options.files(
    "--references",
    "Reference translations, line by line, or NAME for NAME0, NAME1, ...; give it again for "
    "another set of them.",
    required=True,
)
@heading("Method")
@options.option(
    "--metric metrics",
    "multi-bleu is the papers' figure, of text as it is split; bleu, chrf, chrf++ and ter are "
    "sacrebleu's; phrasescore features lists those of other packages.",
    metavar="NAME",
    multiple=True,
    default=("multi-bleu", "bleu"),
)
@options.choice(
    "--tokenize",
    "How the metric bleu splits text: none for tokenised text, 13a for plain text.",
    get_args(Tokenizer),
    default="none",
)
@options.choice(
    "--paired",
    "Test each system against the first: bootstrap, or approximate randomization.",
    get_args(PairedTestName),
)
@options.count(
    "--trials",
    "Samples drawn for --paired.",
    show_default="1000 for bootstrap, 10000 for approximate",
)
@options.count(
    "--seed", "Of --paired; the same one gives the same p-values as in sacrebleu.", default=12345
)
@heading("Input")
@options.file(
    "--nbest",
    "Measure the oracle of these n-best lists, too: the choice from them with the highest BLEU.",
    "NBEST",
)
@options.flag("--allow-missing", "Take an empty translation for a sentence without a list.")
@heading("Method")
@options.choice(
    "--by-length",
    "Tell BLEU by the number of words in the source, or in the first reference.",
    get_args(SideName),
    multiple=True,
)
@options.count("--width", "How many lengths share a group.", default=10)
@options.file(
    "--by-unknown",
    "Tell BLEU by the number of words that a model does not know, or that are not in a list.",
    "MODEL|VOCAB",
)
@heading("Input")
@options.file("--source", "The source, for --by-length and --by-unknown.")
@heading("Output")
@options.file("--plot", "Draw these figures: a name in .png, .svg or .pdf.")
@options.output
@options.report_format
@options.verbosity
def evaluate(**arguments: Any) -> None:
    """Measure translations HYP against references: one sentence per line in every file.

    Every figure of sacrebleu comes with its signature. The figures of groups and of n-best lists
    are those of multi-bleu: text as it is split, and no smoothing.
    """
    from phrasescore.workflows.evaluate import evaluate as run

    run(**arguments, progress=show_progress)
