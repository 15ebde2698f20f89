"""The figures of tuning: as text, as JSON, and read back from it."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from phrasescore.errors import DataError
from phrasescore.io.plain_file import MAX_JSON, read_plain
from phrasescore.io.text_table import text_table


@dataclass(frozen=True, slots=True)
class FeatureRow:
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


@dataclass(frozen=True, slots=True)
class MethodRow:
    """A method, by its score on sentences that it was not tuned on."""

    method: str
    # 0 to 100: of the whole set, and where it was tuned on the other parts.
    tuned_on: float
    held_out: float


@dataclass(frozen=True, slots=True)
class RoundRow:
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


@dataclass(frozen=True, slots=True)
class ReplicaRow:
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
    cross_validation: tuple[MethodRow, ...] = ()
    # Of tuning with a decoder: its rounds, and its warnings; why they ended, "" where the user
    # stopped them, and whether another end than the number of rounds was reached.
    rounds: tuple[RoundRow, ...] = ()
    warnings: tuple[str, ...] = ()
    ended: str = ""
    ended_by_itself: bool = True

    def last_line(self) -> str:
        """Return the score of the start and the one reached, as ``BLEU 57.09 -> 61.27``."""
        return f"{self.metric} {self.start:.2f} -> {self.reached:.2f}"

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
            "features": [asdict(row) for row in self.features],
        }
        if self.replicas:
            report["replicas"] = [asdict(row) for row in self.replicas]
        if self.cross_validation:
            report["cross_validation"] = [asdict(row) for row in self.cross_validation]
        if self.rounds:
            report["rounds"] = [asdict(row) for row in self.rounds]
            report["ended"] = self.ended
            report["warnings"] = list(self.warnings)
            report["ended_by_itself"] = self.ended_by_itself
        return json.dumps(report, indent=2, ensure_ascii=False) + "\n"

    def to_text(self) -> str:
        """Return the report as text."""
        return "\n\n".join("\n".join(lines) for lines in self._parts()) + "\n"

    def _parts(self) -> Iterator[list[str]]:
        lists = f"{self.sentences:,} sentences, {self.hypotheses:,} hypotheses"
        run = f"{self.method}, seed {self.seed}: {self.metric} {self.start:.2f} -> "
        yield [f"{run}{self.reached:.2f}", lists, *self.notes, *self.warnings]
        if self.rounds:
            rows = [["round", self.metric, "decoded", "hypotheses", "new"]]
            for row in self.rounds:
                cells = [f"{row.score:.2f}", f"{row.decoded:.2f}"]
                rows.append([str(row.round), *cells, f"{row.hypotheses:,}", f"{row.new:,}"])
            yield [*text_table(rows, indent="  "), f"  ended: {self.ended or 'stopped'}"]
        yield self._feature_table()
        if self.replicas:
            rows = [["seed", self.metric]]
            rows += [[str(row.seed), f"{row.score:.2f}"] for row in self.replicas]
            yield text_table(rows, indent="  ")
        if self.cross_validation:
            rows = [["method", f"{self.metric} tuned on", "held out"]]
            rows += [
                [row.method, f"{row.tuned_on:.2f}", f"{row.held_out:.2f}"]
                for row in self.cross_validation
            ]
            yield text_table(rows, indent="  ")

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
        return text_table(rows, indent="  ")


def read_tune_report(path: str | os.PathLike[str]) -> TuneReport:
    """Read what :meth:`TuneReport.to_json` returned from a file.

    :raises DataError: if the file cannot be read, or has other content.
    """
    try:
        return msgspec.json.decode(read_plain(path, MAX_JSON), type=TuneReport)
    except OSError as error:
        raise DataError(os.fspath(path), None, f"cannot open: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"expected the JSON that tune --report wrote with --format json: {error}"
        raise DataError(os.fspath(path), None, problem) from error
