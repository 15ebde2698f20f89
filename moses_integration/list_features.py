"""Feature values in n-best lists as columns, and scores for reranking.

As in Moses (mert/Data.cpp), a feature is sparse if its name has an underscore. Its value is 0 for
hypotheses that lack it. Every other feature is dense: all hypotheses in all lists must have it.
Joshua and cdec omit zero values of all features.
"""

from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_integration.nbest import NbestList
from moses_integration.nbest_lines import format_value
from moses_integration.weight_lines import BAD_NAME, is_sparse
from phrasescore.errors import DataError
from phrasescore.records import FeatureLabel, Weights

Values = NDArray[np.float64]


class FeatureMatrix(NamedTuple):
    """The feature values of all hypotheses in a list."""

    sizes: dict[str, int]  # number of values per feature, in column order
    values: Values  # (hypotheses, values); 0 where a feature is missing
    missing: NDArray[np.bool_] | None  # (hypotheses, features); None if none is

    def columns(self) -> dict[str, Values]:
        """Return the columns of each feature by name: (hypotheses, values of the feature)."""
        ends = pairwise(accumulate(self.sizes.values(), initial=0))
        spans = zip(self.sizes, ends, strict=True)
        return {name: self.values[:, start:end] for name, (start, end) in spans}

    def first_with(self, name: str) -> int:
        """Return the index of the first hypothesis that has a feature."""
        return int(self._lacks(name).argmin())

    def first_without(self, name: str) -> int | None:
        """Return the index of the first hypothesis that lacks a feature, or None if all have it."""
        lacks = self._lacks(name)
        return int(lacks.argmax()) if lacks.any() else None

    def _lacks(self, name: str) -> NDArray[np.bool_]:
        if name in self.sizes and self.missing is not None:
            return self.missing[:, list(self.sizes).index(name)]
        return np.full(1, name not in self.sizes)


def feature_matrix(nbest: NbestList) -> FeatureMatrix:
    """Return the feature values of a list."""
    if nbest.is_plain.all():
        return FeatureMatrix(dict(nbest.sizes), nbest.numbers[:, :-1], None)
    rows = [nbest.features(index) for index in range(nbest.num_lines)]
    sizes: dict[str, int] = {}
    for index, row in enumerate(rows):
        for name, numbers in row.items():
            if sizes.setdefault(name, len(numbers)) != len(numbers):
                problem = f"expected {sizes[name]} values for {name} as before"
                line = nbest.first_line + index
                raise DataError(nbest.path, line, f"{problem}, found {len(numbers)}")
    values = [
        [number for name in sizes for number in row.get(name, (0.0,) * sizes[name])] for row in rows
    ]
    missing = np.array([[name not in row for name in sizes] for row in rows])
    return FeatureMatrix(sizes, np.array(values), missing if missing.any() else None)


# Columns for tuners


