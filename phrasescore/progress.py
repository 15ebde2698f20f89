"""Report the progress of workflows to their callers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Self, TypeVar

_T = TypeVar("_T")

# For each text, the number of lines that its latest reader has read, and a function that returns
# the share of bytes read; None after the last line.
_read: dict[str, tuple[int, Callable[[], float] | None]] = {}

INTERVAL = 0.1  # minimum number of seconds between two calls of a callback


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of a task is done."""

    task: str  # such as "annotate"
    unit: str  # the noun for what is counted, in the plural; "" to show only a bar
    done: int
    total: int | None = None
    share: float | None = None  # estimated share that is done, from 0 to 1
    note: str = ""  # such as "loss 3.21"
    finished: bool = False  # whether the work has ended without an error
    skipped: int = 0  # number of items that an earlier run has done, besides ``done``
    state: str = ""  # what is shown in place of the time left, such as "validating"


ProgressCallback = Callable[[Progress], None]


class Meter:
    """Counts finished items and reports the count to a callback.

    A context manager: it reports the beginning on entering, and the last count as ``finished`` on
    leaving without an error. In between, it reports at most every `INTERVAL` seconds. Without a
    total, the finished share is estimated from the part of a text that has been read.

    :ivar skipped: number of items that an earlier run has finished.
    :ivar share: the finished share, if it is not known from a total or a text.

    >>> seen = []
    >>> with Meter("count", "words", seen.append) as meter:
    ...     meter.update(2)
    >>> [(each.done, each.finished) for each in seen]
    [(0, False), (2, True)]
    """

    def __init__(
        self,
        task: str,
        unit: str,
        callback: ProgressCallback | None,
        *,
        total: int | None = None,
        lines_of: str | None = None,
    ) -> None:
        self.task, self.unit, self.total = task, unit, total
        self.done = self.skipped = 0
        self.share: float | None = None
        self._lines_of = lines_of
        self._note = ""
        self._callback = callback
        self._next = math.inf if callback is None else 0.0

    def __enter__(self) -> Self:
        self.begin()
        return self

    def begin(self) -> None:
        """Report the start of the work, from which the elapsed time is measured."""
        self._report(finished=False)

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is None:
            self._report(finished=True)

    def update(self, count: int = 1, note: str | None = None) -> None:
        """Count ``count`` more finished items, and replace the note in all later reports."""
        self.done += count
        if note is not None:
            self._note = note
        # Not at every count: reading a line of a phrase table takes only 3 microseconds.
        if time.monotonic() >= self._next:
            self._report(finished=False)

    def show(self, state: str) -> None:
        """Report what the work does now, until more items are finished."""
        self._report(finished=False, state=state)

    def track(self, items: Iterable[_T]) -> Iterator[_T]:
        """Yield the items; each counts as done when the next one is requested."""
        for item in items:
            yield item
            self.update()

    def _report(self, *, finished: bool, state: str = "") -> None:
        if self._callback is not None:
            self._next = time.monotonic() + INTERVAL
            share, note = self._share(), self._note
            counts = (self.done, self.total, share, note, finished, self.skipped, state)
            self._callback(Progress(self.task, self.unit, *counts))

    def _share(self) -> float | None:
        lines = None if self._lines_of is None else estimate_lines(self._lines_of)
        return min((self.skipped + self.done) / lines, 1.0) if lines else self.share


def format_count(number: int, unit: str) -> str:
    """Return a number with its unit, which is given in the plural.

    >>> format_count(1, "updates"), format_count(1, "hypotheses"), format_count(1209173, "lines")
    ('1 update', '1 hypothesis', '1,209,173 lines')
    """
    if number == 1:
        unit = f"{unit[:-2]}is" if unit.endswith("ses") else unit.removesuffix("s")
    return f"{number:,} {unit}"


def format_duration(seconds: float) -> str:
    """Return a duration in hours, minutes and seconds.

    >>> format_duration(65), format_duration(3600)
    ('1:05', '1:00:00')
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}:{minutes:02d}" if hours else f"{minutes}") + f":{seconds:02d}"


def note_lines(path: str, lines: int, share: Callable[[], float] | None) -> None:
    """Record how many lines of a text have been read; ``share`` returns the share of its bytes."""
    _read[path] = lines, share


def estimate_lines(path: str) -> int | None:
    """Return the number of lines in a text; None for a stream.

    It is an estimate until the whole text has been read.
    """
    lines, share = _read.get(path, (0, None))
    if share is None:
        return lines or None
    part = share()
    return round(lines / part) if 0 < part < 1 else None
