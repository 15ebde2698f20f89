"""Scores for reordering the hypotheses of an n-best list, one list at a time."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_integration.nbest import NbestList
from moses_integration.nbest_lines import WORD_SCORES, format_value
from moses_integration.weight_lines import is_sparse
from phrasescore.errors import DataError
from phrasescore.records import Weights

_logger = logging.getLogger(__name__)

Values = NDArray[np.float64]


class FeatureMatrix(NamedTuple):
    """The features of all hypotheses of a list."""

    # The number of values of each feature, in column order.
    sizes: dict[str, int]
    # (hypotheses, values); 0 where a feature is missing.
    values: Values
    # (hypotheses, features), whether a feature is missing; None if none is.
    missing: NDArray[np.bool_] | None

    def columns(self) -> dict[str, Values]:
        """Return the values of each feature: (hypotheses, values)."""
        ends = pairwise(accumulate(self.sizes.values(), initial=0))
        return {
            name: self.values[:, start:end]
            for name, (start, end) in zip(self.sizes, ends, strict=True)
        }

    def first_with(self, name: str) -> int:
        """Return the index of the first hypothesis that has a feature."""
        return 0 if self.missing is None else int(self._lacks(self.missing, name).argmin())

    def first_without(self, name: str) -> int | None:
        """Return the index of the first hypothesis that lacks a feature, or None if all have it."""
        if name not in self.sizes:
            return 0
        if self.missing is None or not (lacks := self._lacks(self.missing, name)).any():
            return None
        return int(lacks.argmax())

    def _lacks(self, missing: NDArray[np.bool_], name: str) -> NDArray[np.bool_]:
        return missing[:, list(self.sizes).index(name)]


def feature_matrix(nbest: NbestList) -> FeatureMatrix:
    """Return the features of a list; warn once per file that Marian's WordScores are ignored."""
    if WORD_SCORES in nbest.sizes:
        if nbest.first_line == 1:
            text = "%s: ignoring the feature %s, which has a value per word"
            _logger.warning(text, nbest.path, WORD_SCORES)
    elif nbest.is_plain.all():
        return FeatureMatrix(dict(nbest.sizes), nbest.numbers[:, :-1], None)
    return _any_matrix(nbest)


def _any_matrix(nbest: NbestList) -> FeatureMatrix:
    """Return the features of a list whose lines may differ, line by line."""
    rows = [nbest.features(index) for index in range(nbest.num_lines)]
    sizes: dict[str, int] = {}
    for index, row in enumerate(rows):
        row.pop(WORD_SCORES, None)
        for name, numbers in row.items():
            if sizes.setdefault(name, len(numbers)) != len(numbers):
                problem = f"expected {sizes[name]} values of {name} as before"
                line = nbest.first_line + index
                raise DataError(nbest.path, line, f"{problem}, found {len(numbers)}")
    values = [
        [number for name in sizes for number in row.get(name, (0.0,) * sizes[name])] for row in rows
    ]
    missing = np.array([[name not in row for name in sizes] for row in rows])
    return FeatureMatrix(sizes, np.array(values), missing if missing.any() else None)


@dataclass
class WeightedSum:
    """The log-linear model: the sum of weight times value over all features.

    Features that n-best lists omit, such as Moses' UnknownWordPenalty, are not included. So the sum
    may differ from the decoder's total, by the same amount for all hypotheses of a list that leave
    the same words untranslated.
    """

    weights: Weights
    # Whether a feature with a weight may be missing; its value is then 0.
    ignore_missing: bool = False
    # Whether a feature may have no weight; its weight is then 0.
    ignore_unweighted: bool = False
    # Seen so far: weights that have a feature, and features without a weight.
    used: set[str] = field(default_factory=set)
    unweighted: set[str] = field(default_factory=set)

    def __call__(self, nbest: NbestList) -> Values:
        """Return the weighted sum of each hypothesis; equal values give bit-identical sums."""
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
                problem = f"{name} has {size} values, and {len(weights)} weights"
                raise DataError(nbest.path, nbest.first_line, problem)
        self.used.update(matrix.sizes.keys() & self.weights.keys())
        without = [name for name in matrix.sizes if name not in self.weights]
        self.unweighted.update(without)
        # Moses gives weight 0 to a sparse feature that no file names.
        without = [name for name in without if nbest.omits_zeros or not is_sparse(name)]
        if without and not self.ignore_unweighted:
            line = nbest.first_line + matrix.first_with(without[0])
            problem = f"no weights for {', '.join(without)} (--ignore-unweighted takes 0)"
            raise DataError(nbest.path, line, problem)
        if self.ignore_missing or nbest.omits_zeros:
            return
        indices = {name: matrix.first_without(name) for name in self.weights if not is_sparse(name)}
        first = min((index for index in indices.values() if index is not None), default=None)
        if first is not None:
            absent = ", ".join(name for name, index in indices.items() if index == first)
            problem = f"expected the features {absent}, which have weights, found none"
            line = nbest.first_line + first
            raise DataError(nbest.path, line, f"{problem} (--ignore-missing takes 0)")


@dataclass
class EvenAverage:
    """The mean of the decoder's total and of named scores, all with the same weight.

    Sutskever et al. (2014, section 3.3) averaged the decoder's score and the log-probability of a
    network or an ensemble. How much the total matters depends on the scale of the decoder's
    weights; mert-moses.pl makes their absolute values sum to 1.
    """

    # Features of one value each; at least one.
    names: Sequence[str]
    # For each list so far, the variances of the totals and of the sums of the named scores.
    variances: list[tuple[float, float]] = field(default_factory=list)

    def __call__(self, nbest: NbestList) -> Values:
        """Return the mean for each hypothesis."""
        matrix = feature_matrix(nbest)
        decoder, columns = totals(nbest), matrix.columns()
        scores = decoder
        for name in self.names:
            is_zero = nbest.omits_zeros and name in matrix.sizes
            index = None if is_zero else matrix.first_without(name)
            size = matrix.sizes[name] if index is None else 0
            if size != 1:
                found = str(size) if size else f"none; there are {', '.join(matrix.sizes)}"
                problem = f"expected one value of the feature {name}, found {found}"
                raise DataError(nbest.path, nbest.first_line + (index or 0), problem)
            scores = scores + columns[name][:, 0]
        self.variances.append((float(decoder.var()), float((scores - decoder).var())))
        return scores / (1 + len(self.names))

    def deviations(self) -> tuple[float, float]:
        """Return the standard deviation within lists of the totals and of the named sums."""
        decoder, named = np.sqrt(np.mean(self.variances or [(0.0, 0.0)], axis=0)).tolist()
        return decoder, named


def totals(nbest: NbestList) -> Values:
    """Return the decoder's total of each hypothesis."""
    if nbest.is_plain.all():
        return nbest.numbers[:, -1]
    return np.array([nbest.total(index) for index in range(nbest.num_lines)])


def with_total(raw: bytes, end: int, total: float) -> bytes:
    """Return a line with its total replaced; every other byte stays.

    :param end: the end of field 3's last value, from `NbestList.ends`.

    >>> with_total(b"0 ||| la  ||| LM0= -2 ||| -3.5 ||| 0-0", 21, -1.25)
    b'0 ||| la  ||| LM0= -2 ||| -1.25 ||| 0-0'
    """
    start = raw.index(b"|||", end) + 3
    stop = raw.find(b"|||", start)
    old = raw[start:] if stop < 0 else raw[start:stop]
    start += len(old) - len(old.lstrip(b" "))
    return raw[:start] + format_value(total) + raw[start + len(old.strip(b" \r")) :]
