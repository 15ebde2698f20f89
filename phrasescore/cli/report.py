"""``phrasescore report``: a page that shows what was learned, and what it is good for."""

import re

import click

from phrasescore.cli import options
from phrasescore.cli.report_options import SECTIONS, Settings

_DEFAULTS = Settings()


def _check_translations(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    found = []
    for value in values:
        name, is_given, path = value.partition("=")
        if not (name and is_given and path):
            raise click.BadParameter(f"expected NAME=FILE, got {value!r}", ctx, param)
        found.append((name, path))
    return tuple(found)


def _check_lines(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[int, ...] | None:
    if value is None:
        return None
    if re.fullmatch(r"[1-9][0-9]{0,8}(,[1-9][0-9]{0,8})*", value) is None:
        problem = f"expected numbers of lines, from 1, with commas between them, got {value!r}"
        raise click.BadParameter(problem, ctx, param)
    return tuple(dict.fromkeys(map(int, value.split(","))))


@click.command()
@click.argument("inputs", metavar="[TABLE|NBEST]...", nargs=-1)
@click.option("--model", "models", multiple=True, metavar="MODEL", help="A trained model.")
@click.option("--source", metavar="FILE", help="Source sentences, one a line.")
@click.option(
    "--references",
    multiple=True,
    metavar="FILE",
    help="Reference translations, line by line; give it again for another set of them.",
)
@click.option(
    "--translation",
    "translations",
    multiple=True,
    metavar="NAME=FILE",
    callback=_check_translations,
    help="Translations of the source by a system, with a name for it. The first best ones of an "
    "NBEST are another system's, before these; the first system is the one to compare with.",
)
@click.option("--tuning-report", metavar="FILE", help="What tune --report --format json wrote.")
@click.option("--experiment", metavar="FOLDER", help="Of phrasescore experiment, with its table.")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(SECTIONS),
    help="Make this section, and no other that is not named so.",
)
@click.option(
    "--sentences",
    type=click.IntRange(min=1),
    show_default=str(_DEFAULTS.sentences),
    help="How many sentences are drawn for attention and soft parses.",
)
@click.option(
    "--lines",
    metavar="N,N,...",
    callback=_check_lines,
    help="Take these lines of the source, from 1, and draw none.",
)
@click.option(
    "--points",
    type=click.IntRange(min=1),
    default=_DEFAULTS.points,
    show_default=True,
    help="Phrase pairs drawn for the plot of scores.",
)
@click.option(
    "--map-points",
    type=click.IntRange(min=1),
    default=_DEFAULTS.map_points,
    show_default=True,
    help="Words, phrases or sentences of a map.",
)
@click.option(
    "--long",
    type=click.IntRange(min=1),
    default=_DEFAULTS.long,
    show_default=True,
    help="Words that a source phrase has at least to be listed and mapped.",
)
@click.option(
    "--table-score",
    type=click.IntRange(min=1),
    show_default="3; 1 for a reverse model",
    help="The score of TABLE that says what the model says, from 1.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=1),
    default=_DEFAULTS.seed,
    show_default=True,
    help="Of what is drawn, of t-SNE and of the tests: the same one gives the same report.",
)
@options.device
@options.threads
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    required=True,
    help="Where the report goes, whole or not at all; an older report is replaced.",
)
@options.verbosity
def report(
    inputs: tuple[str, ...],
    models: tuple[str, ...],
    source: str | None,
    references: tuple[str, ...],
    translations: tuple[tuple[str, str], ...],
    tuning_report: str | None,
    experiment: str | None,
    only: tuple[str, ...],
    sentences: int | None,
    lines: tuple[int, ...] | None,
    points: int,
    map_points: int,
    long: int,
    table_score: int | None,
    seed: int,
    device: str,
    threads: int | None,
    output: str,
) -> None:
    """Show what models learned and what systems do: a page for a browser, and its data.

    A phrase table TABLE is set against --model; n-best lists NBEST and --translation are set
    against --references and one another. What a section needs and was not given leaves it out, and
    the page says so. FOLDER has index.html, which needs no other file and no network, report.json
    and data/*.tsv.
    """
    from phrasescore.cli.report_folder import check_folder, write_report
    from phrasescore.cli.report_inputs import read_inputs
    from phrasescore.cli.report_make import make_report

    if sentences is not None and lines is not None:
        raise click.UsageError("--sentences draws lines, and --lines names them: not both")
    settings = Settings(
        points=points,
        map_points=map_points,
        long=long,
        table_score=table_score,
        sentences=sentences or _DEFAULTS.sentences,
        lines=lines,
        sentences_wanted=sentences is not None or lines is not None,
        seed=seed,
        device=device,
        threads=threads,
        only=only,
    )
    given = [*inputs, *models, *references, *(path for _, path in translations)]
    given += [path for path in (source, tuning_report, experiment) if path is not None]
    check_folder(output, given)
    found = read_inputs(
        inputs,
        models,
        source,
        references,
        translations,
        tuning_report=tuning_report,
        experiment=experiment,
        settings=settings,
    )
    write_report(make_report(found), output)
