"""The pool for tuning: features and sufficient statistics of hypotheses for all segments."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import PhrasescoreError
from phrasescore.io.hashing import combine
from phrasescore.io.kernel_cache import kept_njit
from phrasescore.io.ragged import RaggedArray
from phrasescore.records import FeatureLabel, Weights
from tuning.metrics import Integers, Metric, Statistics

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

_SAME = 1e-30  # values that differ by at most this are treated as equal


@dataclass(frozen=True, eq=False)
class Pool:
    """The hypotheses for all segments. The arrays must not be modified."""

    labels: tuple[FeatureLabel, ...]
    # (hypotheses, features): natural logarithms or counts, as the decoder wrote them.
    features: Matrix
    stats: Statistics  # (hypotheses, num_stats): sufficient statistics for the metric
    starts: Integers  # (segments + 1,): segment s has the rows starts[s] to starts[s + 1]

    @property
    def num_segments(self) -> int:
        """The number of segments, each with a list of hypotheses."""
        return len(self.starts) - 1

    @property
    def segments(self) -> Integers:
        """The 0-based segment of each hypothesis: (hypotheses,)."""
        return np.repeat(np.arange(self.num_segments), np.diff(self.starts))

    def model_scores(self, weights: Vector, rows: slice = slice(None)) -> Vector:
        """Return features @ weights for each hypothesis; equal rows have equal scores."""
        # A matrix product does not guarantee this. Here each row is summed from left to right.
        vector = np.ascontiguousarray(weights, np.float64)
        return np.asarray(_model_scores(self.features[rows], vector))

    def model_best(self, weights: Vector) -> Integers:
        """Return the row with the highest model score in each segment, as `highest` does."""
        return self.highest(self.model_scores(weights))

    def highest(self, scores: Vector) -> Integers:
        """Return the row with the highest score in each segment: (segments,); earliest on ties."""
        return np.asarray(_best_rows(scores, self.starts))

    def score(self, metric: Metric, weights: Vector) -> float:
        """Return the metric, 0 to 1, of the hypotheses that the weights select."""
        return float(metric.score(self.stats[self.model_best(weights)].sum(axis=0)))

    def constant_features(self) -> Mask:
        """Return whether each feature varies by at most 1e-30 within segments: (features,)."""
        first = np.repeat(self.starts[:-1], np.diff(self.starts))
        ranges = [np.abs(each - each[first]).max(initial=0.0) for each in self.features.T]
        return np.array(ranges) <= _SAME

    def deviations(self) -> Vector:
        """Return each feature's standard deviation within segments, 0 if constant: (features,)."""
        return np.where(self.constant_features(), 0.0, _deviations(self.features, self.starts))

    def score_deviation(self, weights: Vector) -> float:
        """Return the standard deviation of model scores within segments."""
        scores = self.model_scores(weights)
        means = np.add.reduceat(scores, self.starts[:-1]) / np.diff(self.starts)
        return float(np.sqrt(np.square(scores - means[self.segments]).mean()))

    def distinct(self) -> "Pool":
        """Return a pool without duplicates; of hypotheses with equal numbers, the first is kept."""
        kept, _ = number_equals(self.segments, self.features, self.stats)
        if len(kept) == len(self.stats):
            return self
        counts = np.bincount(self.segments[kept], minlength=self.num_segments)
        starts = np.concatenate([[0], np.cumsum(counts)])
        return replace(self, features=self.features[kept], stats=self.stats[kept], starts=starts)

    def with_features(self, kept: Mask) -> "Pool":
        """Return a pool with only the features where ``kept`` is true."""
        labels = tuple(label for label, keep in zip(self.labels, kept, strict=True) if keep)
        return replace(self, labels=labels, features=np.ascontiguousarray(self.features[:, kept]))

    def subset(self, segments: Sequence[int] | Integers) -> "Pool":
        """Return a pool with the selected segments, in this order; repetitions are allowed."""
        rows = RaggedArray(self.stats, self.starts).positions(np.asarray(segments, np.int64))
        features, stats = self.features[rows.values], self.stats[rows.values]
        return replace(self, features=features, stats=stats, starts=rows.starts)


def union(pools: Sequence[Pool]) -> Pool:
    """Return the distinct hypotheses from pools with the same segments.

    Hypotheses from earlier pools come first, so that they win ties. A feature that is missing from
    a pool is sparse; its value there is 0.
    """
    first = pools[0]
    if len(pools) == 1:
        return first.distinct()
    labels = tuple(dict.fromkeys(label for pool in pools for label in pool.labels))
    order = np.argsort(np.concatenate([pool.segments for pool in pools]), kind="stable")
    return Pool(
        labels,
        np.concatenate([_features(pool, labels) for pool in pools])[order],
        np.concatenate([pool.stats for pool in pools])[order],
        np.sum([pool.starts for pool in pools], axis=0),
    ).distinct()


def _features(pool: Pool, labels: tuple[FeatureLabel, ...]) -> Matrix:
    if pool.labels == labels:
        return pool.features
    features = np.zeros((len(pool.features), len(labels)))
    columns = {label: column for column, label in enumerate(labels)}
    features[:, [columns[label] for label in pool.labels]] = pool.features
    return features


