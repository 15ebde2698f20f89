"""Write text to stdout and messages to stderr, with coloured warnings on a terminal.

There is no colour if the environment variable ``NO_COLOR`` is set (https://no-color.org), or if
``TERM`` is ``dumb``.
"""

import logging
import os
import shlex
import sys

import click

from phrasescore.cli.progress import show_progress
from phrasescore.errors import show_controls


def print_text(text: str) -> None:
    """Write text to stdout, with its control characters escaped and a line feed at its end."""
    click.echo(show_controls(text.removesuffix("\n")))


def say(text: str, *, level: str = "") -> None:
    """Write a message to stderr, above the bars, with its control characters escaped.

    :param level: such as ``warning``; it comes before the text, in a colour.
    """
    line = show_controls(text)
    if level:
        line = f"{click.style(f'{level}:', fg='yellow' if level == 'warning' else 'red')} {line}"
    no_colour = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    with show_progress.without_bars():
        click.echo(f"phrasescore: {line}", err=True, color=False if no_colour else None)


class StderrHandler(logging.Handler):
    """Shows log messages on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message, with its level if that is above INFO."""
        level = "" if record.levelno <= logging.INFO else record.levelname.lower()
        say(self.format(record), level=level)


def typed_command() -> str:
    """Return the command that the user typed, as a line for a shell."""
    return shlex.join(["phrasescore", *sys.argv[1:]])
