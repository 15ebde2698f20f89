"""``phrasescore doctor``: what this machine can do."""

import click

from phrasescore.cli import options
from phrasescore.cli.subjects import Verb, heading
from phrasescore.errors import show_controls


@click.command(cls=Verb)
@heading("Output")
@options.report_format
@options.verbosity
def doctor(report_format: str) -> None:
    """Tell what this machine has of what phrasescore can use, and what to do about each.

    Processor, threads, GPU, Moses, KenLM, CTranslate2 and Ray. What is missing is no error: all but
    the verbs and options that are named with it work without it.
    """
    from phrasescore.workflows.doctor import doctor as run

    found = run()
    click.echo(show_controls(found.to_json() if report_format == "json" else found.to_text()))
