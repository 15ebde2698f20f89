"""Runs: rows of the table with weights of their own."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from phrasescore.report.tuning import TuneReport
from phrasescore.workflows.experiment.config import TextSet
from phrasescore.workflows.experiment.systems import System

# The share of a feature, 0 to 1, below which it moves no model score.
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

    def remarks(self, report: TuneReport) -> Iterator[str]:
        """Yield the remarks that the table's reader needs, from the report of its tuning."""
        idle = [
            self.added[row.name]
            for row in report.features
            if row.name in self.added and row.share is not None and row.share < _NOTHING
        ]
        if idle:
            yield f"tuning found no use for {', '.join(idle)} (weight 0, or nearly)"
        yield from report.warnings
