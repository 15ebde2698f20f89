"""BLEU (Papineni et al., 2002) from statistics that add up over a corpus.

The statistics of a hypothesis are NUM_STATISTICS numbers: n-grams that match, clipped, for n = 1
to 4; its n-grams, for n = 1 to 4 (the first is its length in words); and the length of the
reference. They are whole numbers in float64, so that sums are exact in any order; only an average
reference length may have a fraction.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from tuning.metric import Statistics
from tuning.ngrams import MAX_ORDER, Integers, NgramIndex, count_ngrams, find_sorted
from tuning.settings import ReferenceLength

MATCHES = slice(0, MAX_ORDER)
TOTALS = slice(MAX_ORDER, 2 * MAX_ORDER)
LENGTH = MAX_ORDER  # words of the hypothesis
REFERENCE_LENGTH = 2 * MAX_ORDER
NUM_STATISTICS = 2 * MAX_ORDER + 1


class CorpusBleu:
    """BLEU of summed statistics, as a `tuning.metric.Metric`; where they come from is not known."""

    name = "BLEU"
    num_stats = NUM_STATISTICS

    def score(self, sums: Statistics) -> Statistics:
        """Return `bleu` of each sum."""
        return bleu(sums)


class Bleu(CorpusBleu):
    """BLEU against given references, as a metric: `statistics`, and `score` of their sum.

    N-grams are numbers from the start, and a call computes many hypotheses at once: those of a
    whole n-best list, or of all lists, each distinct one once.

    :param references: by reference file and segment; each reference a sequence of words. All
        files have the same number of segments, one at least.
    """

    def __init__(
        self,
        references: Sequence[Sequence[Sequence[str]]],
        *,
        reference_length: ReferenceLength = "closest",
    ) -> None:
        sizes = {len(segments) for segments in references}
        if len(sizes) != 1:
            raise ValueError(f"expected references of one number of segments, got {sorted(sizes)}")
        self.num_segments = sizes.pop()
        self._reference_length = reference_length
        lengths = [[len(words) for words in segments] for segments in references]
        self._lengths = np.sort(np.array(lengths, np.float64).T)  # (segments, references)
        self._index = NgramIndex([words for segments in references for words in segments])
        # By order: keys (segment and n-gram as one number), rising, and the highest count that the
        # n-gram has in a reference of the segment.
        self._counts = [
            self._highest_counts(order, size) for order, size in enumerate(self._index.sizes)
        ]

    def _highest_counts(self, order: int, size: int) -> tuple[Integers, Integers]:
        sentences, ids, counts = count_ngrams(self._index.ngrams[order], size)
        keys, places = np.unique(sentences % self.num_segments * size + ids, return_inverse=True)
        highest = np.zeros(len(keys), np.int64)
        np.maximum.at(highest, places, counts)
        return keys, highest

    def statistics(
        self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int] | Integers
    ) -> Statistics:
        """Return the statistics of each hypothesis: (hypotheses, NUM_STATISTICS).

        :param hypotheses: words; an empty one matches nothing.
        :param segments: the number of each one's segment, from 0 on, in any order.
        """
        owners = np.asarray(segments, np.int64)
        if len(owners) != len(hypotheses):
            raise ValueError(f"expected {len(hypotheses)} segments, got {len(owners)}")
        lengths = np.fromiter(map(len, hypotheses), np.int64, len(hypotheses))
        result = np.empty((len(hypotheses), NUM_STATISTICS))
        for order, ngrams in enumerate(self._index.find(hypotheses)):
            size = self._index.sizes[order]
            sentences, ids, counts = count_ngrams(ngrams, size)
            keys, highest = self._counts[order]
            places = find_sorted(keys, owners[sentences] * size + ids)
            allowed = np.where(places >= 0, highest[places], 0) if len(keys) else 0 * counts
            result[:, order] = np.bincount(
                sentences, np.minimum(counts, allowed), minlength=len(hypotheses)
            )
            result[:, MAX_ORDER + order] = np.maximum(lengths - order, 0)
        result[:, REFERENCE_LENGTH] = self._reference_lengths(lengths, owners)
        return result

    def _reference_lengths(self, lengths: Integers, owners: Integers) -> Statistics:
        choices = self._lengths[owners]  # (hypotheses, references), each row rising
        if self._reference_length == "average":
            return np.asarray(choices.mean(axis=1))
        if self._reference_length == "shortest":
            return choices[:, 0]
        closest = np.abs(choices - lengths[:, None]).argmin(axis=1)  # of equals the first
        return np.asarray(choices[np.arange(len(owners)), closest])


def bleu(sums: Statistics) -> Statistics:
    """Return corpus BLEU, 0 to 1, unsmoothed, of each sum of statistics.

    0 where no n-gram of some order matches, as multi-bleu.perl and Moses' evaluator have it.

    :param sums: (..., NUM_STATISTICS).
    """
    matches, totals = sums[..., MATCHES], sums[..., TOTALS]
    words, reference = sums[..., LENGTH], sums[..., REFERENCE_LENGTH]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(matches / totals).mean(axis=-1) + np.minimum(0.0, 1.0 - reference / words)
    return np.where((matches > 0).all(axis=-1), np.exp(logs), 0.0)


def sentence_bleu(statistics: Statistics, *, rewards_length: bool = False) -> Statistics:
    """Return smoothed sentence BLEU, 0 to 1: one is added to matches and n-grams of n > 1.

    Lin and Och (2004), ORANGE; as in Moses' minimum-Bayes-risk decoding (moses/mbr.cpp). A
    hypothesis without a matching word has 0, an empty one too.

    :param statistics: (..., NUM_STATISTICS).
    :param rewards_length: let the brevity penalty exp(1 - reference / words) be above 1 for a
        hypothesis that is longer than the reference; the result may then be above 1, too. What is
        trained for smoothed BLEU without it grows short (Nakov et al., 2012, Optimizing for
        Sentence-Level BLEU+1 Yields Short Translations).
    """
    smooth = np.array([0.0, 1.0, 1.0, 1.0])
    matches, totals = statistics[..., MATCHES], statistics[..., TOTALS]
    words, reference = statistics[..., LENGTH], statistics[..., REFERENCE_LENGTH]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log((matches + smooth) / (totals + smooth)).mean(axis=-1)
        penalty = 1.0 - reference / words
        logs = logs + (penalty if rewards_length else np.minimum(0.0, penalty))
    return np.where(matches[..., 0] > 0, np.exp(logs), 0.0)


class BleuScore(NamedTuple):
    """BLEU with its parts."""

    # 0 to 1, as are the precisions and the penalty.
    bleu: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    # Words.
    length: float
    reference_length: float

    @classmethod
    def of(cls, sums: Statistics) -> Self:
        """Return the score of summed statistics: (NUM_STATISTICS,).

        A corpus without any word has brevity penalty 0.
        """
        words, reference = float(sums[LENGTH]), float(sums[REFERENCE_LENGTH])
        precisions = tuple(
            float(match / total) if total else 0.0
            for match, total in zip(sums[MATCHES], sums[TOTALS], strict=True)
        )
        penalty = 1.0
        if words < reference:
            penalty = math.exp(1 - reference / words) if words else 0.0
        score = 0.0
        if all(precisions):
            score = penalty * math.exp(sum(map(math.log, precisions)) / MAX_ORDER)
        return cls(score, precisions, penalty, words, reference)

    def __str__(self) -> str:
        """Return the line that multi-bleu.perl prints.

        >>> print(BleuScore(0.5, (0.75, 0.5, 0.5, 0.25), 1.0, 8.0, 8.0))
        BLEU = 50.00, 75.0/50.0/50.0/25.0 (BP=1.000, ratio=1.000, hyp_len=8, ref_len=8)
        """
        if not self.reference_length:
            return "BLEU = 0, 0/0/0/0 (BP=0, ratio=0, hyp_len=0, ref_len=0)"
        precisions = "/".join(f"{100 * precision:.1f}" for precision in self.precisions)
        return (
            f"BLEU = {100 * self.bleu:.2f}, {precisions} (BP={self.brevity_penalty:.3f}, "
            f"ratio={self.length / self.reference_length:.3f}, "
            f"hyp_len={self.length:.0f}, ref_len={self.reference_length:.0f})"
        )
