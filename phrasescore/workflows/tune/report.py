"""The figures of tuning, as text and as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from tabulate import tabulate

from tuning.metric import Metric
from tuning.pool import Pool, Vector


class FeatureRow(NamedTuple):
    """A feature value with its weight."""

    # As in Moses' files: LM0_0.
    name: str
    start: float
    weight: float
    # The weight to decode with, where this one only chooses from lists; None if they are the same.
    search: float | None = None
    # How much it moves model scores: weight times the value's deviation among hypotheses of a
    # sentence. And its size in parts of the sum of all, 0 to 1. None if not asked for.
    contribution: float | None = None
    share: float | None = None
    # The metric, 0 to 100, with this weight at 0 and the others as they are. Where that is higher
    # than with it, the weight does harm.
    left_out: float | None = None


class MethodRow(NamedTuple):
    """A method, by its score on sentences that it was not tuned on."""

    method: str
    # 0 to 100: of the whole set, and where it was tuned on the other parts.
    tuned_on: float
    held_out: float


class RoundRow(NamedTuple):
    """A round of tuning with a decoder."""

    # From 1 on.
    round: int
    # The metric of its translations, 0 to 100: of the reranked lists, if features were added.
    score: float
    # Hypotheses in the lists of all rounds.
    hypotheses: int
    # The metric of the decoder's own output, 0 to 100.
    decoded: float
    # Hypotheses that no earlier round had.
    new: int


class ReplicaRow(NamedTuple):
    """A run with a seed of its own."""

    seed: int
    # 0 to 100.
    score: float


@dataclass(frozen=True, slots=True)
class TuneReport:
    """The figures of tuning; scores are from 0 to 100."""

    method: str
    metric: str
    seed: int
    sentences: int
    hypotheses: int
    # The score of the start weights, and of the weights found.
    start: float
    reached: float
    features: tuple[FeatureRow, ...]
    notes: tuple[str, ...] = ()
    replicas: tuple[ReplicaRow, ...] = ()
    methods: tuple[MethodRow, ...] = ()
    # Of tuning with a decoder: its rounds, and their problems; why they ended, "" where the user
    # stopped them, and whether another end than the number of rounds was reached.
    rounds: tuple[RoundRow, ...] = ()
    problems: tuple[str, ...] = ()
    ended: str = ""
    ended_by_itself: bool = False

    def last_line(self) -> str:
        """Return the score reached, as ``BLEU 57.09``."""
        return f"{self.metric} {self.reached:.2f}"

    def to_json(self) -> str:
        """Return the report as a JSON object."""
        report: dict[str, Any] = {
            "method": self.method,
            "metric": self.metric,
            "seed": self.seed,
            "sentences": self.sentences,
            "hypotheses": self.hypotheses,
            "start": self.start,
            "reached": self.reached,
            "notes": list(self.notes),
            "features": [row._asdict() for row in self.features],
        }
        if self.replicas:
            report["replicas"] = [row._asdict() for row in self.replicas]
        if self.methods:
            report["cross_validation"] = [row._asdict() for row in self.methods]
        if self.rounds:
            report["rounds"] = [row._asdict() for row in self.rounds]
            report["ended"] = self.ended
            report["warnings"] = list(self.problems)
            report["ended_by_itself"] = self.ended_by_itself
        return json.dumps(report, indent=2, ensure_ascii=False) + "\n"

    def to_text(self) -> str:
        """Return the report as text."""
        return "\n\n".join("\n".join(lines) for lines in self._parts()) + "\n"

    def _parts(self) -> Iterator[list[str]]:
        lists = f"{self.sentences:,} sentences, {self.hypotheses:,} hypotheses"
        run = f"{self.method}, seed {self.seed}: {self.metric} {self.start:.2f} -> "
        yield [f"{run}{self.reached:.2f}", lists, *self.notes, *self.problems]
        if self.rounds:
            rows = [["round", self.metric, "decoded", "hypotheses", "new"]]
            for number, score, hypotheses, decoded, new in self.rounds:
                cells = [f"{score:.2f}", f"{decoded:.2f}", f"{hypotheses:,}", f"{new:,}"]
                rows.append([str(number), *cells])
            yield [*_table(rows), f"  ended: {self.ended or 'stopped'}"]
        yield self._feature_table()
        if self.replicas:
            rows = [["seed", self.metric]]
            rows += [[str(row.seed), f"{row.score:.2f}"] for row in self.replicas]
            yield _table(rows)
        if self.methods:
            rows = [["method", f"{self.metric} tuned on", "held out"]]
            rows += [
                [row.method, f"{row.tuned_on:.2f}", f"{row.held_out:.2f}"] for row in self.methods
            ]
            yield _table(rows)

    def _feature_table(self) -> list[str]:
        heads = ["feature", "start", "weight", "contribution", "share", f"{self.metric} without"]
        two_sets = any(row.search is not None for row in self.features)
        rows = [heads]
        if two_sets:
            rows = [[*heads[:2], "search", "lists", *heads[3:]]]
        for row in self.features:
            cells = [row.name, f"{row.start:.6g}"]
            if two_sets:
                cells.append("" if row.search is None else f"{row.search:.6g}")
            cells.append(f"{row.weight:.6g}")
            if row.contribution is not None and row.share is not None:
                cells += [f"{row.contribution:.4g}", f"{100 * row.share:.1f}%"]
            else:
                cells += ["", ""]
            rows.append([*cells, "" if row.left_out is None else f"{row.left_out:.2f}"])
        return _table(rows)


def feature_rows(
    pool: Pool, start: Vector, found: Vector, search: Sequence[float | None] | None = None
) -> tuple[FeatureRow, ...]:
    """Return the row of each feature value of a pool.

    :param search: the weight of each that decodes, where there are two sets of weights.
    """
    names = [str(label) for label in pool.labels]
    rows = zip(names, start.tolist(), found.tolist(), search or [None] * len(names), strict=True)
    return tuple(FeatureRow(*row) for row in rows)


def with_contributions(
    rows: Sequence[FeatureRow], pool: Pool, metric: Metric, found: Vector
) -> tuple[FeatureRow, ...]:
    """Return the rows with the contribution of each feature value, which takes time."""
    amounts = found * pool.deviations()
    total = float(np.abs(amounts).sum()) or 1.0
    made = []
    for place, (row, amount) in enumerate(zip(rows, amounts.tolist(), strict=True)):
        others = found.copy()
        others[place] = 0.0
        left_out = 100 * pool.score(metric, others)
        made.append(row._replace(contribution=amount, share=abs(amount) / total, left_out=left_out))
    return tuple(made)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines: the first column to the left, the others to the right."""
    sides = ("left", *["right"] * (len(rows[0]) - 1))
    text = tabulate(rows, tablefmt="plain", disable_numparse=True, colalign=sides)
    return [f"  {line}".rstrip() for line in text.split("\n")]
