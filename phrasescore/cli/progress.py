"""Progress of long work on stderr: a bar on a terminal, a line now and then otherwise."""

import logging
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Self, TextIO, TypeVar

_T = TypeVar("_T")

_logger = logging.getLogger(__name__)

# Seconds after the start at which a line is logged; then one every LAST_INTERVAL seconds.
LOG_AT = (10.0, 30.0, 60.0)
LAST_INTERVAL = 60.0
# Seconds between two drawings of the bar.
REDRAW_EVERY = 0.2


class Progress:
    """Count finished things and say on stderr how far they are.

    A context manager. On leaving without an error it logs a summary: ``annotate: 1,209,173 lines
    in 312.0 s (3,875 lines/s)``. Nothing is shown where the log level is above INFO (``--quiet``).

    :param what: the name of the work, which begins each line.
    :param unit: what is counted, in the plural.
    :param total: how many there will be, where it is known.
    :param stream: where the bar is drawn; stderr where None.
    :param clock: seconds from any start, never falling.

    >>> with Progress("count", unit="words", total=3) as progress:
    ...     list(progress.track("abc"))
    ['a', 'b', 'c']
    """

    def __init__(
        self,
        what: str,
        *,
        unit: str = "lines",
        total: int | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what = what
        self.unit = unit
        self.total = total
        self.done = 0
        self._note = ""
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._shown = _logger.isEnabledFor(logging.INFO)
        self._is_terminal = self._stream.isatty()
        self._start = clock()
        self._next = REDRAW_EVERY if self._is_terminal else LOG_AT[0]
        self._drawn = False

    def __enter__(self) -> Self:
        """Start the clock."""
        self._start = self._clock()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the bar away and, where all went well, log the summary."""
        if self._drawn:
            self._draw("")
        if kind is None:
            _logger.info("%s", self._summary())

    def update(self, count: int = 1, note: str | None = None) -> None:
        """Say that ``count`` more are done. Costs less than a microsecond where nothing is due.

        :param note: shown at the end of the line from now on, as ``loss 3.21``.
        """
        self.done += count
        if note is not None:
            self._note = note
        elapsed = self._clock() - self._start
        if elapsed < self._next:
            return
        if self._is_terminal:
            self._next = elapsed + REDRAW_EVERY
            if self._shown:
                self._draw(self._line(elapsed))
        else:
            later = [at for at in LOG_AT if at > elapsed]
            self._next = later[0] if later else elapsed + LAST_INTERVAL
            _logger.info("%s", self._line(elapsed))

    def track(self, items: Iterable[_T]) -> Iterator[_T]:
        """Yield the items as they are; each counts as done when the next one is asked for."""
        for item in items:
            yield item
            self.update()

    def _summary(self) -> str:
        elapsed = self._clock() - self._start
        rate = f" ({self._rate(elapsed)})" if self.done and elapsed > 0 else ""
        return f"{self.what}: {self.done:,} {self.unit} in {elapsed:.1f} s{rate}"

    def _rate(self, elapsed: float) -> str:
        rate = self.done / elapsed
        return f"{rate:,.0f} {self.unit}/s" if rate >= 10 else f"{rate:.2g} {self.unit}/s"

    def _line(self, elapsed: float) -> str:
        parts = [self._how_far(), self._rate(elapsed), self._time_left(elapsed), self._note]
        return f"{self.what}: " + ", ".join(part for part in parts if part)

    def _how_far(self) -> str:
        if not self.total:
            return f"{self.done:,} {self.unit}"
        return f"{self.done / self.total:.0%} of {self.total:,} {self.unit}"

    def _time_left(self, elapsed: float) -> str:
        if not self.total or not self.done or self.done > self.total:
            return ""
        seconds = round(elapsed * (self.total - self.done) / self.done)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        return (f"{hours}:{minutes:02d}" if hours else f"{minutes}") + f":{seconds:02d} left"

    def _draw(self, line: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        if line and self.total:
            bar_width = max(0, min(30, width - len(line) - 3))
            filled = min(bar_width, bar_width * self.done // self.total)
            line = f"[{'#' * filled}{'.' * (bar_width - filled)}] {line}" if bar_width > 9 else line
        # Erase to the end of the line, so that nothing of a longer line stays.
        self._stream.write(f"\r{line[:width]}\x1b[K")
        self._stream.flush()
        self._drawn = bool(line)