class FeatureColumns:
    """Maps features to columns; the first hypothesis determines the dense features."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}  # number of values per feature, in column order

    @property
    def labels(self) -> tuple[FeatureLabel, ...]:
        """The labels of the columns so far."""
        return tuple(
            FeatureLabel(name, index) for name, size in self.sizes.items() for index in range(size)
        )

    def arrange(self, nbest: NbestList) -> Values:
        """Return the values of a list in the columns known so far: (hypotheses, columns)."""
        if not nbest.data:
            return np.zeros((1, len(self.labels)))
        matrix = feature_matrix(nbest)
        if not self.sizes:
            for name in filter(matrix.sizes.__contains__, nbest.features(0)):
                self._add(nbest, matrix, name)
        if matrix.missing is None and matrix.sizes == self.sizes:
            if list(matrix.sizes) == list(self.sizes):
                return matrix.values
        else:
            self._check(nbest, matrix)
        lacking, columns = np.zeros((len(matrix.values), 1)), matrix.columns()
        return np.concatenate([columns.get(name, lacking) for name in self.sizes], axis=1)

    def _add(self, nbest: NbestList, matrix: FeatureMatrix, name: str) -> None:
        problem = ""
        if BAD_NAME.search(name):
            problem = f"expected a feature's name without blanks, '#' or '[' first, found {name!r}"
        elif is_sparse(name) and matrix.sizes[name] != 1:
            problem = f"the feature {name} has '_' in its name, so Moses treats it as sparse"
            problem += f": expected one value, found {matrix.sizes[name]}"
        if problem:
            raise DataError(nbest.path, nbest.first_line + matrix.first_with(name), problem)
        self.sizes[name] = matrix.sizes[name]

    def _check(self, nbest: NbestList, matrix: FeatureMatrix) -> None:
        """Reject a list whose dense features differ; add columns for new sparse features."""
        for name, size in matrix.sizes.items():
            line = nbest.first_line + matrix.first_with(name)
            if name in self.sizes and self.sizes[name] != size:
                problem = f"expected {self.sizes[name]} values for {name} as before, found {size}"
                raise DataError(nbest.path, line, problem)
            if name not in self.sizes:
                if not nbest.omits_zeros and not is_sparse(name):
                    problem = f"this hypothesis has the feature {name}, which earlier ones lack"
                    raise DataError(nbest.path, line, problem)
                self._add(nbest, matrix, name)
        for name in () if nbest.omits_zeros else self.sizes:
            index = None if is_sparse(name) else matrix.first_without(name)
            if index is not None:
                problem = f"this hypothesis lacks the feature {name}, which earlier ones have"
                raise DataError(nbest.path, nbest.first_line + index, problem)


# Scores for reranking


@dataclass
class WeightedSum:
    """The log-linear model: the sum of weight times value over all features.

    It lacks features that n-best lists omit, such as Moses' UnknownWordPenalty, and may therefore
    differ from the decoder's total.
    """

    weights: Weights
    used: set[str] = field(default_factory=set)  # features with weights, so far
    unweighted: set[str] = field(default_factory=set)  # features without weights, so far

    def __call__(self, nbest: NbestList) -> Values:
        """Return the weighted sum for each hypothesis; equal values give bit-identical sums."""
        matrix = feature_matrix(nbest)
        self._check(nbest, matrix)
        scores = np.zeros(nbest.num_lines)
        column = 0
        for name, size in matrix.sizes.items():
            # A matrix product would round differently depending on the row index.
            for weight in self.weights.get(name, (0.0,) * size):
                scores += weight * matrix.values[:, column]
                column += 1
        return scores

    def _check(self, nbest: NbestList, matrix: FeatureMatrix) -> None:
        for name, size in matrix.sizes.items():
            weights = self.weights.get(name)
            if weights is not None and len(weights) != size:
                problem = f"{name} has {size} values but {len(weights)} weights"
                raise DataError(nbest.path, nbest.first_line, problem)
        self.used.update(matrix.sizes.keys() & self.weights.keys())
        without = [name for name in matrix.sizes if name not in self.weights]
        self.unweighted.update(without)
        # Moses gives weight 0 to a sparse feature that no file names.
        without = [name for name in without if nbest.omits_zeros or not is_sparse(name)]
        if without:
            line = nbest.first_line + matrix.first_with(without[0])
            cure = f"a line '{without[0]}= 0' in the weights ignores it"
            problem = f"these features have no weight: {', '.join(without)} ({cure})"
            raise DataError(nbest.path, line, problem)
        if nbest.omits_zeros:
            return
        indices = {name: matrix.first_without(name) for name in self.weights if not is_sparse(name)}
        first = min((index for index in indices.values() if index is not None), default=None)
        if first is not None:
            absent = ", ".join(name for name, index in indices.items() if index == first)
            problem = f"this hypothesis lacks features that have weights: {absent}"
            line = nbest.first_line + first
            cure = "add them as to the lists of the development text, or remove their weights"
            raise DataError(nbest.path, line, f"{problem}; {cure}")


def totals(nbest: NbestList) -> Values:
    """Return the decoder's total of each hypothesis."""
    if nbest.is_plain.all():
        return nbest.numbers[:, -1]
    return np.array([nbest.total(index) for index in range(nbest.num_lines)])


def with_total(raw: bytes, end: int, total: float) -> bytes:
    """Return a line with its total replaced and all other bytes unchanged.

    :param end: where the last value in field 3 ends.

    >>> with_total(b"0 ||| la  ||| LM0= -2 ||| -3.5 ||| 0-0", 21, -1.25)
    b'0 ||| la  ||| LM0= -2 ||| -1.25 ||| 0-0'
    """
    start = raw.index(b"|||", end) + 3
    old = raw[start:].partition(b"|||")[0]
    start += len(old) - len(old.lstrip(b" "))
    return raw[:start] + format_value(total) + raw[start + len(old.strip(b" \r")) :]


def sorted_lines(found: NbestList, scores: Values) -> bytes:
    """Return all lines in descending order of score, which replaces each line's total."""
    ends = (found.value_ends - found.begins[:-1]).tolist()
    order = (-scores).argsort(kind="stable")
    lines = (with_total(found.raws[at], ends[at], float(scores[at])) for at in order)
    return b"".join(line + b"\n" for line in lines)
