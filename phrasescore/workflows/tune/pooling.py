"""From files to what is tuned on: n-best lists, or what Moses' extractor made of them."""

import logging
import os
from collections.abc import Iterable, Sequence

import numpy as np

from moses_integration.tuning_files import check_pair, read_features, read_scores
from moses_integration.tuning_lists import FeatureColumns, TuningList, read_tuning_lists
from moses_integration.weights import Weights
from phrasescore.cli.reference_check import doubt
from phrasescore.errors import PhrasescoreError, shown_path
from tuning.loop import NamedWeights, union
from tuning.metric import ReferenceMetric
from tuning.pool import FeatureLabel, Pool, Vector

_logger = logging.getLogger(__name__)

# Distinct hypotheses whose statistics are computed in one go: words take much more room.
_BATCH = 20_000


class ListReader:
    """Reads n-best lists into pools; a hypothesis' statistics are computed once, ever.

    Where the references cannot be those of the lists in a file, it warns of it.

    :param metric: against the references of all segments.
    :param references: by file and segment.
    """

    def __init__(
        self, metric: ReferenceMetric, references: Sequence[Sequence[Sequence[str]]]
    ) -> None:
        self._metric = metric
        self._references = references
        self._num_segments = num_segments = len(references[0])
        self._columns = FeatureColumns()
        # For each segment: the row of each hypothesis' statistics, by its text.
        self._known: list[dict[bytes, int]] = [{} for _ in range(num_segments)]
        self._stats = np.empty((0, metric.num_stats))
        self._waiting: list[tuple[int, tuple[str, ...]]] = []

    @property
    def num_hypotheses(self) -> int:
        """How many different translations have been read so far."""
        return len(self._stats)

    def read(self, path: str, *, check: bool = True, segments: Sequence[int] | None = None) -> Pool:
        """Return the hypotheses of a file, in its order, each line a row.

        :param check: warn where the references cannot be those of the lists.
        :param segments: which ones the lists are of; all, if None.
        :raises DataError: as `read_tuning_lists`.
        """
        values, rows, sizes = [], [], []
        first = []
        wanted = range(self._num_segments) if segments is None else segments
        # What a trial shows first is not to change the order of features, which a resumed run has.
        columns = self._columns if segments is None else FeatureColumns()
        for found in read_tuning_lists(path, len(wanted), columns):
            values.append(found.values)
            rows.append(self._rows(wanted[found.segment], found))
            sizes.append(len(found.values))
            first.append(list(found.hypotheses.values())[found.which[0]])
        problem = doubt(self._references, first, "the first hypotheses") if check else None
        if problem is not None:
            # A decoder's lists get their name when they are known to be whole.
            _logger.warning("%s: %s", shown_path(path.removesuffix(".part")), problem)
        self._compute()
        labels = tuple(FeatureLabel(*label) for label in columns.labels)
        features = np.zeros((sum(sizes), len(labels)))
        starts = np.cumsum([0, *sizes], dtype=np.int64)
        for start, part in zip(starts, values, strict=False):
            features[start : start + len(part), : part.shape[1]] = part
        return Pool(labels, features, self._stats[np.concatenate(rows)], starts)

    def _rows(
        self, segment: int, found: TuningList
    ) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """Return the row of each hypothesis' statistics, which may have to be computed yet."""
        known = self._known[segment]
        rows = []
        for text, words in found.hypotheses.items():
            key = text.strip(b" ")
            row = known.get(key)
            if row is None:
                row = known[key] = len(self._stats) + len(self._waiting)
                self._waiting.append((segment, words))
            rows.append(row)
        if len(self._waiting) >= _BATCH:
            self._compute()
        return np.array(rows)[found.which]

    def _compute(self) -> None:
        if self._waiting:
            segments = [segment for segment, _ in self._waiting]
            words = [hypothesis for _, hypothesis in self._waiting]
            found = self._metric.statistics(words, segments)
            self._stats = np.concatenate([self._stats, found])
            self._waiting.clear()


def read_extracted(features: Sequence[str], scores: Sequence[str]) -> Pool:
    """Return the union of what Moses' extractor wrote: features and scores in pairs.

    :raises DataError: if a file is not what it should be, or two are no pair.
    """
    pools = []
    for features_path, scores_path in zip(features, scores, strict=True):
        values = read_features(features_path)
        statistics = read_scores(scores_path)
        check_pair(values, statistics)
        labels = tuple(FeatureLabel(*label) for label in values.labels)
        pools.append(Pool(labels, values.values, statistics.bleu_statistics(), values.starts))
    return union(pools)


def read_references(names: Sequence[str]) -> list[str]:
    """Return the files of references: a name, or NAME0, NAME1 and so on as in mert-moses.pl."""
    paths: list[str] = []
    for name in names:
        numbered = [f"{name}0"]
        while os.path.exists(numbered[-1]):
            numbered.append(f"{name}{len(numbered)}")
        if name != "-" and not os.path.exists(name) and len(numbered) > 1:
            paths.extend(numbered[:-1])
        else:
            paths.append(name)
    return paths


# Weights


def some_names(names: Iterable[str]) -> str:
    """Return names for a message, the first ten of them where there are more.

    >>> some_names(["LM0", "TM0"])
    'LM0, TM0'
    """
    listed = list(names)
    more = [f"and {len(listed) - 10:,} more"] if len(listed) > 10 else []
    return ", ".join(listed[:10] + more)


def weights_vector(
    weights: Weights, labels: Sequence[FeatureLabel], where: str
) -> tuple[Vector, list[str]]:
    """Return the weight of each label, and the names of features that have none: theirs are 0.

    :param where: the weights come from, for messages.
    :raises PhrasescoreError: if a feature has another number of weights than of values.
    """
    sizes: dict[str, int] = {}
    for label in labels:
        sizes[label.name] = label.place + 1
    for name, size in sizes.items():
        if name in weights and len(weights[name]) != size:
            problem = f"expected {size} weights of {name}, as there are values"
            raise PhrasescoreError(f"{where}: {problem}, found {len(weights[name])}")
    vector = np.array(
        [weights[label.name][label.place] if label.name in weights else 0.0 for label in labels]
    )
    return vector, [name for name in sizes if name not in weights]


def by_name(weights: NamedWeights) -> Weights:
    """Return weights by the name of their feature, in order of appearance."""
    labels = sorted(weights, key=lambda label: label.place)
    found: Weights = {label.name: () for label in weights}
    for label in labels:
        found[label.name] += (weights[label],)
    return found


def by_label(weights: Weights) -> NamedWeights:
    """Return weights by feature and place."""
    return {
        FeatureLabel(name, place): value
        for name, values in weights.items()
        for place, value in enumerate(values)
    }


def named_weights(vector: Vector, labels: Sequence[FeatureLabel]) -> Weights:
    """Return a vector by the name of its features."""
    return by_name(dict(zip(labels, vector.tolist(), strict=True)))
