"""The tuning report: written as text or JSON, and read from JSON."""

import json
import os
from collections.abc import Iterator
from dataclasses import KW_ONLY, asdict, dataclass

import msgspec

from phrasescore.arguments import StrPath
from phrasescore.errors import DataError
from phrasescore.io.plain_file import MAX_JSON, read_plain
from phrasescore.io.text_table import text_table
from phrasescore.records import ConfidenceCurve


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """A feature value with its weight and its effect."""

    name: str  # the name in Moses' files, such as LM0_0
    start: float
    weight: float
    # The weight for decoding, if `weight` is only for reranking; None if both are the same.
    search: float | None = None
    # The effect on model scores: the weight times the standard deviation of the value among the
    # hypotheses for a sentence, and its share of the total effect, 0 to 1. None if not computed.
    contribution: float | None = None
    share: float | None = None
    # The score with this weight set to 0 and the others unchanged; None if not computed. If it is
    # higher than with the weight, the weight is harmful.
    left_out: float | None = None


@dataclass(frozen=True, slots=True)
class RoundRow:
    """A round of tuning with a decoder, numbered from 1."""

    round: int
    score: float  # the score of the translations, or of the reranked lists if features were added
    hypotheses: int  # number of hypotheses in the lists of all rounds so far
    decoded: float  # the score of the decoder's output
    new: int  # number of hypotheses that are new in this round


@dataclass(frozen=True, slots=True)
class TuneReport:
    """The results of tuning; scores are from 0 to 100."""

    method: str
    metric: str
    seed: int
    sentences: int
    hypotheses: int
    # The scores of the start weights and of the new weights.
    start: float
    reached: float
    _: KW_ONLY
    notes: tuple[str, ...] = ()
    features: tuple[FeatureRow, ...]
    # Only for tuning with a decoder: the rounds; why the loop ended, "" if the user stopped it; the
    # warnings; and whether it ended before the limit on rounds.
    rounds: tuple[RoundRow, ...] = ()
    ended: str = ""
    warnings: tuple[str, ...] = ()
    ended_by_itself: bool = True
    # Only with a decoder: the curve for the confidence of translations.
    confidence: ConfidenceCurve | None = None

    def last_line(self) -> str:
        """Return the scores before and after tuning, such as ``BLEU 57.09 -> 61.27``."""
        return f"{self.metric} {self.start:.2f} -> {self.reached:.2f}"

    def to_json(self) -> str:
        """Convert the report to a JSON object."""
        report = asdict(self)
        if not self.rounds:
            for name in ("rounds", "ended", "warnings", "ended_by_itself", "confidence"):
                del report[name]
        return json.dumps(report, indent=2, ensure_ascii=False) + "\n"

    def to_text(self) -> str:
        """Format the report as text."""
        return "\n\n".join("\n".join(lines) for lines in self._parts()) + "\n"

    __repr__ = to_text

    def _parts(self) -> Iterator[list[str]]:
        lists = f"{self.sentences:,} sentences, {self.hypotheses:,} hypotheses"
        head = f"{self.method}, seed {self.seed}: {self.last_line()}"
        yield [head, lists, *self.notes, *self.warnings]
        if self.rounds:
            rows = [["round", self.metric, "decoded", "hypotheses", "new", ""]]
            best = max(self.rounds, key=lambda row: row.score)  # the earliest on ties
            for row in self.rounds:
                cells = [f"{row.score:.2f}", f"{row.decoded:.2f}", f"{row.hypotheses:,}"]
                mark = "best" if row is best else ""
                rows.append([str(row.round), *cells, f"{row.new:,}", mark])
            yield [*text_table(rows, indent="  "), f"  ended: {self.ended or 'stopped'}"]
        yield self._feature_table()

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


def read_tune_report(path: StrPath) -> TuneReport:
    """Read a report from a file that :meth:`TuneReport.to_json` wrote."""
    try:
        return msgspec.json.decode(read_plain(path, MAX_JSON), type=TuneReport)
    except OSError as error:
        raise DataError(os.fspath(path), None, f"cannot open: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"expected JSON written by tune --report FILE.json: {error}"
        raise DataError(os.fspath(path), None, problem) from error
