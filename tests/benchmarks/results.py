"""Figures of a benchmark: medians with their range, as a plain table and as JSON."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

LABEL_WIDTH = 58


class Row(NamedTuple):
    """One figure, measured once or several times."""

    label: str
    # One number a measurement, in the order of measuring.
    values: Sequence[float]
    unit: str = ""
    # Digits behind the point.
    digits: int = 2

    def text(self) -> str:
        median = f"{statistics.median(self.values):,.{self.digits}f}"
        value = f"{median} {self.unit}".rstrip()
        if len(self.values) > 1:
            low, high = (f"{each(self.values):,.{self.digits}f}" for each in (min, max))
            value = f"{value} ({low} to {high})"
        return f"  {self.label:<{LABEL_WIDTH}} {value}"


class Report(NamedTuple):
    part: str
    # What was measured, in one line.
    what: str
    rows: Sequence[Row]

    def text(self) -> str:
        """Return a table: a line a figure, with median and range."""
        return "\n".join([f"{self.part}: {self.what}", *(row.text() for row in self.rows)])

    def to_dict(self) -> dict[str, object]:
        return {
            "part": self.part,
            "what": self.what,
            "figures": {
                row.label: {
                    "median": statistics.median(row.values),
                    "min": min(row.values),
                    "max": max(row.values),
                    "unit": row.unit,
                    "values": list(row.values),
                }
                for row in self.rows
            },
        }


def quotients(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Return ``over / under``, measurement by measurement."""
    return [a / b for a, b in zip(over, under, strict=True)]
