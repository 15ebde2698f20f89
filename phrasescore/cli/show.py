"""``phrasescore show``: what a model folder or a phrase table holds."""

import click

from phrasescore.cli import options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from phrasescore.errors import show_controls


@click.command(cls=Verb)
@options.argument("path", metavar="MODEL|TABLE")
@heading("Networks and features")
@options.file("--model", "A trained model: report how much of TABLE its shortlists cover.", "MODEL")
@heading("Output")
@options.report_format
@options.verbosity
def show(path: str, model: str | None, report_format: str) -> None:
    """Report what a model folder or a phrase table holds.

    A table is read once, as a stream; '-' is stdin. Logarithms are natural.
    """
    from phrasescore.workflows.show import show as run

    found = run(path, model=model, progress=show_progress)
    text = found.to_json() if report_format == "json" else found.to_text()
    click.echo(show_controls(text))
