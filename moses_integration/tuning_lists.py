"""Read n-best lists as a tuner needs them: feature values in the same columns for all lists.

As in Moses (mert/Data.cpp), a feature is sparse if its name has an underscore: its value is 0 in a
hypothesis that lacks it. Every other feature is dense: all hypotheses of all lists must have it.
Lists of Joshua and cdec omit zeros of all features.
"""

from collections.abc import Iterator

import numpy as np

from moses_integration.nbest import NbestList, read_nbest
from moses_integration.reranking import FeatureMatrix, Values, feature_matrix
from moses_integration.weight_lines import BAD_NAME, is_sparse
from phrasescore.errors import DataError
from phrasescore.records import FeatureLabel


class FeatureColumns:
    """The columns of feature values; every new sparse feature adds one.

    The first hypothesis determines the dense features.
    """

    def __init__(self) -> None:
        # The number of values of each feature, in column order.
        self.sizes: dict[str, int] = {}

    @property
    def labels(self) -> tuple[FeatureLabel, ...]:
        """The columns seen so far."""
        return tuple(
            FeatureLabel(name, index) for name, size in self.sizes.items() for index in range(size)
        )

    def arrange(self, nbest: NbestList, matrix: FeatureMatrix) -> Values:
        """Return the values of a list in column order: (hypotheses, columns)."""
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
        line = nbest.first_line + matrix.first_with(name)
        if BAD_NAME.search(name):
            problem = f"expected the name of a feature without blanks, found {name!r}"
            raise DataError(nbest.path, line, problem)
        if is_sparse(name) and matrix.sizes[name] != 1:
            problem = f"the feature {name} has '_' in its name, so it is a sparse one to Moses"
            found = f"expected one value, found {matrix.sizes[name]}"
            raise DataError(nbest.path, line, f"{problem}: {found}")
        self.sizes[name] = matrix.sizes[name]

    def _check(self, nbest: NbestList, matrix: FeatureMatrix) -> None:
        """Refuse a list whose dense features differ; add its new sparse features."""
        for name, size in matrix.sizes.items():
            line = nbest.first_line + matrix.first_with(name)
            if name in self.sizes and self.sizes[name] != size:
                problem = f"expected {self.sizes[name]} values of {name} as before, found {size}"
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


def read_tuning_lists(
    path: str, num_segments: int, columns: FeatureColumns, *, allow_missing: bool = False
) -> Iterator[tuple[Values, NbestList]]:
    """Yield the lists of all sentences in order, lazily, with their values.

    The values, (hypotheses, columns), cover the columns seen so far.

    :param num_segments: the number of references.
    :param allow_missing: for a sentence without a list, yield an empty hypothesis with values 0.
    """
    expected = 0
    for nbest in read_nbest(path):
        if nbest.id >= num_segments:
            problem = f"id {nbest.id} is beyond the references, which have {num_segments:,} lines"
            raise DataError(path, nbest.first_line, problem)
        if nbest.id != expected and not allow_missing:
            problem = f"expected id {expected}, found {nbest.id}: a sentence has no hypotheses"
            cure = "--allow-missing takes an empty translation"
            raise DataError(path, nbest.first_line, f"{problem} ({cure})")
        yield from (_empty_list(path, id_, columns) for id_ in range(expected, nbest.id))
        expected = nbest.id + 1
        yield columns.arrange(nbest, feature_matrix(nbest)), nbest
    if expected < num_segments and not allow_missing:
        problem = f"expected lists of {num_segments:,} sentences, as there are references"
        cure = "--allow-missing takes empty translations"
        raise DataError(path, None, f"{problem}, the last has id {expected - 1} ({cure})")
    yield from (_empty_list(path, id_, columns) for id_ in range(expected, num_segments))


def _empty_list(path: str, sent_id: int, columns: FeatureColumns) -> tuple[Values, NbestList]:
    """Return a list with one empty hypothesis, which has no line in the file."""
    return np.zeros((1, len(columns.labels))), NbestList.empty(path, sent_id)
