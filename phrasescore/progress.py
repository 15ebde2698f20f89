"""How far long work is: a value that workflows hand to whoever called them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Self, TypeVar

_T = TypeVar("_T")

# Of each text: the lines that its latest reader has read, and what tells the share of its bytes;
# None at the end.
_read: dict[str, tuple[int, Callable[[], float] | None]] = {}

# Seconds between two calls of a callback, at least.
INTERVAL = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a piece of work is."""

    # The name of the work, such as "annotate".
    task: str
    # What is counted, in the plural.
    unit: str
    done: int
    # How many there will be; None where it is not known.
    total: int | None = None
    # The share that is done, from 0 to 1, by an estimate; None where there is none.
    share: float | None = None
    # Such as "loss 3.21".
    note: str = ""
    # Whether the work has ended without an error.
    finished: bool = False


ProgressCallback = Callable[[Progress], None]


class Meter:
    """Counts finished things and hands each new count to a callback.

    A context manager: entering it hands over the beginning, leaving it without an error the last
    count as ``finished``. Where no total is known, the share that is done is estimated by how much
    of a text has been read. In between the callback is called at most every `INTERVAL` seconds. The
    clock of the work starts with the beginning that was handed over last.

    :param callback: gets every `Progress`; None for nobody.
    :param lines_of: the text, each line of which is counted once.
    :ivar skipped: lines of the text that an earlier run had done.

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
        self._lines_of = lines_of
        self._note = ""
        self._callback = callback
        self._next = math.inf if callback is None else 0.0

    def __enter__(self) -> Self:
        """Hand over that the work begins."""
        self.begin()
        return self

    def begin(self) -> None:
        """Hand over that the work begins, again where its preparation has ended only now."""
        self._report(finished=False)

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        """Hand over the last count, unless an error ended the work."""
        if kind is None:
            self._report(finished=True)

    def update(self, count: int = 1, note: str | None = None) -> None:
        """Add ``count`` finished things.

        :param note: from now on handed over with each count.
        """
        self.done += count
        if note is not None:
            self._note = note
        # Not at every count: a line of a phrase table takes 3 microseconds in all.
        if time.monotonic() >= self._next:
            self._report(finished=False)

    def track(self, items: Iterable[_T]) -> Iterator[_T]:
        """Yield the items as they are; each counts as done when the next one is asked for."""
        for item in items:
            yield item
            self.update()

    def _report(self, *, finished: bool) -> None:
        if self._callback is not None:
            self._next = time.monotonic() + INTERVAL
            self._callback(
                Progress(
                    *(self.task, self.unit, self.done, self.total, self._share()),
                    *(self._note, finished),
                )
            )

    def _share(self) -> float | None:
        lines = None if self._lines_of is None else estimate_lines(self._lines_of)
        if lines is None or lines <= self.skipped:
            return None
        return min(self.done / (lines - self.skipped), 1.0)


def format_count(number: int, unit: str) -> str:
    """Return how many things there are.

    :param unit: what they are, in the plural.

    >>> format_count(1, "updates"), format_count(1, "hypotheses"), format_count(1209173, "lines")
    ('1 update', '1 hypothesis', '1,209,173 lines')
    """
    if number == 1:
        unit = f"{unit[:-2]}is" if unit.endswith("ses") else unit.removesuffix("s")
    return f"{number:,} {unit}"


def format_duration(seconds: float) -> str:
    """Return a duration as people write it.

    >>> format_duration(65), format_duration(3600)
    ('1:05', '1:00:00')
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}:{minutes:02d}" if hours else f"{minutes}") + f":{seconds:02d}"


def note_lines(path: str, lines: int, share: Callable[[], float] | None) -> None:
    """Note how many lines of a text have been read; for its reader.

    :param share: returns the share of its bytes that is read, 0 where it is not known; None where
        these are all lines.
    """
    _read[path] = lines, share


def estimate_lines(path: str) -> int | None:
    """Return about how many lines a text has, by the part of it that is read.

    None where that does not tell, as of a stream. When the text is read, the number is exact.
    """
    lines, share = _read.get(path, (0, None))
    if share is None:
        return lines or None
    part = share()
    return round(lines / part) if 0 < part < 1 else None
