"""``phrasescore features``: the features and metrics that options take by name."""

import click

from phrasescore.cli import options
from phrasescore.cli.subjects import Verb, heading
from phrasescore.errors import show_controls


@click.command(cls=Verb)
@heading("Output")
@options.report_format
@options.verbosity
def features(report_format: str) -> None:
    """List the features of --feature and the metrics of --metric, those of other packages too.

    Packages are found by their entry points, phrasescore.features and phrasescore.metrics. Those
    that are refused are listed with the reason.
    """
    from phrasescore.workflows.doctor import list_features

    found = list_features()
    text = found.to_json() if report_format == "json" else found.to_text()
    click.echo(show_controls(text))
