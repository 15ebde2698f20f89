"""``phrasescore report``: a page about what models have learned and how systems translate."""

import logging
from typing import Any

import click

from phrasescore.cli import options
from phrasescore.cli.options import heading
from phrasescore.cli.progress import show_progress
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import grouped
from phrasescore.settings.evaluation import SECTIONS

_logger = logging.getLogger(__name__)


@options.verb(
    "Make a page about networks and translations",
    "report phrase-table.gz --model model -o page",
    main="--model --source --references --translation --experiment -o",
)
@options.argument("inputs", metavar="[TABLE|NBEST]...", nargs=-1)
@heading("Input")
@options.files("--model models", "A trained model. May be repeated.", "MODEL")
@options.file("--source", "Source sentences, one per line.")
@options.references()
@options.option(
    "--translation translations",
    "The translations of the source from the system NAME. The first hypotheses of each NBEST are "
    "also a system, which comes before these. All systems are compared with the first one.",
    multiple=True,
    metavar="NAME=FILE",
    callback=options.matching("[^=]+=.+", "NAME=FILE"),
)
@options.file("--tuning-report", "A report written by tune --report --format json.")
@options.file(
    "--experiment",
    "The output folder of phrasescore experiment. Without --references and --translation, its "
    "first test text is used, with the translations by its rows.",
    "FOLDER",
)
@heading("Content of the page")
@options.option(
    "--only",
    "Include only this section of the report. May be repeated.",
    multiple=True,
    type=click.Choice(SECTIONS),
)
@options.of(Compute, only=("device", "threads"))
@heading("Output")
@options.file(
    "-o --output",
    "The folder for the report, written atomically; an older report is replaced.",
    "FOLDER",
    required=True,
)
def report(inputs: tuple[str, ...], output: str, **given: Any) -> None:
    """Make a page for a browser about what models have learned and how systems translate.

    Models are compared with the phrase table TABLE; the n-best lists NBEST and each --translation
    are compared with --references and with one another. A section whose input is missing is
    omitted, and the page says so. FOLDER contains index.html, which needs no other files and no
    network access, and the data in report.json and data/*.tsv.
    """
    from phrasescore.workflows.report import make_report

    given["translations"] = [tuple(pair.split("=", 1)) for pair in given["translations"]]
    given = grouped(make_report, given)
    command = options.typed_command()
    done = make_report(inputs, output, **given, command=command, progress=show_progress)
    _logger.info("%s", done.summary())
