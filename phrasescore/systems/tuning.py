"""What tuning on lists and in rounds share: pools of lists, the method, and the results."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from moses_integration.list_features import FeatureColumns
from moses_integration.nbest import NbestList, read_every_list
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
from phrasescore.signals import catching_signals
from phrasescore.systems.text_checks import warn_of_lengths
from tuning.confidence import calibrate_weights
from tuning.edit_distance import CharacterAccuracy, WordAccuracy
from tuning.methods import Report, StopTuning, Tuned, optimise
from tuning.metrics import Bleu, Metric, ReferenceMetric
from tuning.pool import Pool, Vector, union, weights_vector
from tuning.settings import MetricName, TuneSettings

_logger = logging.getLogger(__name__)

# Tuning on fewer sentences per weight is warned of. In cross-validation on the shipped example, 25
# per weight, the weights lost 3 BLEU on held-out sentences. The usual rule for
# regression is 10 to 20 observations per coefficient (Harrell, 2015, section 4.4).
FEW_SENTENCES = 20
_NEW = "  (new)"
_METRICS: dict[MetricName, Callable[[list[Any]], ReferenceMetric]] = {
    "bleu": Bleu,
    "word_accuracy": WordAccuracy,
    "cer": CharacterAccuracy,
}
_BATCH = 20_000  # distinct hypotheses whose statistics are computed at once; limits memory


class ListReader:
    """Makes pools of n-best lists; the statistics of each hypothesis are computed only once."""

    def __init__(
        self, references: Sequence[Sequence[tuple[str, ...]]], metric: MetricName = "bleu"
    ) -> None:
        self.metric = _METRICS[metric](list(references))
        self._reference_words = sum(map(len, references[0]))
        self.num_segments = num_segments = len(references[0])
        self._columns = FeatureColumns()
        # For each segment, the row index of each hypothesis' statistics, by its text.
        self._known: list[dict[bytes, int]] = [{} for _ in range(num_segments)]
        self._stats = np.empty((0, self.metric.num_stats))
        self._waiting: list[tuple[int, tuple[str, ...]]] = []

    def read_files(self, paths: Sequence[str], *, allow_missing: bool = False) -> Pool:
        """Return the union of the lists in all files; a missing list may be left empty."""
        cure = "--allow-missing uses an empty translation"
        # Sentences without a list in any one file, and in all files.
        some: set[int] = set()
        none = set(range(self.num_segments))
        pools = []
        for path in paths:
            lists = read_every_list(path, self.num_segments, allow_missing=allow_missing, cure=cure)
            missing: set[int] = set()
            pools.append(self.read(lists, path, missing=missing).distinct())
            some, none = some | missing, none & missing
        if none:
            text = "%s sentences have no list; an empty translation is used for each of them"
            _logger.warning(text, f"{len(none):,}")
        return self._without_empty(union(pools), sorted(some - none))

    def _without_empty(self, pool: Pool, segments: list[int]) -> Pool:
        if not segments:
            return pool
        empty = np.zeros_like(pool.stats[: pool.num_segments])
        empty[segments] = self.metric.statistics([()] * len(segments), segments)
        owners = pool.segments
        kept = ~np.isin(owners, segments) | pool.features.any(axis=1)
        kept |= (pool.stats != empty[owners]).any(axis=1)
        starts = np.concatenate([[0], np.cumsum(np.bincount(owners[kept]))])
        return Pool(pool.labels, pool.features[kept], pool.stats[kept], starts)

    def read(
        self,
        lists: Iterable[NbestList],
        checked: str | None = None,
        *,
        segments: Sequence[int] | None = None,
        missing: set[int] | None = None,
    ) -> Pool:
        """Return the hypotheses in lists, in order, one row per line.

        :param checked: the name of the lists, if a warning shall compare their length with the
            references.
        :param missing: receives the segments without a list, which get an empty hypothesis.
        """
        values, rows = [], []
        num_words = 0
        wanted = range(self.num_segments) if segments is None else segments
        # A feature that first occurs in a trial must not change the order of features, because a
        # resumed run has no trial.
        columns = self._columns if segments is None else FeatureColumns()
        for found in lists:
            values.append(columns.arrange(found))
            if missing is not None and not found.data:
                missing.add(found.id)
            distinct = found.distinct()
            known = self._rows(wanted[found.id], distinct)
            rows.append(np.array([known[hypothesis] for hypothesis in found.hypotheses]))
            num_words += len(next(iter(distinct.values())))
        if checked is not None:
            warn_of_lengths(checked, num_words, self._reference_words)
        self._compute()
        labels = columns.labels
        starts = np.cumsum([0, *map(len, values)], dtype=np.int64)
        features = np.zeros((starts[-1], len(labels)))
        for start, part in zip(starts, values, strict=False):
            features[start : start + len(part), : part.shape[1]] = part
        return Pool(labels, features, self._stats[np.concatenate(rows)], starts)

    def _rows(self, segment: int, distinct: Mapping[bytes, tuple[str, ...]]) -> dict[bytes, int]:
        """Return the row of each hypothesis' statistics, queueing new hypotheses for `_compute`."""
        known = self._known[segment]
        rows = {}
        for text, words in distinct.items():
            key = text.strip(b" ")
            row = known.get(key)
            if row is None:
                row = known[key] = len(self._stats) + len(self._waiting)
                self._waiting.append((segment, words))
            rows[text] = row
        if len(self._waiting) >= _BATCH:
            self._compute()
        return rows

    def _compute(self) -> None:
        if self._waiting:
            segments, words = zip(*self._waiting, strict=True)
            self._stats = np.concatenate([self._stats, self.metric.statistics(words, segments)])
            self._waiting.clear()


@dataclass
class Optimiser:
    """A tuning method with its settings, which a user may stop.

    After Ctrl-C or SIGTERM it returns the best weights so far; a second Ctrl-C interrupts it.
    """

    tuning: TuningMethod
    threads: int | None = None  # number of threads; None for all cores
    report: Report = _logger.debug  # receives a line for each step
    others: Collection[str] = ()  # features that may be fixed although a pool may lack them
    # The signal with which the user stopped it, to be raised after all files are written.
    stopped_by: int | None = None

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
        _logger.info("%s", report.last_line())


def feature_rows(
    pool: Pool,
    start: Vector,
    found: Vector,
    search: Sequence[float | None] | None = None,
    *,
    metric: Metric | None = None,
) -> tuple[FeatureRow, ...]:
    """Return one report row per feature value.

    :param search: weights for decoding, if there are two sets.
    :param metric: for each feature value's contribution, which is slow to compute; None for none.
    """
    amounts = found * pool.deviations()
    total = float(np.abs(amounts).sum()) or 1.0
    rows = []
    for index, (label, amount) in enumerate(zip(pool.labels, amounts.tolist(), strict=True)):
        weights = (
            float(start[index]),
            float(found[index]),
            None if search is None else search[index],
        )
        row = FeatureRow(str(label), *weights)
        if metric is not None:
            others = found.copy()
            others[index] = 0.0
            left_out = 100 * pool.score(metric, others)
            share = abs(amount) / total
            row = replace(row, contribution=amount, share=share, left_out=left_out)
        rows.append(row)
    return tuple(rows)
