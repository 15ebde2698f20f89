"""``python -m phrasescore.cli.step VERB …``: a verb as a step of an experiment.

What the experiment says of it goes to stdout as values; all else that is printed is its log.
"""

import logging
import os
import time

import msgspec

from phrasescore.cli import main
from phrasescore.cli.options import LOGGERS
from phrasescore.workflows.experiment.running import Message

# Seconds between two messages about how far the work is.
_EVERY = 55.0


class _Sender(logging.Handler):
    """Sends warnings, rounds of tuning, and now and then how far it is, to the first stdout."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._file = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._next = time.monotonic() + _EVERY

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            self._send(Message(warning=text))
        elif getattr(record, "news", False):  # as of a round of tuning
            self._send(Message(news=text))
        elif record.name == "phrasescore.cli.progress" and time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            self._send(Message(news=text))

    def _send(self, message: Message) -> None:
        self._file.write(msgspec.json.encode(message) + b"\n")


if __name__ == "__main__":
    sender = _Sender()
    for name in LOGGERS:
        logging.getLogger(name).addHandler(sender)
    main(prog_name="phrasescore")
