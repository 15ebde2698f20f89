"""The tuning method, which a user may stop, its metric, and pools of n-best lists."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from moses_integration.list_features import FeatureColumns, read_tuning_lists
from phrasescore.devices import usable_threads
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.evaluation.sentences import check_aligned, read_sentences
from phrasescore.records import FeatureLabel, Weights
from phrasescore.settings.tuning import TuningMethod
from phrasescore.signals import catching_signals, raise_signal
from phrasescore.systems.text_checks import warn_of_lengths
from tuning.confidence import Calibration, calibrate_weights
from tuning.edit_distance import CharacterAccuracy, WordAccuracy
from tuning.methods import Optimise, Report, StopTuning, Tuned, load_method
from tuning.metrics import Bleu, Chrf, Interpolated, Metric, ReferenceMetric
from tuning.pool import Pool, Vector, union, weights_vector
from tuning.settings import METRICS, TuneSettings

_logger = logging.getLogger(__name__)

_METRICS: dict[str, Callable[[list[Any]], ReferenceMetric]] = {
    "bleu": Bleu,
    "chrf": Chrf,
    "word_accuracy": WordAccuracy,
    "cer": CharacterAccuracy,
}
_BATCH = 20_000  # distinct hypotheses whose statistics are computed at once; limits memory


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
    _optimise: Optimise = field(init=False)

    def __post_init__(self) -> None:
        self._optimise = load_method(self.tuning.method)

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

    def calibrate(self, pool: Pool, metric: Metric, weights: Weights) -> Calibration:
        """Return the confidence of the translations that tuned weights select from lists."""
        found, settings = weights_vector(weights, pool.labels), self.settings(pool.labels)
        return calibrate_weights(pool, metric, found, settings, seed=self.tuning.seed)

    def __call__(self, pool: Pool, metric: Metric, start: Vector, seed: int) -> Tuned:
        """Return weights that are at least as good as the start."""
        settings = self.settings(pool.labels)
        with catching_signals() as caught:

            def report_or_stop(line: str) -> None:
                self.report(line)
                if caught:
                    raise StopTuning

            tuned = self._optimise(pool, metric, start, settings, seed=seed, report=report_or_stop)
            self.stopped_by = caught[0] if caught else None
        for note in tuned.notes:
            _logger.info("%s: %s", tuned.method, note)
        return tuned


def read_metric(
    paths: Sequence[str], metrics: Mapping[str, float]
) -> tuple[ReferenceMetric, list[list[tuple[str, ...]]]]:
    """Return the metric, and the reference words, indexed by file and sentence."""
    for name, weight in metrics.items():
        if name not in METRICS or not 0 < weight < float("inf"):
            known = " or ".join(METRICS)
            raise ArgumentError(f"--metric: expected {known}, and weights above 0")
    references = [read_sentences(path) for path in paths]
    check_aligned(references)
    words = [sentences.words for sentences in references]
    chosen: list[ReferenceMetric] = [_METRICS[name](words) for name in metrics]
    if len(chosen) == 1:
        return chosen[0], words
    return Interpolated(chosen, list(metrics.values())), words


class ListReader:
    """Reads n-best lists into pools; the statistics of each hypothesis are computed only once.

    :ivar metric: the metric against the references of all segments.
    :ivar num_segments: the number of segments.
    """

    def __init__(
        self, metric: ReferenceMetric, references: Sequence[Sequence[Sequence[str]]]
    ) -> None:
        self.metric = metric
        self._reference_words = sum(map(len, references[0]))
        self.num_segments = num_segments = len(references[0])
        self._columns = FeatureColumns()
        # For each segment, the row index of each hypothesis' statistics, by its text.
        self._known: list[dict[bytes, int]] = [{} for _ in range(num_segments)]
        self._stats = np.empty((0, metric.num_stats))
        self._waiting: list[tuple[int, tuple[str, ...]]] = []

    def read_all(self, paths: Sequence[str], *, allow_missing: bool = False) -> Pool:
        """Return the union of the lists in all files; a missing list may be left empty."""
        # Sentences without a list in any one file, and in all files.
        some: set[int] = set()
        none = set(range(self.num_segments))
        pools = []
        for path in paths:
            missing: set[int] = set()
            pools.append(self.read(path, missing=missing if allow_missing else None).distinct())
            some, none = some | missing, none & missing
        if none:
            text = "%s sentences have no list; an empty translation is used for each of them"
            _logger.warning(text, f"{len(none):,}")
        return self._without_empty(union(pools), sorted(some - none))

    def _without_empty(self, pool: Pool, segments: list[int]) -> Pool:
        """Remove empty hypotheses in the given segments if there are other hypotheses."""
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
        path: str,
        *,
        check: bool = True,
        segments: Sequence[int] | None = None,
        missing: set[int] | None = None,
    ) -> Pool:
        """Return the hypotheses in a file, in order, one row per line.

        :param segments: the segments that the lists are for; None for all segments.
        :param missing: receives the segments without a list, which get an empty hypothesis;
            None if every segment must have a list.
        """
        values, rows = [], []
        num_words = 0
        wanted = range(self.num_segments) if segments is None else segments
        # A feature that first occurs in a trial must not change the order of features, because a
        # resumed run has no trial.
        columns = self._columns if segments is None else FeatureColumns()
        lists = read_tuning_lists(path, len(wanted), columns, allow_missing=missing is not None)
        for part, found in lists:
            values.append(part)
            if missing is not None and not found.data:
                missing.add(found.id)
            distinct = found.distinct()
            known = self._rows(wanted[found.id], distinct)
            rows.append(np.array([known[hypothesis] for hypothesis in found.hypotheses]))
            num_words += len(next(iter(distinct.values())))
        if check:
            # A decoder's lists are renamed once they are known to be complete.
            warn_of_lengths(path.removesuffix(".part"), num_words, self._reference_words)
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
