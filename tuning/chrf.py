"""chrF (Popović, 2015): an F-score of character n-grams, from statistics that add up.

It is sacrebleu's chrF2 to the last digit: n-grams of 1 to 6 characters without white space, recall
twice as important as precision, precision and recall averaged over the orders that both sides have.
The statistics of a hypothesis are, for n = 1 to 6, its n-grams; those of the reference; and those
that match, clipped.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from tuning.metric import Statistics
from tuning.ngrams import Integers, NgramIndex, count_ngrams, find_sorted

# sacrebleu's CHRF.CHAR_ORDER and CHRF.BETA.
CHARACTER_ORDER = 6
BETA = 2

HYPOTHESIS = slice(0, CHARACTER_ORDER)
REFERENCE = slice(CHARACTER_ORDER, 2 * CHARACTER_ORDER)
MATCHES = slice(2 * CHARACTER_ORDER, 3 * CHARACTER_ORDER)
NUM_STATISTICS = 3 * CHARACTER_ORDER

# Hypotheses whose n-grams are counted at a time: so much memory is enough for lists of any size.
_SLICE = 10_000


class Chrf:
    """chrF against given references, as a metric: `statistics`, and `score` of their sum.

    :param references: by reference file and segment; each reference a sequence of words. All
        files have the same number of segments, one at least.
    """

    name = "chrF2"
    num_stats = NUM_STATISTICS

    def __init__(self, references: Sequence[Sequence[Sequence[str]]]) -> None:
        sizes = {len(segments) for segments in references}
        if len(sizes) != 1:
            raise ValueError(f"expected references of one number of segments, got {sorted(sizes)}")
        self.num_segments = sizes.pop()
        texts = [characters(words) for segments in references for words in segments]
        self._index = NgramIndex(texts, max_order=CHARACTER_ORDER)
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        self._lengths = lengths.reshape(len(references), self.num_segments)
        # By order: keys (reference and n-gram as one number), rising, and how often it is there.
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

        Of several references the one counts that alone gives the highest chrF; of equals the first.

        :param hypotheses: words; the blanks between them are no characters.
        :param segments: the number of each one's segment, from 0 on, in any order.
        """
        owners = np.asarray(segments, np.int64)
        if len(owners) != len(hypotheses):
            raise ValueError(f"expected {len(hypotheses)} segments, got {len(owners)}")
        result = np.empty((len(hypotheses), NUM_STATISTICS))
        for begin in range(0, len(hypotheses), _SLICE):
            part = slice(begin, begin + _SLICE)
            texts = [characters(words) for words in hypotheses[part]]
            choices = np.stack(list(self._by_reference(texts, owners[part])))
            best = chrf(choices).argmax(axis=0)
            result[part] = choices[best, np.arange(len(texts))]
        return result

    def _by_reference(self, texts: Sequence[str], owners: Integers) -> Iterator[Statistics]:
        """Yield the statistics against each reference file."""
        found = [
            count_ngrams(ngrams, size)
            for ngrams, size in zip(self._index.find(texts), self._index.sizes, strict=True)
        ]
        orders = np.arange(CHARACTER_ORDER)
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))[:, None]
        for number, reference_lengths in enumerate(self._lengths):
            statistics = np.zeros((len(texts), NUM_STATISTICS))
            wanted = np.maximum(reference_lengths[owners, None] - orders, 0)
            statistics[:, REFERENCE] = wanted
            # As sacrebleu has it: n-grams longer than the reference are no mistake.
            statistics[:, HYPOTHESIS] = np.where(wanted > 0, np.maximum(lengths - orders, 0), 0)
            rows = number * self.num_segments + owners
            for order, (sentences, ids, counts) in enumerate(found):
                keys, known = self._counts[order]
                places = find_sorted(keys, rows[sentences] * self._index.sizes[order] + ids)
                there = places >= 0
                statistics[:, MATCHES.start + order] = np.bincount(
                    sentences[there],
                    np.minimum(counts[there], known[places[there]]),
                    minlength=len(texts),
                )
            yield statistics


def chrf(sums: Statistics) -> Statistics:
    """Return chrF, 0 to 1, of each sum of statistics.

    :param sums: (..., NUM_STATISTICS).
    """
    hypothesis, reference, matches = sums[..., HYPOTHESIS], sums[..., REFERENCE], sums[..., MATCHES]
    effective = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(effective.sum(axis=-1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(effective, matches / hypothesis, 0.0).sum(axis=-1) / orders
        recall = np.where(effective, matches / reference, 0.0).sum(axis=-1) / orders
    return f_score(precision, recall)


def f_score(precision: Statistics, recall: Statistics) -> Statistics:
    """Return the weighted harmonic mean of both, recall BETA times as important; 0 of 0 and 0."""
    factor = BETA**2
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = (1 + factor) * precision * recall / (factor * precision + recall)
    return np.where(precision + recall > 0, scores, 0.0)


def characters(words: Sequence[str]) -> str:
    """Return the words without white space: a word of Moses may hold U+00A0, which is one, too."""
    return "".join("".join(words).split())
