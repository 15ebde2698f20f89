"""Write text to stdout and messages to stderr, in colour on a terminal.

There is no colour if the environment variable ``NO_COLOR`` is set (https://no-color.org), or if
``TERM`` is ``dumb``.
"""

import io
import logging
import os
import re
import shlex
import sys
from collections.abc import Collection

import click

from phrasescore.cli.progress import show_progress
from phrasescore.errors import show_controls

_COLOURS = {"warning": "yellow", "error": "red", "critical": "red"}


def print_text(text: str, *, bold: Collection[int] = ()) -> None:
    """Write text to stdout, with its control characters escaped and a line feed at its end.

    :param bold: the lines, counted from 0, to show in bold on a terminal.
    """
    lines = show_controls(text.removesuffix("\n")).split("\n")
    shown = [click.style(each, bold=True) if n in bold else each for n, each in enumerate(lines)]
    click.echo("\n".join(shown), color=_colour())


def say(text: str, *, level: str = "", bold: bool = False) -> None:
    """Write a message to stderr, above the bars, with its control characters escaped.

    :param level: such as ``warning``; it comes before the text, in a colour.
    """
    line = show_controls(text)
    if bold:
        line = click.style(line, bold=True)
    if level:
        line = f"{click.style(f'{level}:', fg=_COLOURS.get(level))} {line}"
    with show_progress.without_bars():
        click.echo(f"phrasescore: {line}", err=True, color=_colour())


def show_error(error: click.ClickException) -> None:
    """Show an error as click does, with the word "Error" in red."""
    plain = io.StringIO()
    error.show(plain)
    red = click.style("Error:", fg="red")
    shown = re.sub("^Error:", red, plain.getvalue(), count=1, flags=re.MULTILINE)
    click.echo(shown, nl=False, err=True, color=_colour())


class StderrHandler(logging.Handler):
    """Shows log messages on stderr; ``extra={"bold": True}`` makes a message bold."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message, with its level if that is above INFO."""
        level = "" if record.levelno <= logging.INFO else record.levelname.lower()
        say(self.format(record), level=level, bold=getattr(record, "bold", False))


def _colour() -> bool | None:
    """Return False if nobody wants colour; None lets click use it only on a terminal."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def typed_command() -> str:
    """Return the command that the user typed, as a line for a shell."""
    return shlex.join(["phrasescore", *sys.argv[1:]])
