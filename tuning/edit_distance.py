"""Word accuracy and character error rate, as metrics of edit distances that are summed.

The edit distance is Levenshtein's: the smallest number of insertions, deletions and substitutions.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from phrasescore.io.kernel_cache import kept_njit
from tuning.metrics import Integers, Statistics, sentence_lengths


class WordAccuracy:
    """1 minus the word error rate, against references, as a `ReferenceMetric`.

    The statistics of a hypothesis are its edit distance from a reference and the length of the
    reference, in words. With several references, each hypothesis uses the one with the lowest error
    rate, the first on ties. If all sentences have one word, the score is the share of right words.
    It is below 0 if there are more errors than words.
    """

    name = "word accuracy"
    num_stats = 2

    def __init__(self, references: Sequence[Sequence[Sequence[str]]]) -> None:
        self._numbers: dict[str, int] = {}
        texts = [self._units(words) for segments in references for words in segments]
        for unit in chain.from_iterable(texts):
            self._numbers.setdefault(unit, len(self._numbers))
        self._references = self._encode(texts)
        self._choices = len(references)

    def _units(self, words: Sequence[str]) -> Sequence[str]:
        return words

    def score(self, sums: Statistics) -> Statistics:
        """Return 1 - errors / length for each sum of statistics."""
        return np.asarray(1.0 - sums[..., 0] / np.maximum(sums[..., 1], 1.0))

    def statistics(
        self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int] | Integers
    ) -> Statistics:
        """See `ReferenceMetric.statistics`."""
        texts = [self._units(words) for words in hypotheses]
        result = np.empty((len(texts), self.num_stats))
        owners = np.asarray(segments, np.int64)
        _fill_errors(*self._encode(texts), *self._references, owners, self._choices, result)
        return result

    def _encode(self, texts: Sequence[Sequence[str]]) -> tuple[Integers, Integers]:
        number = self._numbers.get
        units = [number(unit, -1) for unit in chain.from_iterable(texts)]
        starts = np.concatenate(([0], sentence_lengths(texts).cumsum()))
        return np.array(units, np.int64), starts


class CharacterAccuracy(WordAccuracy):
    """1 minus the character error rate; the spaces between words are characters, too."""

    name = "1 - CER"

    def _units(self, words: Sequence[str]) -> Sequence[str]:
        return " ".join(words)


_KERNEL = kept_njit()


@_KERNEL
def _distance(first: Any, second: Any) -> int:
    """Return the Levenshtein distance of two arrays."""
    row = np.arange(len(second) + 1)
    for i in range(len(first)):
        diagonal, row[0] = row[0], i + 1
        for j in range(len(second)):
            changed = diagonal + (first[i] != second[j])
            diagonal = row[j + 1]
            row[j + 1] = min(changed, diagonal + 1, row[j] + 1)
    return int(row[-1])


@_KERNEL
def _fill_errors(
    units: Any, starts: Any, known: Any, known_starts: Any, owners: Any, choices: int, result: Any
) -> None:
    """Fill ``result`` with the errors and the length of the best reference of each text.

    :param units: the units of all texts; text i begins at ``starts[i]``.
    :param known: the units of all references, which begin at ``known_starts``. The first reference
        of every segment comes first, then the second reference of every segment.
    :param owners: the segment of each text.
    """
    segments = (len(known_starts) - 1) // choices
    for row in range(len(owners)):
        text = units[starts[row] : starts[row + 1]]
        for choice in range(choices):
            number = choice * segments + owners[row]
            reference = known[known_starts[number] : known_starts[number + 1]]
            errors, length = _distance(text, reference), len(reference)
            # errors / max(length, 1) is compared without division.
            if choice == 0 or errors * max(result[row, 1], 1) < result[row, 0] * max(length, 1):
                result[row, 0], result[row, 1] = errors, length
