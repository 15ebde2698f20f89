"""Runs: rows of the table with weights of their own, and the reports of their tuning."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from phrasescore.workflows.experiment.config import TextSet
from phrasescore.workflows.experiment.systems import System

# The share of a feature in what moves model scores, 0 to 1, below which it does nothing.
_NOTHING = 1e-3


@dataclass(frozen=True)
class Run:
    """A row of the table with weights of its own, tuned from one seed."""

    system: System
    seed: int
    folder: Path
    ini: Path
    # The files that its search reads, but for the ini and models.
    model_files: tuple[Path, ...]
    # Earlier rows of the same seed, whose features it has.
    parts: tuple["Run", ...] = ()
    # Its features that networks and others give, by label in its report, with their names.
    added: dict[str, str] = field(default_factory=dict)

    @property
    def weights(self) -> Path:
        """The weights that tuning finds."""
        return self.folder / "weights"

    @property
    def report(self) -> Path:
        """The report of its tuning, as JSON."""
        return self.folder / "report.json"

    def output(self, text: TextSet) -> Path:
        """Return where the translation of a text goes."""
        return self.folder / f"{text.name}.out"


class RowReport(NamedTuple):
    """What ``phrasescore tune --report`` wrote of a row."""

    # The metric on dev, 0 to 100, of what a user gets with the weights.
    reached: float
    rounds: int
    # Whether it ended before the number of rounds did.
    ended_by_itself: bool
    # What each feature moves, 0 to 1, by label.
    shares: dict[str, float]
    # What it has warned of.
    warnings: list[str]

    def remarks(self, added: Mapping[str, str]) -> Iterator[str]:
        """Yield what the row's reader has to know.

        :param added: by label, the names of the networks and features that the row is about.
        """
        idle = [name for label, name in added.items() if self.shares.get(label, 1) < _NOTHING]
        if idle:
            yield f"tuning found no use for {', '.join(idle)} (weight 0, or nearly)"
        yield from self.warnings


def read_report(path: Path) -> RowReport:
    """Read what tuning has written."""
    report = json.loads(path.read_text(encoding="utf-8"))
    return RowReport(
        float(report["reached"]),
        len(report["rounds"]),
        bool(report["ended_by_itself"]),
        {row["name"]: float(row["share"]) for row in report["features"]},
        list(report["warnings"]),
    )
