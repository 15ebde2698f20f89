"""Warnings as values: those that a workflow logs stand in its result, too."""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_P = ParamSpec("_P")
_Result = TypeVar("_Result", bound="DataclassInstance")

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


def returns_warnings(workflow: Callable[_P, _Result]) -> Callable[_P, _Result]:
    """Let a workflow's result, a dataclass, have its warnings in the field ``warnings``."""

    @functools.wraps(workflow)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
        with collecting_warnings() as found:
            result = workflow(*args, **kwargs)
        return dataclasses.replace(result, warnings=tuple(found))

    return run
