"""``phrasescore evaluate``: how good translations are, and whether a difference is chance."""

import os
from typing import TYPE_CHECKING, Literal

import click

from phrasescore.cli import options
from phrasescore.errors import DataError

if TYPE_CHECKING:
    from phrasescore.cli.evaluate_report import Report

MULTI_BLEU = "multi-bleu"
METRICS = (MULTI_BLEU, "bleu", "chrf", "chrf++", "ter")
# sacrebleu's tokenizers that need no further package and no download.
TOKENIZERS = ("none", "13a", "intl", "char", "zh")
# What sacrebleu draws by default.
TRIALS = {"bootstrap": 1000, "approximate": 10000}
PLOT_FORMATS = ("pdf", "png", "svg")
SIDES = ("source", "reference")


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
    type=click.Choice(METRICS),
    default=METRICS[:2],
    show_default=True,
    help="multi-bleu is the papers' figure, of text as it is split; the others are sacrebleu's.",
)
@click.option(
    "--tokenize",
    type=click.Choice(TOKENIZERS),
    default="none",
    show_default=True,
    help="How the metric bleu splits text: none for tokenised text, 13a for plain text.",
)
@click.option(
    "--paired",
    type=click.Choice(sorted(TRIALS)),
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
    type=click.Choice(SIDES),
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
    metrics: tuple[str, ...],
    tokenize: str,
    paired: Literal["bootstrap", "approximate"] | None,
    trials: int | None,
    seed: int,
    nbest: str | None,
    by_length: tuple[str, ...],
    width: int,
    by_unknown: str | None,
    source: str | None,
    plot: str | None,
    output: str,
    report_format: str,
) -> None:
    """Measure translations HYP against references: one sentence a line in every file.

    Every figure of sacrebleu comes with its signature. The figures of groups and of n-best lists
    are those of multi-bleu: text as it is split, and no smoothing.
    """
    from phrasescore.cli import evaluate_figures as figures
    from phrasescore.cli.evaluate_report import Report, SystemReport
    from phrasescore.cli.reference_check import warn_of_texts
    from phrasescore.evaluation.sentences import check_aligned, read_sentences
    from phrasescore.io.file_names import check_files
    from phrasescore.io.output import open_output
    from tuning.bleu import Bleu

    _check_options(hypotheses, metrics, paired, trials, nbest, by_length, by_unknown, source, plot)
    inputs = (*hypotheses, *references, *(name for name in (nbest, source) if name is not None))
    if inputs.count("-") > 1:
        raise click.UsageError("only one of the files can be stdin")
    check_files(inputs, (output, plot))

    wanted = [read_sentences(path) for path in references]
    systems = [read_sentences(path) for path in hypotheses]
    for system in systems:
        if system.texts[0].count(" ||| ") >= 3:
            problem = "expected a translation a line, found an n-best list: name it with --nbest"
            raise DataError(system.path, 1, problem)
    sources = read_sentences(source) if source is not None else None
    check_aligned([*wanted, *systems, *([sources] if sources else ())])
    warn_of_texts(systems, wanted)

    tokenised = Bleu([sentences.words for sentences in wanted])
    names = [name for name in dict.fromkeys(metrics) if name != MULTI_BLEU]
    test = None if paired is None else figures.Test(paired, trials or TRIALS[paired], seed)
    scores, comparisons = figures.by_sacrebleu(names, wanted, systems, tokenize, test)
    multi_bleu = MULTI_BLEU in metrics
    breakdowns = figures.breakdowns(by_length, width, by_unknown, sources, wanted[0])
    report = Report(
        references=list(references),
        sentences=tokenised.num_segments,
        systems=[
            SystemReport(
                system.path,
                system.num_empty,
                figures.multi_bleu(tokenised, system) if multi_bleu else None,
                found,
            )
            for system, found in zip(systems, scores, strict=True)
        ],
        test=test,
        comparisons=comparisons,
        nbest=figures.of_lists(nbest, tokenised, wanted) if nbest is not None else None,
        breakdowns=figures.of_breakdowns(tokenised, systems, breakdowns),
    )
    if plot is not None:
        _draw(plot, report)
    text = report.to_json() if report_format == "json" else report.to_text()
    with open_output(output) as stream:
        stream.write(text.encode())


def _draw(path: str, report: "Report") -> None:
    from phrasescore.evaluation.plots import Panel, draw
    from phrasescore.io.output import open_output

    panels = [
        Panel(
            f"{breakdown.title} (sentences)",
            [f"{row.label}\n({row.sentences:,})" for row in breakdown.rows],
            [list(line) for line in zip(*(row.bleu for row in breakdown.rows), strict=True)],
        )
        for breakdown in report.breakdowns
    ]
    image = draw(panels, [system.path for system in report.systems], _ending(path))
    with open_output(path) as stream:
        stream.write(image)


def _check_options(
    hypotheses: tuple[str, ...],
    metrics: tuple[str, ...],
    paired: str | None,
    trials: int | None,
    nbest: str | None,
    by_length: tuple[str, ...],
    by_unknown: str | None,
    source: str | None,
    plot: str | None,
) -> None:
    """Refuse options that do not go together."""
    if not hypotheses and nbest is None:
        raise click.UsageError("nothing to evaluate: give HYP, or --nbest")
    if paired is not None and len(hypotheses) < 2:
        raise click.UsageError("--paired needs a HYP to compare with the first")
    if paired is not None and set(metrics) == {MULTI_BLEU}:
        raise click.UsageError("--paired needs a --metric of sacrebleu, such as bleu")
    if trials is not None and paired is None:
        raise click.UsageError("--trials goes with --paired")
    grouped = bool(by_length) or by_unknown is not None
    if grouped and not hypotheses:
        raise click.UsageError("--by-length and --by-unknown need HYP")
    if "source" in by_length and source is None:
        raise click.UsageError("--by-length source needs --source")
    if source is not None and "source" not in by_length and by_unknown is None:
        raise click.UsageError("--source goes with --by-length source and --by-unknown")
    if plot is not None:
        if not grouped:
            raise click.UsageError("--plot goes with --by-length and --by-unknown")
        if _ending(plot) not in PLOT_FORMATS:
            endings = ", ".join(f".{name}" for name in PLOT_FORMATS)
            raise click.UsageError(f"--plot: expected a name in {endings}, got {plot!r}")


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].removeprefix(".").lower()
