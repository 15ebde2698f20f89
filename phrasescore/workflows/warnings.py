"""Warnings as values: what a workflow has warned of stands in its result, too."""

import contextlib
import logging
from collections.abc import Iterator
from contextvars import ContextVar

# The loggers of the packages whose warnings count.
LOGGERS = ("phrasescore", "moses_integration", "tuning")

_collected: ContextVar[list[str] | None] = ContextVar("_collected", default=None)


class _Collector(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        found = _collected.get()
        if found is not None:
            found.append(record.getMessage())


_collector = _Collector(logging.WARNING)


@contextlib.contextmanager
def collecting_warnings() -> Iterator[list[str]]:
    """Yield a list that gets each warning logged meanwhile, in this thread or task.

    The warnings are logged as ever: a user sees them before the long work. A workflow that calls
    another one has its warnings, too.
    """
    for name in LOGGERS:
        logging.getLogger(name).addHandler(_collector)  # once, however often it is added
    outer = _collected.get()
    found: list[str] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)
        if outer is not None:
            outer.extend(found)
