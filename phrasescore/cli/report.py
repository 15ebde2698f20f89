"""``phrasescore report``: a page about what models have learned and how systems translate."""

import logging
from typing import Any

import click

from phrasescore.cli import options
from phrasescore.cli.options import Verb, heading
from phrasescore.cli.progress import show_progress
from phrasescore.settings.compute import Compute
from phrasescore.settings.evaluation import Reporting

_logger = logging.getLogger(__name__)


@click.command(cls=Verb)
@options.argument("inputs", metavar="[TABLE|NBEST]...", nargs=-1)
@heading("Networks and features")
@options.files("--model models", "A trained model.", "MODEL")
@heading("Input")
@options.file("--source", "Source sentences, one per line.")
@options.files(
    "--references",
    "Reference translations, one per line; NAME may stand for NAME0, NAME1, ... Repeat the option "
    "for another set of references.",
)
@options.option(
    "--translation translations",
    "The translations of the source by the system NAME. Each NBEST is also a system, whose "
    "translations are the first hypotheses; these systems come first. All others are compared "
    "with the first system.",
    multiple=True,
    metavar="NAME=FILE",
    callback=options.matching("[^=]+=.+", "NAME=FILE"),
)
@options.file("--tuning-report", "A report that tune --report --format json has written.")
@options.file(
    "--experiment", "The folder of phrasescore experiment, which has table.toml.", "FOLDER"
)
@options.of(Reporting, without={"lines"})
@heading("Output")
@options.option(
    "--lines",
    "Show these lines of the source, from 1, instead of random lines.",
    metavar="N,N,...",
    callback=options.matching(
        r"[1-9][0-9]{0,8}(,[1-9][0-9]{0,8})*", "numbers of lines, from 1, with commas between them"
    ),
)
@options.of(Compute, only=("device", "threads"))
@heading("Output")
@options.file(
    "-o --output",
    "The folder of the report, which appears whole or not at all; an older report is replaced.",
    "FOLDER",
    required=True,
)
@options.verbosity
def report(inputs: tuple[str, ...], output: str, **given: Any) -> None:
    """Make a page for a browser about what models have learned and how systems translate.

    Models are compared with the phrase table TABLE; the n-best lists NBEST and each --translation
    are compared with --references and with one another. A section whose input is missing is left
    out, and the page says so. FOLDER gets index.html, which needs no other file and no network, and
    the data in report.json and data/*.tsv.
    """
    from phrasescore.workflows.report import make_report

    given["translations"] = [tuple(pair.split("=", 1)) for pair in given["translations"]]
    if given["lines"] is not None:
        given["lines"] = list(map(int, given["lines"].split(",")))
    given["settings"] = options.take(Reporting, given)
    given["compute"] = options.take(Compute, given)
    done = make_report(inputs, output, **given, progress=show_progress)
    _logger.info("%s", done.summary())
