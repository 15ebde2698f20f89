"""``phrasescore report`` and ``show``: look at models, systems, experiments and this machine."""

import logging
from typing import Any

import click

from phrasescore.cli import options
from phrasescore.cli.messages import print_text, typed_command
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
@options.argument("table", metavar="[TABLE]", required=False)
@heading("Input")
@options.files("--model models", "A trained model. May be repeated.", "MODEL")
@options.file("--source", "Source sentences, one per line.")
@options.references()
@options.option(
    "--translation translations",
    "The translations of the source from the system NAME. All systems are compared with the first "
    "one.",
    multiple=True,
    metavar="NAME=FILE",
    callback=options.matching("[^=]+=.+", "NAME=FILE"),
)
@options.file(
    "--experiment",
    "The output folder of phrasescore experiment. Its first test text is used, with the "
    "translations by its rows.",
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
def report(table: str | None, output: str, **given: Any) -> None:
    """Make a page for a browser about what models have learned and how systems translate.

    Models are compared with the phrase table TABLE; each --translation is compared with
    --references and with the others. A section whose input is missing is omitted, and the page
    says so. FOLDER contains index.html, which needs no other files and no
    network access, and the data in report.json.
    """
    from phrasescore.report.make_report import make_report

    given["translations"] = [tuple(pair.split("=", 1)) for pair in given["translations"]]
    given = grouped(make_report, given)
    command = typed_command()
    done = make_report(output, table, **given, command=command, progress=show_progress)
    _logger.info("%s", done.summary())


@options.verb("Show what works here, or what a model or a system is", "show model")
@options.argument("path", metavar="[MODEL|SYSTEM|FOLDER]", required=False)
@options.report_format
def show(path: str | None, report_format: str) -> None:
    """Show what a MODEL, a SYSTEM or an experiment's FOLDER consists of.

    Without an argument, show what works on this machine and what is missing, the features for
    --feature and the metrics for --metric, also from other packages. Whatever is missing is no
    error: only the verbs and options next to it need it.
    """
    from phrasescore.workflows.show import show as run

    found = run(path)
    print_text(found.to_json() if report_format == "json" else found.to_text())
