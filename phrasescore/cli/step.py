"""``python -m phrasescore.cli.step``: run one step of an experiment, whose settings are on stdin.

Messages for the experiment are written to stdout as JSON; all other output is the step's log.
"""

import logging
import os
import sys
import time
from dataclasses import replace

import click
import msgspec

from phrasescore.cli import main
from phrasescore.cli.options import LOGGERS
from phrasescore.cli.progress import show_progress
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.progress import Progress
from phrasescore.workflows.experiment.functions import run_step
from phrasescore.workflows.experiment.process import Message

_EVERY = 1.0  # seconds between progress messages, at least


class _Sender(logging.Handler):
    """Sends warnings, tuning rounds and progress to the original stdout."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._file = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._next = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            self._send(Message(warning=text))
        elif getattr(record, "news", False):  # such as a round of tuning
            self._send(Message(news=text))

    def show(self, now: Progress) -> None:
        """Log progress, and send it now and then."""
        show_progress(now)
        if now.finished or now.state or not now.done or time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            self._send(Message(progress=replace(now, finished=False)))

    def _send(self, message: Message) -> None:
        self._file.write(msgspec.json.encode(message) + b"\n")


@main.command(hidden=True)
@click.pass_obj
def step(sender: _Sender) -> None:
    """Run one step of an experiment."""
    try:
        run_step(sys.stdin.buffer.read(), sender.show)
    except ArgumentError as error:  # not about this command's own arguments
        raise PhrasescoreError(str(error)) from error


if __name__ == "__main__":
    sender = _Sender()
    for name in LOGGERS:
        logging.getLogger(name).addHandler(sender)
    main(["step"], prog_name="phrasescore", obj=sender)
