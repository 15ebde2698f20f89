"""The process of a step: ``python -m phrasescore.workflows.experiment.step ACTION``, in JSON."""

import logging
import sys

import msgspec

from phrasescore.errors import PhrasescoreError
from phrasescore.progress import Progress
from phrasescore.workflows.experiment.actions import AnyAction
from phrasescore.workflows.experiment.process import Message
from phrasescore.workflows.warnings import LOGGERS


def send(message: Message) -> None:
    """Send a message to the process that has started this one."""
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


class _LogHandler(logging.Handler):
    """Write log lines to stderr, which is the log of the step, and send the warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        print(f"phrasescore: {level}{text}", file=sys.stderr, flush=True)  # noqa: T201
        if record.levelno >= logging.WARNING:
            send(Message(warning=text))


def report(now: Progress) -> None:
    """Send how far the work is; the rounds of tuning are news."""
    if now.task == "tune" and now.note:
        send(Message(news=now.note))
        return
    counted = f"{now.done:,}" + (f" of {now.total:,}" if now.total else "")
    send(Message(state=", ".join(filter(None, [f"{now.task}: {counted} {now.unit}", now.note]))))


def main() -> None:
    """Run the action that the first argument says."""
    action: AnyAction = msgspec.json.decode(sys.argv[1], type=AnyAction)
    handler = _LogHandler(logging.INFO)
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO)
        logging.getLogger(name).addHandler(handler)
    try:
        action.run(report)
    except PhrasescoreError as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
