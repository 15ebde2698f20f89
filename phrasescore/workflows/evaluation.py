"""The results of `evaluate`, which can be printed as text and as JSON."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from phrasescore.evaluation.comparison import BreakdownScores
from phrasescore.evaluation.metrics import Score
from phrasescore.evaluation.significance import PairedComparison, PairedTest
from phrasescore.io.text_table import text_table
from tuning.bleu import BleuScore

_TEST_NAMES = {"bootstrap": "paired bootstrap", "approximate": "paired approximate randomization"}


@dataclass(frozen=True, slots=True)
class SystemFigures:
    """The scores of one system."""

    path: str
    empty_lines: int
    # None if it was not asked for.
    multi_bleu: BleuScore | None
    scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True)
class NbestFigures:
    """BLEU of two choices from n-best lists: the first hypotheses, and the best that was found."""

    path: str
    # Number of distinct hypotheses.
    hypotheses: int
    first: BleuScore
    oracle: BleuScore


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All scores of an evaluation, from 0 to 100."""

    references: tuple[str, ...]
    sentences: int
    systems: tuple[SystemFigures, ...]
    test: PairedTest | None
    comparisons: tuple[PairedComparison, ...]
    nbest: NbestFigures | None
    breakdowns: tuple[BreakdownScores, ...]

    def to_json(self) -> str:
        """Return the scores as a JSON object."""
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
        systems = zip(self.systems, comparison.systems, strict=True)
        return {
            "metric": comparison.metric,
            "signature": comparison.signature,
            "systems": [{"path": system.path, **paired._asdict()} for system, paired in systems],
        }

    def to_text(self) -> str:
        """Return the scores as text; for one system, the lines of multi-bleu.perl and sacrebleu."""
        return "\n\n".join("\n".join(lines) for lines in self._parts()) + "\n"

    def _parts(self) -> Iterator[list[str]]:
        for system in self.systems:
            lines = [] if system.multi_bleu is None else [str(system.multi_bleu)]
            lines += [score.line for score in system.scores]
            yield lines if len(self.systems) == 1 else [system.path, *(f"  {x}" for x in lines)]
        if self.test is not None:
            for comparison in self.comparisons:
                yield self._comparison_lines(self.test, comparison)
        if self.nbest is not None:
            rows = [("first", str(self.nbest.first)), ("oracle", str(self.nbest.oracle))]
            head = f"{self.nbest.path}: {self.nbest.hypotheses:,} distinct hypotheses"
            yield [head, *text_table(rows, "l", indent="  ")]
        for breakdown in self.breakdowns:
            cells = [["", "sentences", *(system.path for system in self.systems)]]
            for group in breakdown.groups:
                scores = (f"{score:.2f}" for score in group.bleu)
                cells.append([group.label, f"{group.sentences:,}", *scores])
            yield [f"BLEU by {breakdown.title}", *text_table(cells, indent="  ")]

    def _comparison_lines(self, test: PairedTest, comparison: PairedComparison) -> list[str]:
        has_interval = test.kind == "bootstrap"
        interval = ["mean and 95% interval"] if has_interval else []
        rows = [["system", comparison.metric, *interval, "p"]]
        for system, paired in zip(self.systems, comparison.systems, strict=True):
            interval = [f"{paired.mean:.2f} ± {paired.confidence:.2f}"] if has_interval else []
            p_value = "baseline" if paired.p_value is None else f"{paired.p_value:.4f}"
            rows.append([system.path, f"{paired.score:.2f}", *interval, p_value])
        return [
            f"{_TEST_NAMES[test.kind]} against {self.systems[0].path}",
            f"{comparison.metric}|{comparison.signature}",
            *text_table(rows, indent="  "),
        ]


def _system_json(system: SystemFigures) -> dict[str, Any]:
    report: dict[str, Any] = {"path": system.path, "empty_lines": system.empty_lines}
    if system.multi_bleu is not None:
        report["multi-bleu"] = _bleu_json(system.multi_bleu)
    for score in system.scores:
        values = score._asdict()
        report[values.pop("metric")] = values
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
