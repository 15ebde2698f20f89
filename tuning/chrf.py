"""chrF (Popović, 2015): an F-score of character n-grams, from statistics that add up.

It equals sacrebleu's chrF2 to the last digit: n-grams of 1 to 6 characters without white space,
recall twice as important as precision, both averaged over the orders that hypothesis and reference
have. The statistics, each for n = 1 to 6, are the n-grams of the hypothesis, those of the
reference, and the clipped matches.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from tuning.metric import Statistics
from tuning.ngrams import (
    Integers,
    NgramIndex,
    check_owners,
    count_ngrams,
    count_segments,
    find_sorted,
    sentence_lengths,
)

# sacrebleu's CHRF.CHAR_ORDER and CHRF.BETA.
CHARACTER_ORDER = 6
BETA = 2

HYPOTHESIS = slice(0, CHARACTER_ORDER)
REFERENCE = slice(CHARACTER_ORDER, 2 * CHARACTER_ORDER)
MATCHES = slice(2 * CHARACTER_ORDER, 3 * CHARACTER_ORDER)
NUM_STATISTICS = 3 * CHARACTER_ORDER

# Hypotheses whose n-grams are counted at a time, which bounds the memory.
_SLICE = 10_000


class Chrf:
    """chrF against references, as a `tuning.metric.ReferenceMetric`.

    :param references: by reference file and segment, each a sequence of words.
    """

    name = "chrF2"
    num_stats = NUM_STATISTICS

    def __init__(self, references: Sequence[Sequence[Sequence[str]]]) -> None:
        self.num_segments = count_segments(references)
        texts = [characters(words) for segments in references for words in segments]
        self._index = NgramIndex(texts, max_order=CHARACTER_ORDER)
        self._lengths = sentence_lengths(texts).reshape(len(references), self.num_segments)
        # By order: sorted keys (reference and n-gram in one number), and their counts.
        self._counts = []
        for ngrams, size in zip(self._index.ngrams, self._index.sizes, strict=True):
            owners, ids, counts = count_ngrams(ngrams, size)
            self._counts.append((owners * size + ids, counts))

    def score(self, sums: Statistics) -> Statistics:
        """Return `chrf` of each sum."""
        return chrf(sums)

    def statistics(
        self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int] | Integers
    ) -> Statistics:
        """Return the statistics of each hypothesis: (hypotheses, NUM_STATISTICS).

        With several references, only the one with the highest chrF counts, the first on ties.
        """
        owners = check_owners(hypotheses, segments)
        result = np.empty((len(hypotheses), NUM_STATISTICS))
        for begin in range(0, len(hypotheses), _SLICE):
            part = slice(begin, begin + _SLICE)
            texts = [characters(words) for words in hypotheses[part]]
            choices = np.stack(list(self._by_reference(texts, owners[part])))
            best = chrf(choices).argmax(axis=0)
            result[part] = choices[best, np.arange(len(texts))]
        return result

    def _by_reference(self, texts: Sequence[str], owners: Integers) -> Iterator[Statistics]:
        ngram_counts = [
            count_ngrams(ngrams, size)
            for ngrams, size in zip(self._index.find(texts), self._index.sizes, strict=True)
        ]
        orders = np.arange(CHARACTER_ORDER)
        lengths = sentence_lengths(texts)[:, None]
        for number, reference_lengths in enumerate(self._lengths):
            statistics = np.zeros((len(texts), NUM_STATISTICS))
            totals = np.maximum(reference_lengths[owners, None] - orders, 0)
            statistics[:, REFERENCE] = totals
            # As in sacrebleu, n-grams longer than the reference do not count as errors.
            statistics[:, HYPOTHESIS] = np.where(totals > 0, np.maximum(lengths - orders, 0), 0)
            rows = number * self.num_segments + owners
            for order, (sentences, ids, counts) in enumerate(ngram_counts):
                keys, known = self._counts[order]
                indices = find_sorted(keys, rows[sentences] * self._index.sizes[order] + ids)
                is_match = indices >= 0
                statistics[:, MATCHES.start + order] = np.bincount(
                    sentences[is_match],
                    np.minimum(counts[is_match], known[indices[is_match]]),
                    minlength=len(texts),
                )
            yield statistics


def chrf(sums: Statistics) -> Statistics:
    """Return chrF, 0 to 1, of each sum of statistics: (..., NUM_STATISTICS)."""
    hypothesis, reference, matches = sums[..., HYPOTHESIS], sums[..., REFERENCE], sums[..., MATCHES]
    effective = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(effective.sum(axis=-1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(effective, matches / hypothesis, 0.0).sum(axis=-1) / orders
        recall = np.where(effective, matches / reference, 0.0).sum(axis=-1) / orders
    return f_score(precision, recall)


def f_score(precision: Statistics, recall: Statistics) -> Statistics:
    """Return the F-score with recall BETA times as important; 0 if both are 0."""
    factor = BETA**2
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = (1 + factor) * precision * recall / (factor * precision + recall)
    return np.where(precision + recall > 0, scores, 0.0)


def characters(words: Sequence[str]) -> str:
    """Return the words without white space, which includes U+00A0 inside a word of Moses."""
    return "".join("".join(words).split())
