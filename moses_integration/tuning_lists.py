"""N-best lists as a tuner needs them: feature values in columns, the same for all lists.

A feature whose name has an underscore is sparse, as it is to Moses (mert/Data.cpp): a hypothesis
may lack it, and has 0 then. Every other feature is dense: all hypotheses of all lists have it.
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
    """The columns of feature values, which grow with every sparse feature that is met.

    The dense ones are those of the first hypothesis.
    """

    def __init__(self) -> None:
        # The number of values of each feature, in the order of the columns.
        self.sizes: dict[str, int] = {}

    @property
    def labels(self) -> tuple[FeatureLabel, ...]:
        """The columns met so far."""
        return tuple(
            FeatureLabel(name, at) for name, size in self.sizes.items() for at in range(size)
        )

    def arrange(self, nbest: NbestList, matrix: FeatureMatrix) -> Values:
        """Return the values of a list in the order of the columns: (hypotheses, columns).

        :raises DataError: if a hypothesis lacks a dense feature, has one more, or one with another
            number of values; naming the line.
        """
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
        """Refuse a list whose dense features are not the usual ones; learn new sparse ones."""
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
            place = None if is_sparse(name) else matrix.first_without(name)
            if place is not None:
                problem = f"this hypothesis lacks the feature {name}, which earlier ones have"
                raise DataError(nbest.path, nbest.first_line + place, problem)


def read_tuning_lists(
    path: str, num_segments: int, columns: FeatureColumns, *, allow_missing: bool = False
) -> Iterator[tuple[Values, NbestList]]:
    """Yield the lists of a file, one for every sentence in order, lazily, with their values.

    The values are those of the columns met so far: (hypotheses, columns).

    :param num_segments: the number of references.
    :param allow_missing: yield an empty hypothesis, all of whose values are 0, for a sentence
        without a list.
    :raises DataError: as `read_nbest`, at features that do not go together, and where a sentence
        has no hypotheses, or no reference.
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
    """Return the list of an empty hypothesis, which has no line in the file."""
    nbest = NbestList(path, sent_id, 0, [b""], [b""], [0], b"", [None], {})
    return np.zeros((1, len(columns.labels))), nbest
