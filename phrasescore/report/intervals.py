"""Dots and whiskers around zero, which the page draws without a script."""

import math
from itertools import groupby
from typing import NamedTuple

from phrasescore.report.blocks import Interval, Intervals

MINUS = "\u2212"
_TICKS = 6  # at most one more than this number
_MARGIN = 0.03  # free share of the axis at each end


class _Tick(NamedTuple):
    text: str
    left: str  # in percent of the axis


class _Row(NamedTuple):
    label: str
    value: str
    is_strong: bool
    # In percent of the axis.
    dot: str
    left: str
    width: str


class DrawnIntervals(NamedTuple):
    """Intervals with their positions on an axis."""

    groups: list[tuple[str, list[_Row]]]
    ticks: list[_Tick]
    zero: str


def draw_intervals(block: Intervals) -> DrawnIntervals:
    """Place intervals on an axis that includes zero."""
    low = min(0.0, *(each.low for each in block.intervals))
    high = max(0.0, *(each.high for each in block.intervals))
    step = _tick_step(high - low or 1.0)
    room = (high - low or step) * _MARGIN
    start, end = low - room, high + room

    def percent(value: float) -> str:
        return f"{100 * value / (end - start):.2f}%"

    def row(each: Interval) -> _Row:
        positions = (each.value - start, each.low - start, each.high - each.low)
        return _Row(
            each.label, signed(each.value), each.is_strong, *(percent(place) for place in positions)
        )

    numbers = range(math.ceil(start / step), math.floor(end / step) + 1)
    decimals = max(0, -math.floor(math.log10(step)))
    ticks = [_Tick(signed(n * step, decimals), percent(n * step - start)) for n in numbers]
    groups = groupby(block.intervals, key=lambda each: each.group)
    return DrawnIntervals(
        [(name, [row(each) for each in members]) for name, members in groups],
        ticks,
        percent(-start),
    )


def signed(value: float, decimals: int = 2) -> str:
    """Format a difference with its sign, such as +1.25 or \u22120.50; zero has none."""
    text = f"{abs(value):.{decimals}f}"
    if float(text) == 0:
        return text
    return f"+{text}" if value > 0 else f"{MINUS}{text}"


def _tick_step(length: float) -> float:
    """Return 1, 2 or 5 times a power of ten, so that an axis has about `_TICKS` ticks."""
    power = 10.0 ** math.floor(math.log10(length / _TICKS))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor * _TICKS >= length)