def number_equals(segments: Integers, *tables: Matrix) -> tuple[Integers, Integers]:
    """Return the rows that differ from all earlier rows in their segment, in ascending order.

    :return: also the index among them of the row that each row is equal to: (rows,).
    """
    # Rows are sorted by a 64-bit hash, and adjacent rows are compared. If two different rows have
    # the same hash, all rows are sorted by their values, which is many times as slow.
    # + 0.0 converts -0.0 to 0.0.
    bits = [np.ascontiguousarray(table + 0.0).view(np.uint64) for table in tables]
    hashes = segments.astype(np.uint64)
    for table in bits:
        _hash_rows(table, hashes)
    order = np.argsort(hashes, kind="stable")
    same = hashes[order[1:]] == hashes[order[:-1]]
    one, other = order[:-1][same], order[1:][same]
    equal = segments[one] == segments[other]
    for table in bits:
        equal &= (table[one] == table[other]).all(axis=1)
    if not equal.all():
        rows = np.concatenate([segments.astype(np.uint64)[:, None], *bits], axis=1)
        _, firsts, numbers = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        numbers = numbers.reshape(-1)
    else:
        is_first = np.concatenate([[True], ~same])
        firsts, numbers = order[is_first], np.empty(len(order), np.int64)
        numbers[order] = np.cumsum(is_first) - 1
    ranks = np.argsort(firsts)
    places = np.empty_like(ranks)
    places[ranks] = np.arange(len(ranks))
    return firsts[ranks], places[numbers]


@kept_njit()
def _hash_rows(table: Any, hashes: Any) -> None:
    for row in range(len(table)):
        for column in range(table.shape[1]):
            hashes[row] = combine(hashes[row], table[row, column])


@kept_njit()
def _model_scores(features: Any, weights: Any) -> Any:
    scores = np.empty(len(features))
    for row in range(len(features)):
        total = 0.0
        for column in range(len(weights)):
            total += features[row, column] * weights[column]
        scores[row] = total
    return scores


@kept_njit()
def _best_rows(scores: Any, starts: Any) -> Any:
    best = np.empty(len(starts) - 1, np.int64)
    for segment in range(len(best)):
        row = starts[segment]
        for other in range(row + 1, starts[segment + 1]):
            if scores[other] > scores[row]:
                row = other
        best[segment] = row
    return best


@kept_njit()
def _deviations(features: Any, starts: Any) -> Any:
    total = np.zeros(features.shape[1])
    mean = np.empty(features.shape[1])
    for segment in range(len(starts) - 1):
        mean[:] = 0.0
        for row in range(starts[segment], starts[segment + 1]):
            for column in range(len(mean)):
                mean[column] += features[row, column]
        mean /= starts[segment + 1] - starts[segment]
        for row in range(starts[segment], starts[segment + 1]):
            for column in range(len(mean)):
                total[column] += (features[row, column] - mean[column]) ** 2
    return np.sqrt(total / len(features))


def weights_vector(weights: Weights, labels: Sequence[FeatureLabel], where: str = "") -> Vector:
    """Return the weight for each label, or 0 if a label has no weight."""
    sizes: dict[str, int] = {}
    for label in labels:
        sizes[label.name] = max(sizes.get(label.name, 0), label.place + 1)
    for name, size in sizes.items():
        if name in weights and len(weights[name]) != size:
            problem = f"expected {size} weights for {name}, one per value"
            problem = f"{problem}, found {len(weights[name])}"
            raise PhrasescoreError(f"{where}: {problem}" if where else problem)
    return np.array(
        [weights[label.name][label.place] if label.name in weights else 0.0 for label in labels]
    )


def named_weights(vector: Vector, labels: Sequence[FeatureLabel]) -> Weights:
    """Convert a weight vector to weights by feature name, in order of appearance.

    >>> named_weights(np.array([1.0, 2.0]), [FeatureLabel("TM0", 0), FeatureLabel("TM0", 1)])
    {'TM0': (1.0, 2.0)}
    """
    weights: Weights = {}
    for label, weight in sorted(
        zip(labels, vector.tolist(), strict=True), key=lambda pair: pair[0].place
    ):
        weights[label.name] = (*weights.get(label.name, ()), weight)
    return {label.name: weights[label.name] for label in labels}


def weights_between(one: Weights, other: Weights, share: float) -> Weights:
    """Interpolate linearly between two sets of weights; a missing weight is 0.

    >>> weights_between({"A": (1.0,)}, {"A": (0.0,), "B": (1.0,)}, 0.25)
    {'A': (0.75,), 'B': (0.25,)}
    """
    if share == 1:
        return other
    weights: Weights = {}
    for name in {**one, **other}:
        nothing = (0.0,) * len(other.get(name, one.get(name, ())))
        pairs = zip(one.get(name, nothing), other.get(name, nothing), strict=True)
        weights[name] = tuple((1 - share) * old + share * new for old, new in pairs)
    return weights
