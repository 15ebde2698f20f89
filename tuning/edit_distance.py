"""Word accuracy and character error rate, as metrics of edit distances that are summed.

The edit distance is Levenshtein's: the smallest number of insertions, deletions and substitutions.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from tuning.metrics import Statistics, count_segments
from tuning.ngrams import Integers, sentence_lengths


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
        self.num_segments = count_segments(references)
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
        from tuning.edit_kernels import fill_errors  # imports numba

        texts = [self._units(words) for words in hypotheses]
        result = np.empty((len(texts), self.num_stats))
        owners = np.asarray(segments, np.int64)
        fill_errors(*self._encode(texts), *self._references, owners, self._choices, result)
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
