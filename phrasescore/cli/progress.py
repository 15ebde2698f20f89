"""Show progress on stderr: a bar on a terminal, or log lines, and a summary at the end."""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from phrasescore.progress import Progress, format_count, format_duration

if TYPE_CHECKING:
    from phrasescore.cli.bar import Screen

_logger = logging.getLogger(__name__)

# Seconds after the start at which a line is logged; later, one every LAST_INTERVAL seconds.
LOG_AT = (10.0, 30.0, 60.0)
LAST_INTERVAL = 60.0

_BURST = 2.0  # seconds in which the items of the first result are counted
_PAUSE = 1.0  # seconds without progress, after which the next item begins a new result


class Pace:
    """Estimates how fast a number has grown lately, per second.

    The time until the first result is not counted, as it includes loading models and compiling.
    After that, the rate covers the recent half of the time. A result may be many items, which
    are counted one by one within a moment: the first of them says nothing about the speed.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        self._first = 0.0  # the time of the first growth
        self._last = (0.0, 0.0)  # time and value
        # Times and values, from the start of the window.
        self._marks: list[tuple[float, float]] = []

    def add(self, now: float, value: float) -> None:
        """Add the value at a time in seconds from the start."""
        last = self._last
        if value <= last[1]:
            return
        self._last = point = now, value
        if not self._marks:
            self._first = now
        if now <= 1.1 * self._first + _BURST:  # the other items of the first result
            self._marks = [point]
            return
        if now - last[0] > _PAUSE:
            point = last  # the end of the previous result
        if point[0] - self._marks[-1][0] > (0 if point is last else now / 20):
            self._marks.append(point)
        while len(self._marks) > 2 and self._marks[1][0] <= now / 2:
            del self._marks[0]
        start, base = self._marks[0]
        if point[0] > start:
            self.rate = (point[1] - base) / (point[0] - start)


@dataclass
class _ShownTask:
    start: float
    line: str = ""  # of a screen
    next_line: float = LOG_AT[0]  # seconds from the start to the next log line
    items: Pace = field(default_factory=Pace)
    share: Pace = field(default_factory=Pace)


class ProgressDisplay:
    """Displays the `Progress` of workflows; pass it to them as the argument ``progress``.

    The summary of a task is logged: ``annotate: 1,209,173 lines in 312.0 s (3,875 lines/s)``.
    Nothing is shown if the log level is above INFO (``--quiet``).

    :param stream: the stream that bars are drawn on; None for stderr.
    :ivar no_bars: whether to log lines even on a terminal, as the data go there, too.
    """

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._tasks: dict[str, _ShownTask] = {}
        self._screen: Screen | None = None
        self._above: Sequence[str] = ()
        self.no_bars = False

    def __call__(self, now: Progress) -> None:
        """Update the bar of a task, or log its progress from time to time."""
        task = self._tasks.get(now.task)
        done = now.skipped + now.done
        if task is None or (done == 0 and not now.finished):
            task = self._tasks[now.task] = _ShownTask(self._clock())
            self._open()
        elapsed = self._clock() - task.start
        if now.finished:
            del self._tasks[now.task]
            self._draw()
            if now.unit:
                _logger.info("%s", _summary(now, elapsed))
            return
        share = _share(now)
        if now.done:
            task.items.add(elapsed, done)
            task.share.add(elapsed, share or 0.0)
        title = f"{now.task}: {now.state or _time(now, share, task, elapsed)}"
        details = _details(now, task.items.rate)
        if self._screen is not None:
            task.line = self._screen.line(title, share, details)
            self._draw()
        elif now.unit and elapsed >= task.next_line:
            later = [at for at in LOG_AT if at > elapsed]
            task.next_line = later[0] if later else elapsed + LAST_INTERVAL
            percentage = [] if share is None else [f"{int(100 * share)}%"]
            _logger.info("%s", ", ".join([title, *percentage, *details]))

    def show_above(self, lines: Sequence[str]) -> None:
        """Show lines above the bars, if there is room for them, until the display is closed."""
        self._above = lines
        self._draw()

    @contextmanager
    def without_bars(self) -> Iterator[None]:
        """Hide the bars while a message is written."""
        if self._screen is not None:
            self._screen.draw(())
        yield
        self._draw()

    def close(self) -> None:
        """Remove the bars of tasks that ended with an error, and the lines above them."""
        self._tasks.clear()
        self.show_above(())
        self._screen = None

    def _open(self) -> None:
        stream = sys.stderr if self._stream is None else self._stream
        # A dumb terminal cannot move the cursor.
        has_bar = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
        if not has_bar or self.no_bars or not _logger.isEnabledFor(logging.INFO):
            self._screen = None
        elif self._screen is None:
            from phrasescore.cli.bar import Screen

            self._screen = Screen(stream)

    def _draw(self) -> None:
        if self._screen is not None:
            lines = [task.line for task in self._tasks.values()]
            width, height = self._screen.size()
            above = [line[:width] for line in self._above]
            self._screen.draw([*above, *lines] if len(above) + len(lines) < height else lines)


show_progress = ProgressDisplay()  # the callback that every verb passes to its workflow


def _summary(now: Progress, elapsed: float) -> str:
    rate = f" ({_rate(now.done / elapsed, now)})" if now.done and elapsed > 0 else ""
    return f"{now.task}: {format_count(now.done, now.unit)} in {elapsed:.1f} s{rate}"


def _share(now: Progress) -> float | None:
    share = (now.skipped + now.done) / now.total if now.total else now.share
    return None if not share or share > 1 else share


def _time(now: Progress, share: float | None, task: _ShownTask, elapsed: float) -> str:
    if not now.done and task.share.rate is None:
        return "starting"
    if share is None:
        return f"{format_duration(elapsed)} so far"
    if share == 1:
        return "finishing"
    if task.share.rate is None:
        return "measuring the speed"
    return f"{format_duration((1 - share) / task.share.rate)} left"


def _details(now: Progress, rate: float | None) -> list[str]:
    done = now.skipped + now.done
    if not (done and now.unit):
        return [now.note] if now.note else []
    unit = format_count(now.total or done, now.unit)
    count = f"{done:,} of {unit}" if now.total else unit
    return [count, *filter(None, now.note.split(", ")), *([_rate(rate, now)] if rate else [])]


def _rate(rate: float, now: Progress) -> str:
    return f"{rate:,.0f} {now.unit}/s" if rate >= 10 else f"{rate:.2g} {now.unit}/s"
