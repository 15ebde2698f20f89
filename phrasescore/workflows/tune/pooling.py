"""Read pools to tune on: from n-best lists, or from the files of Moses' extractor."""

import logging
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from moses_integration.tuning_files import check_pair, read_features, read_scores
from moses_integration.tuning_lists import FeatureColumns, read_tuning_lists
from phrasescore.workflows.text_checks import warn_of_lengths
from tuning.metrics import ReferenceMetric
from tuning.pool import Pool, union

_logger = logging.getLogger(__name__)

# Distinct hypotheses whose statistics are computed in one go: words take much more room.
_BATCH = 20_000


class ListReader:
    """Reads n-best lists into pools; the statistics of each hypothesis are computed only once.

    :param references: their words by file and segment.
    :ivar metric: against the references of all segments.
    """

    def __init__(
        self, metric: ReferenceMetric, references: Sequence[Sequence[Sequence[str]]]
    ) -> None:
        self.metric = metric
        self._reference_words = sum(map(len, references[0]))
        self._num_segments = num_segments = len(references[0])
        self._columns = FeatureColumns()
        # For each segment: the row of each hypothesis' statistics, by its text.
        self._known: list[dict[bytes, int]] = [{} for _ in range(num_segments)]
        self._stats = np.empty((0, metric.num_stats))
        self._waiting: list[tuple[int, tuple[str, ...]]] = []

    def read_all(self, paths: Sequence[str], *, allow_missing: bool = False) -> Pool:
        """Return the union of the lists in all files.

        :param allow_missing: take an empty hypothesis for a sentence without a list in any file.
        :raises DataError: as `read_tuning_lists`.
        """
        # The sentences without a list in some file, and in all.
        some: set[int] = set()
        none = set(range(self._num_segments))
        pools = []
        for path in paths:
            missing: set[int] = set()
            pools.append(self.read(path, missing=missing if allow_missing else None).distinct())
            some, none = some | missing, none & missing
        if none:
            text = "%s sentences have no list: the empty translation is taken for each"
            _logger.warning(text, f"{len(none):,}")
        return self._without_empty(union(pools), sorted(some - none))

    def _without_empty(self, pool: Pool, segments: list[int]) -> Pool:
        """Return a pool without the empty hypotheses of segments that have others."""
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
        """Return the hypotheses of a file in order, one row per line.

        :param check: warn if the first hypotheses and the references differ in length.
        :param segments: the segments that the lists belong to; None for all segments.
        :param missing: receives the segments without a list, which get an empty hypothesis;
            None if every segment must have a list.
        :raises DataError: as `read_tuning_lists`.
        """
        values, rows, sizes = [], [], []
        num_words = 0
        wanted = range(self._num_segments) if segments is None else segments
        # A feature that a trial shows first must not change the order of features, for a resumed
        # run has no trial.
        columns = self._columns if segments is None else FeatureColumns()
        lists = read_tuning_lists(path, len(wanted), columns, allow_missing=missing is not None)
        for part, found in lists:
            values.append(part)
            if missing is not None and not found.raws[0]:
                missing.add(found.id)
            distinct = found.distinct()
            known = self._rows(wanted[found.id], distinct)
            rows.append(np.array([known[hypothesis] for hypothesis in found.hypotheses]))
            sizes.append(len(part))
            num_words += len(next(iter(distinct.values())))
        if check:
            # A decoder's lists get their name when they are known to be whole.
            warn_of_lengths(path.removesuffix(".part"), num_words, self._reference_words)
        self._compute()
        labels = columns.labels
        features = np.zeros((sum(sizes), len(labels)))
        starts = np.cumsum([0, *sizes], dtype=np.int64)
        for start, part in zip(starts, values, strict=False):
            features[start : start + len(part), : part.shape[1]] = part
        return Pool(labels, features, self._stats[np.concatenate(rows)], starts)

    def _rows(self, segment: int, distinct: Mapping[bytes, tuple[str, ...]]) -> dict[bytes, int]:
        """Return the row of each hypothesis' statistics; new ones wait for `_compute`."""
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
            segments = [segment for segment, _ in self._waiting]
            words = [hypothesis for _, hypothesis in self._waiting]
            found = self.metric.statistics(words, segments)
            self._stats = np.concatenate([self._stats, found])
            self._waiting.clear()


def read_extracted(features: Sequence[str], scores: Sequence[str]) -> Pool:
    """Return the union of the pools in files of Moses' extractor.

    :param scores: for each file of features, the file with the same hypotheses' statistics.
    :raises DataError: if a file is malformed, or two files have different hypotheses.
    """
    pools = []
    for features_path, scores_path in zip(features, scores, strict=True):
        values = read_features(features_path)
        statistics = read_scores(scores_path)
        check_pair(values, statistics)
        pools.append(Pool(values.labels, values.values, statistics.values, values.starts))
    return union(pools)


def some_names(names: Iterable[str]) -> str:
    """Return names for a message: at most ten, and the number of the others.

    >>> some_names(["LM0", "TM0"])
    'LM0, TM0'
    """
    listed = list(names)
    more = [f"and {len(listed) - 10:,} more"] if len(listed) > 10 else []
    return ", ".join(listed[:10] + more)
