"""The tuning method, which a user may stop, and the results of tuning."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

import numpy as np

from moses_integration.weight_lines import is_sparse
from phrasescore.arguments import StrPath
from phrasescore.devices import usable_threads
from phrasescore.errors import PhrasescoreError, show_controls
from phrasescore.evaluation.tune_report import FeatureRow, TuneReport
from phrasescore.io.output import open_output
from phrasescore.io.text_table import text_table
from phrasescore.progress import format_count
from phrasescore.records import ConfidenceCurve, FeatureLabel, WeightPair, Weights
from phrasescore.settings.training import TuningMethod
from phrasescore.signals import catching_signals, raise_signal
from tuning.confidence import calibrate_weights
from tuning.methods import Report, StopTuning, Tuned, optimise
from tuning.metrics import Metric
from tuning.pool import Pool, Vector, weights_vector
from tuning.settings import TuneSettings

_logger = logging.getLogger(__name__)

# Tuning on fewer sentences per weight is warned of. In cross-validation on the shipped example, 25
# per weight, the weights lost 3 BLEU on held-out sentences. The usual rule for
# regression is 10 to 20 observations per coefficient (Harrell, 2015, section 4.4).
FEW_SENTENCES = 20
_NEW = "  (new)"


@dataclass
class Optimiser:
    """A tuning method with its settings, which a user may stop.

    After Ctrl-C or SIGTERM it returns the best weights so far; a second Ctrl-C interrupts it.
    """

    tuning: TuningMethod
    threads: int | None = None  # number of threads; None for all cores
    report: Report = _logger.debug  # receives a line for each step
    others: Collection[str] = ()  # features that may be fixed although a pool may lack them
    stopped_by: int | None = None  # the signal with which the user stopped it

    @property
    def stopped(self) -> bool:
        """Whether the user has stopped the method."""
        return self.stopped_by is not None

    def raise_stop(self) -> NoReturn:
        """Raise the signal that stopped the method; call it after all files are written."""
        assert self.stopped_by is not None
        raise_signal(self.stopped_by)

    def settings(self, labels: Sequence[FeatureLabel]) -> TuneSettings:
        """Return the settings for a pool with these features, which include the fixed ones."""
        fixed: list[FeatureLabel] = []
        for name in self.tuning.fixed:
            chosen = [label for label in labels if name in (label.name, str(label))]
            if not chosen and not {name, name.rpartition("_")[0]} & {*self.others}:
                names = ", ".join(dict.fromkeys(label.name for label in labels))
                raise PhrasescoreError(f"--fix {name}: expected one of the features {names}")
            fixed.extend(chosen)
        return TuneSettings(
            fixed=tuple(dict.fromkeys(fixed)),
            threads=usable_threads(self.threads),
            starts=self.tuning.starts,
        )

    def calibrate(self, pool: Pool, metric: Metric, weights: Weights) -> ConfidenceCurve:
        """Return the confidence of the translations that tuned weights select from lists."""
        found, settings = weights_vector(weights, pool.labels), self.settings(pool.labels)
        return calibrate_weights(pool, metric, found, settings, seed=self.tuning.seed)

    def __call__(self, pool: Pool, metric: Metric, start: Vector, seed: int) -> Tuned:
        """Return weights that are at least as good as the start."""
        settings = self.settings(pool.labels)
        method = self.tuning.method
        with catching_signals() as caught:

            def report_or_stop(line: str) -> None:
                self.report(line)
                if caught:
                    raise StopTuning

            tuned = optimise(
                method, pool, metric, start, settings, seed=seed, report=report_or_stop
            )
            self.stopped_by = caught[0] if caught else None
        for note in tuned.notes:
            _logger.info("%s: %s", method, note)
        return tuned


@dataclass(frozen=True, slots=True)
class TuneOutcome:
    """The best weights that tuning found; on n-best lists, both sets are the same."""

    weights: WeightPair
    report: TuneReport
    # Yields the words of the best translation in each list of the best round; nothing for lists
    # that existed.
    translations: Callable[[], Iterator[bytes]] = field(default=lambda: iter(()), compare=False)

    def __repr__(self) -> str:
        """Return the report as text."""
        return self.report.to_text()

    def write_report(self, path: StrPath) -> None:
        """Write the report as text, or as JSON if the file's name ends in ``.json``."""
        path = str(path)
        text = self.report.to_json() if path.endswith(".json") else self.report.to_text()
        with open_output(path) as stream:
            stream.write(show_controls(text).encode())

    def log(self) -> None:
        """Log the weights and the final score; warn if the sentences are few."""
        weights, report = self.weights, self.report
        features: dict[str, list[FeatureRow]] = {}
        for row in report.features:  # its name is the feature's, "_" and an index
            features.setdefault(row.name.rpartition("_")[0], []).append(row)
        dense = {name: rows for name, rows in features.items() if not is_sparse(name)}
        table = [
            (
                name,
                " ".join(f"{row.weight:.4g}" for row in rows)
                + ("" if any(row.start for row in rows) else _NEW),
            )
            for name, rows in dense.items()
        ]
        is_new = any(row.start != row.weight for row in report.features)
        what = "weights for reranking" if weights.search != weights.lists else "weights"
        head = f"{'new ' if is_new else 'unchanged '}{what}:"
        lines = [head, *text_table(table, "l", indent="  ")]
        if len(features) > len(dense):
            lines.append(f"  and {format_count(len(features) - len(dense), 'sparse features')}")
        _logger.info("%s", "\n".join(lines))
        number = sum(map(len, dense.values()))
        if report.reached > report.start and report.sentences < FEW_SENTENCES * number:
            _logger.warning(
                "%s are few to tune %s on: with fewer than %d per weight, part of the gain is "
                "overfitting; use %s or more, or keep some weights with --fix, and measure on "
                "other text",
                *(format_count(report.sentences, "sentences"), format_count(number, "weights")),
                *(FEW_SENTENCES, f"{FEW_SENTENCES * number:,}"),
            )
        _logger.info("%s", report.last_line(), extra={"bold": True})


def feature_rows(
    pool: Pool, start: Vector, found: Vector, search: Sequence[float | None] | None = None
) -> tuple[FeatureRow, ...]:
    """Return one report row per feature value; ``search`` has weights if there are two sets."""
    names = [str(label) for label in pool.labels]
    rows = zip(names, start.tolist(), found.tolist(), search or [None] * len(names), strict=True)
    return tuple(FeatureRow(*row) for row in rows)


def with_contributions(
    rows: Sequence[FeatureRow], pool: Pool, metric: Metric, found: Vector
) -> tuple[FeatureRow, ...]:
    """Return the rows with each feature value's contribution, which is slow to compute."""
    amounts = found * pool.deviations()
    total = float(np.abs(amounts).sum()) or 1.0
    contributions = []
    for index, (row, amount) in enumerate(zip(rows, amounts.tolist(), strict=True)):
        others = found.copy()
        others[index] = 0.0
        left_out = 100 * pool.score(metric, others)
        share = abs(amount) / total
        contributions.append(replace(row, contribution=amount, share=share, left_out=left_out))
    return tuple(contributions)
