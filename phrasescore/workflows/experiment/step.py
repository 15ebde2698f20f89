"""The process of a step: ``python -m phrasescore.workflows.experiment.step ACTION``, in JSON."""

import logging
import os
import sys

import msgspec

from phrasescore.errors import PhrasescoreError, StoppedError
from phrasescore.progress import Progress
from phrasescore.workflows.experiment.actions import AnyCall
from phrasescore.workflows.experiment.process import Message
from phrasescore.workflows.warnings import LOGGERS


class Channel:
    """Sends messages to the process that has started this one, through its stdout.

    From now on, what else is printed goes to stderr.
    """

    def __init__(self) -> None:
        self._file = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)

    def send(self, message: Message) -> None:
        """Send a message as a line of JSON."""
        self._file.write(msgspec.json.encode(message) + b"\n")

    def report(self, now: Progress) -> None:
        """Send how far the work is."""
        counted = f"{now.done:,}" + (f" of {now.total:,}" if now.total else "")
        text = ", ".join(filter(None, [f"{now.task}: {counted} {now.unit}", now.note]))
        self.send(Message(state=text))


class _LogHandler(logging.Handler):
    """Writes log lines to stderr, which is the log of the step, and sends the warnings."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(logging.INFO)
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        print(f"phrasescore: {level}{text}", file=sys.stderr, flush=True)  # noqa: T201
        if record.levelno >= logging.WARNING:
            self._channel.send(Message(warning=text))
        elif getattr(record, "news", False):  # as of a round of tuning
            self._channel.send(Message(news=text))


def main() -> None:
    """Run the action that the first argument says."""
    action: AnyCall = msgspec.json.decode(sys.argv[1], type=AnyCall)
    channel = Channel()
    handler = _LogHandler(channel)
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO)
        logging.getLogger(name).addHandler(handler)
    try:
        action.run(channel.report)
    except StoppedError as error:
        sys.exit(128 + error.signal)
    except PhrasescoreError as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
