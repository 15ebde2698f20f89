"""``phrasescore evaluate``: how good translations are, and whether a difference is chance."""

from typing import get_args

import click

from phrasescore.arguments import MetricName, PairedTestName, ReportFormat, SideName, Tokenizer
from phrasescore.cli import options
from phrasescore.cli.progress import show_progress


@click.command()
@click.argument("hypotheses", metavar="[HYP]...", nargs=-1)
@click.option(
    "--references",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Reference translations, line by line; give it again for another set of them.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    type=click.Choice(get_args(MetricName)),
    default=("multi-bleu", "bleu"),
    show_default=True,
    help="multi-bleu is the papers' figure, of text as it is split; the others are sacrebleu's.",
)
@click.option(
    "--tokenize",
    type=click.Choice(get_args(Tokenizer)),
    default="none",
    show_default=True,
    help="How the metric bleu splits text: none for tokenised text, 13a for plain text.",
)
@click.option(
    "--paired",
    type=click.Choice(get_args(PairedTestName)),
    help="Test each system against the first: bootstrap, or approximate randomization.",
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    show_default="1000 for bootstrap, 10000 for approximate",
    help="Samples drawn for --paired.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=1),
    default=12345,
    show_default=True,
    help="Of --paired; the same one gives the same p-values as in sacrebleu.",
)
@click.option(
    "--nbest",
    metavar="NBEST",
    help="Say what BLEU the best choice from these n-best lists has (their oracle).",
)
@click.option(
    "--by-length",
    multiple=True,
    type=click.Choice(get_args(SideName)),
    help="Tell BLEU by the number of words in the source, or in the first reference.",
)
@click.option(
    "--width",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How many lengths share a group.",
)
@click.option(
    "--by-unknown",
    metavar="MODEL|VOCAB",
    help="Tell BLEU by the number of words that a model does not know, or that are not in a list.",
)
@click.option("--source", metavar="FILE", help="The source, for --by-length and --by-unknown.")
@click.option("--plot", metavar="FILE", help="Draw these figures: a name in .png, .svg or .pdf.")
@options.output
@options.report_format
@options.verbosity
def evaluate(
    hypotheses: tuple[str, ...],
    references: tuple[str, ...],
    metrics: tuple[MetricName, ...],
    tokenize: Tokenizer,
    paired: PairedTestName | None,
    trials: int | None,
    seed: int,
    nbest: str | None,
    by_length: tuple[SideName, ...],
    width: int,
    by_unknown: str | None,
    source: str | None,
    plot: str | None,
    output: str,
    report_format: ReportFormat,
) -> None:
    """Measure translations HYP against references: one sentence per line in every file.

    Every figure of sacrebleu comes with its signature. The figures of groups and of n-best lists
    are those of multi-bleu: text as it is split, and no smoothing.
    """
    from phrasescore.workflows.evaluate import evaluate as run

    run(
        hypotheses,
        references,
        metrics=metrics,
        tokenize=tokenize,
        paired=paired,
        trials=trials,
        seed=seed,
        nbest=nbest,
        by_length=by_length,
        width=width,
        by_unknown=by_unknown,
        source=source,
        plot=plot,
        output=output,
        report_format=report_format,
        progress=show_progress,
    )
