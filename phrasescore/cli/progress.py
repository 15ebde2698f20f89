"""Show progress on stderr: a bar on a terminal, or log lines, and a summary at the end."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from phrasescore.progress import Progress, format_count, format_duration

if TYPE_CHECKING:
    from tqdm import tqdm

_logger = logging.getLogger(__name__)

# Seconds after the start at which a line is logged; later, one every LAST_INTERVAL seconds.
LOG_AT = (10.0, 30.0, 60.0)
LAST_INTERVAL = 60.0

# The format of a bar: the most important parts come first, as the end may be cut off.
_BAR = (
    "{desc}: {percentage:3.0f}%, {remaining} left |{bar}| {n_fmt} [{elapsed}, {rate_fmt}{postfix}]"
)


@dataclass
class _ShownTask:
    start: float
    next_line: float  # seconds from the start to the next log line
    bar: "tqdm[Any] | None"


class ProgressDisplay:
    """Displays the `Progress` of workflows; pass it to them as the argument ``progress``.

    The summary of a task is logged: ``annotate: 1,209,173 lines in 312.0 s (3,875 lines/s)``.
    Nothing is shown if the log level is above INFO (``--quiet``).

    :param stream: the stream that bars are drawn on; None for stderr.
    """

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._tasks: dict[str, _ShownTask] = {}

    def __call__(self, now: Progress) -> None:
        """Update the bar of a task, or log its progress from time to time."""
        task = self._tasks.get(now.task)
        if task is None or (now.done == 0 and not now.finished):
            task = self._begin(now)
        elapsed = self._clock() - task.start
        if now.finished:
            self._end(now.task)
            _logger.info("%s", _summary(now, elapsed))
        elif task.bar is not None:
            if now.share:
                task.bar.total = max(now.done, round(now.done / now.share))
            task.bar.bar_format = _BAR if task.bar.total else None
            task.bar.set_postfix_str(now.note, refresh=False)
            task.bar.update(now.done - task.bar.n)
        elif elapsed >= task.next_line:
            later = [at for at in LOG_AT if at > elapsed]
            task.next_line = later[0] if later else elapsed + LAST_INTERVAL
            _logger.info("%s", _line(now, elapsed))

    @contextmanager
    def without_bars(self) -> Iterator[None]:
        """Hide the bars while a message is written."""
        bars = [task.bar for task in self._tasks.values() if task.bar is not None]
        for bar in bars:
            bar.clear()
        yield
        for bar in bars:
            bar.refresh()

    def close(self) -> None:
        """Remove the bars of tasks that ended with an error."""
        for name in list(self._tasks):
            self._end(name)

    def _begin(self, now: Progress) -> _ShownTask:
        self._end(now.task)
        bar = None
        if _logger.isEnabledFor(logging.INFO) and sys.stderr is not None:
            bar = _open_bar(now, sys.stderr if self._stream is None else self._stream)
        task = self._tasks[now.task] = _ShownTask(self._clock(), LOG_AT[0], bar)
        return task

    def _end(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None and task.bar is not None:
            task.bar.close()


def _open_bar(now: Progress, stream: TextIO) -> "tqdm[Any] | None":
    if not stream.isatty():
        return None
    from tqdm import tqdm

    return tqdm(
        desc=now.task,
        total=now.total,
        unit=f" {now.unit}",
        file=stream,
        leave=False,
        bar_format=_BAR if now.total else None,
        dynamic_ncols=True,
    )


show_progress = ProgressDisplay()  # the callback that every verb passes to its workflow


def _summary(now: Progress, elapsed: float) -> str:
    rate = f" ({_rate(now, elapsed)})" if now.done and elapsed > 0 else ""
    return f"{now.task}: {format_count(now.done, now.unit)} in {elapsed:.1f} s{rate}"


def _line(now: Progress, elapsed: float) -> str:
    how_far = format_count(now.done, now.unit)
    if now.total:
        how_far = f"{now.done / now.total:.0%} of {format_count(now.total, now.unit)}"
    elif now.share is not None:
        how_far += f" ({now.share:.0%})"
    parts = [how_far, _rate(now, elapsed), _time_left(now, elapsed), now.note]
    return f"{now.task}: " + ", ".join(part for part in parts if part)


def _rate(now: Progress, elapsed: float) -> str:
    rate = now.done / elapsed
    return f"{rate:,.0f} {now.unit}/s" if rate >= 10 else f"{rate:.2g} {now.unit}/s"


def _time_left(now: Progress, elapsed: float) -> str:
    share = now.done / now.total if now.total else now.share
    if not share or share > 1:
        return ""
    return f"{format_duration(elapsed * (1 - share) / share)} left"
