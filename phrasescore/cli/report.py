"""``phrasescore report``: a page of what models have learned and systems do."""

import logging
import re
from typing import Any

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from phrasescore.settings.compute import Compute
from phrasescore.settings.evaluation import Reporting

_logger = logging.getLogger(__name__)


def _check_translations(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> list[tuple[str, str]]:
    found = []
    for value in values:
        name, _, path = value.partition("=")
        if not (name and path):
            raise click.BadParameter(f"expected NAME=FILE, got {value!r}", ctx, param)
        found.append((name, path))
    return found


def _check_lines(ctx: click.Context, param: click.Parameter, value: str | None) -> list[int] | None:
    if value is None:
        return None
    if re.fullmatch(r"[1-9][0-9]{0,8}(,[1-9][0-9]{0,8})*", value) is None:
        problem = f"expected numbers of lines, from 1, with commas between them, got {value!r}"
        raise click.BadParameter(problem, ctx, param)
    return list(map(int, value.split(",")))


@click.command(cls=Verb)
@options.argument("inputs", metavar="[TABLE|NBEST]...", nargs=-1)
@heading("Networks and features")
@options.files("--model models", "A trained model.", "MODEL")
@heading("Input")
@options.file("--source", "Source sentences, one per line.")
@options.files(
    "--references",
    "Reference translations, aligned with the source, or NAME for NAME0, NAME1, ...; repeat it for "
    "another set of them.",
)
@options.option(
    "--translation translations",
    "Translations of the source by the system NAME. The first best ones of each NBEST are a "
    "system, too, and come before these; the others are compared with the first system.",
    multiple=True,
    metavar="NAME=FILE",
    callback=_check_translations,
)
@options.file("--tuning-report", "Written by tune --report --format json.")
@options.file("--experiment", "Of phrasescore experiment, with its table.toml.", "FOLDER")
@from_settings.of(Reporting, without={"lines"})
@heading("Output")
@options.option(
    "--lines",
    "Show these lines of the source, from 1, instead of drawn ones.",
    metavar="N,N,...",
    callback=_check_lines,
)
@from_settings.of(Compute, only=("device", "threads"))
@heading("Output")
@options.file(
    "-o --output",
    "Where the report goes, whole or not at all; an older report is replaced.",
    "FOLDER",
    required=True,
)
@options.verbosity
def report(inputs: tuple[str, ...], output: str, **given: Any) -> None:
    """Make a page, for a browser, of what models have learned and systems do, and its data.

    Models are compared with the phrase table TABLE; the n-best lists NBEST and each --translation
    are compared with --references and with one another. A section that lacks an input is left out,
    and the page says so. FOLDER has index.html, which needs no other file and no network,
    report.json and data/*.tsv.
    """
    from phrasescore.workflows.report import make_report

    given["settings"] = from_settings.take(Reporting, given)
    given["compute"] = from_settings.take(Compute, given)
    done = make_report(inputs, output, **given, progress=show_progress)
    _logger.info("%s", done.summary())
