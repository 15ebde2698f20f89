"""Scores that put the hypotheses of an n-best list in a new order, one list at a time."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_integration.nbest import WORD_SCORES, NbestList
from moses_integration.nbest_lines import format_value
from moses_integration.weight_lines import is_sparse
from phrasescore.errors import DataError
from phrasescore.records import Weights

_logger = logging.getLogger(__name__)

Values = NDArray[np.float64]


class FeatureMatrix(NamedTuple):
    """The features of all hypotheses of a list."""

    # The number of values of each feature; in the order of the columns.
    sizes: dict[str, int]
    # (hypotheses, values); 0 where a hypothesis lacks a feature.
    values: Values
    # (hypotheses, features), whether it lacks one; None where all have all.
    missing: NDArray[np.bool_] | None

    def columns(self) -> dict[str, Values]:
        """Return the values of each feature: (hypotheses, values)."""
        ends = pairwise(accumulate(self.sizes.values(), initial=0))
        return {
            name: self.values[:, start:end]
            for name, (start, end) in zip(self.sizes, ends, strict=True)
        }

    def first_with(self, name: str) -> int:
        """Return the place of the first hypothesis that has a feature of some."""
        return 0 if self.missing is None else int(self._lacks(self.missing, name).argmin())

    def first_without(self, name: str) -> int | None:
        """Return the place of the first hypothesis that lacks a feature; None if all have it."""
        if name not in self.sizes:
            return 0
        if self.missing is None or not (lacks := self._lacks(self.missing, name)).any():
            return None
        return int(lacks.argmax())

    def _lacks(self, missing: NDArray[np.bool_], name: str) -> NDArray[np.bool_]:
        return missing[:, list(self.sizes).index(name)]


def feature_matrix(nbest: NbestList) -> FeatureMatrix:
    """Return the features of a list, without Marian's WordScores, of which it warns once a file.

    :raises DataError: naming the line, if its features are not what they should be.
    """
    has_word_scores = WORD_SCORES in nbest.sizes
    if has_word_scores and nbest.first_line == 1:
        text = "%s: ignoring the feature %s, which has a value per word"
        _logger.warning(text, nbest.path, WORD_SCORES)
    numbers = None if has_word_scores else _plain_numbers(nbest)
    if numbers is None:
        return _any_matrix(nbest)
    return FeatureMatrix(dict(nbest.sizes), numbers[:, :-1], None)


def _plain_numbers(nbest: NbestList) -> Values | None:
    """Return the feature values and totals, (hypotheses, values + 1), as reading found them.

    None where a line has other features than the first one of the file, or they need a closer look.
    """
    if None in nbest.matches:
        return None
    texts = (text for match in nbest.matches if match is not None for text in match.groups())
    numbers = np.fromiter(map(float, texts), np.float64)
    return numbers.reshape(len(nbest.raws), -1)


def _any_matrix(nbest: NbestList) -> FeatureMatrix:
    """Return the features of a list whose lines may have different ones, line by line."""
    rows = [nbest.features(place) for place in range(len(nbest.raws))]
    sizes: dict[str, int] = {}
    for place, row in enumerate(rows):
        row.pop(WORD_SCORES, None)
        for name, numbers in row.items():
            if sizes.setdefault(name, len(numbers)) != len(numbers):
                problem = f"expected {sizes[name]} values of {name} as before"
                line = nbest.first_line + place
                raise DataError(nbest.path, line, f"{problem}, found {len(numbers)}")
    values = [[number for name in sizes for number in row.get(name, (0.0,) * sizes[name])]
              for row in rows]  # fmt: skip
    missing = np.array([[name not in row for name in sizes] for row in rows])
    return FeatureMatrix(sizes, np.array(values), missing if missing.any() else None)


@dataclass
class WeightedSum:
    """The log-linear model: the sum of weight times value over all features.

    Features that n-best lists do not show, such as Moses' UnknownWordPenalty, are not in it. So it
    may differ from the decoder's total, by the same amount for all hypotheses of a list that leave
    the same words untranslated.
    """

    weights: Weights
    # Whether a weight may lack its feature; a value that is missing is 0.
    ignore_missing: bool = False
    # Whether a feature may lack its weight, which is then 0.
    ignore_unweighted: bool = False
    # Met so far: names of weights that have a feature, and of features that have no weight.
    used: set[str] = field(default_factory=set)
    unweighted: set[str] = field(default_factory=set)

    def __call__(self, nbest: NbestList) -> Values:
        """Return the weighted sum of each hypothesis; equal values give equal sums, bit for bit."""
        matrix = feature_matrix(nbest)
        self._check(nbest, matrix)
        scores = np.zeros(len(nbest.raws))
        column = 0
        for name, size in matrix.sizes.items():
            # Not a matrix product, whose rounding depends on the place of a row.
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
        # Moses' weight of a sparse feature that no file names is 0.
        without = [name for name in without if nbest.omits_zeros or not is_sparse(name)]
        if without and not self.ignore_unweighted:
            line = nbest.first_line + matrix.first_with(without[0])
            problem = f"no weights for {', '.join(without)} (--ignore-unweighted takes 0)"
            raise DataError(nbest.path, line, problem)
        if self.ignore_missing or nbest.omits_zeros:
            return
        places = {name: matrix.first_without(name) for name in self.weights if not is_sparse(name)}
        first = min((place for place in places.values() if place is not None), default=None)
        if first is not None:
            absent = ", ".join(name for name, place in places.items() if place == first)
            problem = f"expected the features {absent}, which have weights, found none"
            line = nbest.first_line + first
            raise DataError(nbest.path, line, f"{problem} (--ignore-missing takes 0)")


@dataclass
class EvenAverage:
    """The mean of the decoder's total and of named scores, each with the same weight.

    Sutskever et al. (2014, section 3.3) averaged the decoder's score and one network's, or one
    ensemble's, log-probability. The total's part in the choice depends on the scale of the
    decoder's weights; mert-moses.pl makes their sizes sum to 1.
    """

    # Features of one value each; at least one.
    names: Sequence[str]
    # For each list so far, the variance of the totals, and of the sums of the named scores.
    variances: list[tuple[float, float]] = field(default_factory=list)

    def __call__(self, nbest: NbestList) -> Values:
        """Return the mean for each hypothesis."""
        matrix = feature_matrix(nbest)
        decoder, columns = totals(nbest), matrix.columns()
        scores = decoder
        for name in self.names:
            place = matrix.first_without(name)
            size = matrix.sizes[name] if place is None else 0
            if size != 1:
                found = str(size) if size else f"none; there are {', '.join(matrix.sizes)}"
                problem = f"expected one value of the feature {name}, found {found}"
                raise DataError(nbest.path, nbest.first_line + (place or 0), problem)
            scores = scores + columns[name][:, 0]
        self.variances.append((float(decoder.var()), float((scores - decoder).var())))
        return scores / (1 + len(self.names))

    def deviations(self) -> tuple[float, float]:
        """Return the deviation within lists of the totals, and of the sums of the named scores."""
        decoder, named = np.sqrt(np.mean(self.variances or [(0.0, 0.0)], axis=0)).tolist()
        return decoder, named


def totals(nbest: NbestList) -> Values:
    """Return the decoder's total of each hypothesis.

    :raises DataError: naming the line, if one is not a finite number.
    """
    return np.array(
        [
            nbest.total(place) if match is None else float(match[match.re.groups])
            for place, match in enumerate(nbest.matches)
        ]
    )


def with_total(raw: bytes, end: int, total: float) -> bytes:
    """Return a line with another total, every other byte as it was.

    :param end: where the last value of field 3 ends, as `NbestList.ends` has it.

    >>> with_total(b"0 ||| la  ||| LM0= -2 ||| -3.5 ||| 0-0", 21, -1.25)
    b'0 ||| la  ||| LM0= -2 ||| -1.25 ||| 0-0'
    """
    start = raw.index(b"|||", end) + 3
    stop = raw.find(b"|||", start)
    old = raw[start:] if stop < 0 else raw[start:stop]
    start += len(old) - len(old.lstrip(b" "))
    return raw[:start] + format_value(total) + raw[start + len(old.strip(b" \r")) :]
