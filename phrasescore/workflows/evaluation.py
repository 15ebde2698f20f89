"""The figures of an evaluation as values, and laid out as text and as JSON."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from phrasescore.arguments import PairedTestName
from phrasescore.evaluation.metrics import PairedComparison, Score
from phrasescore.io.text_table import text_table
from tuning.bleu import BleuScore

# The full names of the paired tests.
_TESTS = {"bootstrap": "paired bootstrap", "approximate": "paired approximate randomization"}


@dataclass(frozen=True, slots=True)
class PairedTest:
    """How each system is tested against the first."""

    kind: PairedTestName
    trials: int
    seed: int


@dataclass(frozen=True, slots=True)
class SystemFigures:
    """The figures of one system."""

    path: str
    empty_lines: int
    # None where it was not asked for.
    multi_bleu: BleuScore | None
    scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True)
class NbestFigures:
    """BLEU of choices from n-best lists."""

    path: str
    # Distinct hypotheses.
    hypotheses: int
    # Of the first hypothesis of each list, and of the best choice that was found.
    first: BleuScore
    oracle: BleuScore


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """BLEU of a group of sentences."""

    label: str
    sentences: int
    # 0 to 100, by system.
    bleu: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BreakdownFigures:
    """BLEU by groups of sentences."""

    title: str
    groups: tuple[GroupFigures, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything that was measured; figures are from 0 to 100."""

    references: tuple[str, ...]
    sentences: int
    systems: tuple[SystemFigures, ...]
    test: PairedTest | None
    comparisons: tuple[PairedComparison, ...]
    nbest: NbestFigures | None
    breakdowns: tuple[BreakdownFigures, ...]

    def to_json(self) -> str:
        """Return the figures as a JSON object; all are from 0 to 100 but p-values."""
        report: dict[str, Any] = {
            "references": self.references,
            "sentences": self.sentences,
            "systems": [_system_json(system) for system in self.systems],
        }
        if self.test is not None:
            report["paired"] = {
                **asdict(self.test),
                "baseline": self.systems[0].path,
                "metrics": [self._comparison_json(each) for each in self.comparisons],
            }
        if self.nbest is not None:
            report["nbest"] = {
                "path": self.nbest.path,
                "distinct_hypotheses": self.nbest.hypotheses,
                "first": _bleu_json(self.nbest.first),
                "oracle": _bleu_json(self.nbest.oracle),
            }
        if self.breakdowns:
            report["breakdowns"] = [asdict(breakdown) for breakdown in self.breakdowns]
        return json.dumps(report, indent=2, ensure_ascii=False) + "\n"

    def _comparison_json(self, comparison: PairedComparison) -> dict[str, Any]:
        return {
            "metric": comparison.metric,
            "signature": comparison.signature,
            "systems": [
                {"path": system.path, **compared._asdict()}
                for system, compared in zip(self.systems, comparison.systems, strict=True)
            ],
        }

    def to_text(self) -> str:
        """Return the figures as text: of one system the lines of multi-bleu.perl and sacrebleu."""
        parts = ["\n".join(lines) for lines in self._parts()]
        return "\n\n".join(parts) + "\n"

    def _parts(self) -> Iterator[list[str]]:
        for system in self.systems:
            lines = [] if system.multi_bleu is None else [str(system.multi_bleu)]
            lines += [found.line for found in system.scores]
            yield lines if len(self.systems) == 1 else [system.path, *(f"  {x}" for x in lines)]
        for comparison in self.comparisons:
            yield self._comparison(comparison)
        if self.nbest is not None:
            yield [
                f"{self.nbest.path}: {self.nbest.hypotheses:,} distinct hypotheses",
                f"  first   {self.nbest.first}",
                f"  oracle  {self.nbest.oracle}",
            ]
        for breakdown in self.breakdowns:
            yield self._breakdown(breakdown)

    def _comparison(self, comparison: PairedComparison) -> list[str]:
        assert self.test is not None
        rows = [["system", comparison.metric]]
        if self.test.kind == "bootstrap":
            rows[0].append("mean and 95% interval")
        rows[0].append("p")
        for system, found in zip(self.systems, comparison.systems, strict=True):
            row = [system.path, f"{found.score:.2f}"]
            if self.test.kind == "bootstrap":
                row.append(f"{found.mean:.2f} ± {found.confidence:.2f}")
            rows.append([*row, "baseline" if found.p_value is None else f"{found.p_value:.4f}"])
        head = f"{_TESTS[self.test.kind]} against {self.systems[0].path}"
        return [head, f"{comparison.metric}|{comparison.signature}", *text_table(rows, indent="  ")]

    def _breakdown(self, breakdown: BreakdownFigures) -> list[str]:
        rows = [["", "sentences", *(system.path for system in self.systems)]]
        for group in breakdown.groups:
            cells = (f"{score:.2f}" for score in group.bleu)
            rows.append([group.label, f"{group.sentences:,}", *cells])
        return [f"BLEU by {breakdown.title}", *text_table(rows, indent="  ")]


def _system_json(system: SystemFigures) -> dict[str, Any]:
    report: dict[str, Any] = {"path": system.path, "empty_lines": system.empty_lines}
    if system.multi_bleu is not None:
        report["multi-bleu"] = _bleu_json(system.multi_bleu)
    for found in system.scores:
        report[found.metric] = {
            "score": found.score,
            "signature": found.signature,
            "line": found.line,
        }
    return report


def _bleu_json(score: BleuScore) -> dict[str, Any]:
    return {
        "score": 100 * score.bleu,
        "precisions": [100 * precision for precision in score.precisions],
        "brevity_penalty": score.brevity_penalty,
        "length": score.length,
        "reference_length": score.reference_length,
        "line": str(score),
    }
