"""The metric of tuning, and n-best lists as pools of hypotheses with feature values."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from moses_integration.list_features import FeatureColumns
from moses_integration.nbest import NbestList, read_every_list
from phrasescore.systems.text_checks import warn_of_lengths
from tuning.edit_distance import CharacterAccuracy, WordAccuracy
from tuning.metrics import Bleu, ReferenceMetric
from tuning.pool import Pool, union
from tuning.settings import MetricName

_logger = logging.getLogger(__name__)

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
