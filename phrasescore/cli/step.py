"""``python -m phrasescore.cli.step VERB ...``: run one step of an experiment.

Messages for the experiment are written to stdout as JSON; all other output is the step's log.
"""

import logging
import os
import sys
import time

import msgspec

from phrasescore.cli import main
from phrasescore.cli.options import LOGGERS
from phrasescore.workflows.experiment.commands import Message

_EVERY = 55.0  # seconds between progress messages


class _Sender(logging.Handler):
    """Sends warnings, tuning rounds and, periodically, progress to the original stdout."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._file = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._next = time.monotonic() + _EVERY

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            self._send(Message(warning=text))
        elif getattr(record, "news", False):  # such as a round of tuning
            self._send(Message(news=text))
        elif record.name == "phrasescore.cli.progress" and time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            self._send(Message(news=text))

    def _send(self, message: Message) -> None:
        self._file.write(msgspec.json.encode(message) + b"\n")


if __name__ == "__main__":
    # The experiment itself takes the next step.
    logging.getLogger("phrasescore.cli.next_step").setLevel(logging.WARNING)
    sender = _Sender()
    for name in LOGGERS:
        logging.getLogger(name).addHandler(sender)
    main(sys.argv[1:], prog_name="phrasescore")
