"""BLEU (Papineni et al., 2002) from statistics that add up over a corpus.

The NUM_STATISTICS statistics of a hypothesis are the clipped matches of n-grams for n = 1 to 4, the
numbers of n-grams for n = 1 to 4 (the first is the length in words), and the length of the
reference. They are integers in float64, so that sums are exact in any order; only an average
reference length may have a fraction.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from tuning.metric import Statistics
from tuning.ngrams import (
    MAX_ORDER,
    Integers,
    NgramIndex,
    check_owners,
    count_ngrams,
    count_segments,
    find_sorted,
    sentence_lengths,
)
from tuning.settings import ReferenceLength

MATCHES = slice(0, MAX_ORDER)
TOTALS = slice(MAX_ORDER, 2 * MAX_ORDER)
LENGTH = MAX_ORDER  # words of the hypothesis
REFERENCE_LENGTH = 2 * MAX_ORDER
NUM_STATISTICS = 2 * MAX_ORDER + 1


class CorpusBleu:
    """BLEU of summed statistics, as a `tuning.metric.Metric` without references."""

    name = "BLEU"
    num_stats = NUM_STATISTICS

    def score(self, sums: Statistics) -> Statistics:
        """Return `bleu` of each sum."""
        return bleu(sums)


class Bleu(CorpusBleu):
    """BLEU against references, as a `tuning.metric.ReferenceMetric`.

    :param references: by reference file and segment, each a sequence of words.
    """

    def __init__(
        self,
        references: Sequence[Sequence[Sequence[str]]],
        *,
        reference_length: ReferenceLength = "closest",
    ) -> None:
        self.num_segments = count_segments(references)
        self._reference_length = reference_length
        lengths = [[len(words) for words in segments] for segments in references]
        self._lengths = np.sort(np.array(lengths, np.float64).T)  # (segments, references)
        self._index = NgramIndex([words for segments in references for words in segments])
        # By order: sorted keys (segment and n-gram in one number), and the highest count of the
        # n-gram in a reference of the segment.
        self._counts = [
            self._highest_counts(order, size) for order, size in enumerate(self._index.sizes)
        ]

    def _highest_counts(self, order: int, size: int) -> tuple[Integers, Integers]:
        sentences, ids, counts = count_ngrams(self._index.ngrams[order], size)
        keys, indices = np.unique(sentences % self.num_segments * size + ids, return_inverse=True)
        highest = np.zeros(len(keys), np.int64)
        np.maximum.at(highest, indices, counts)
        return keys, highest

    def statistics(
        self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int] | Integers
    ) -> Statistics:
        """See `tuning.metric.ReferenceMetric.statistics`."""
        owners, lengths = check_owners(hypotheses, segments), sentence_lengths(hypotheses)
        result = np.empty((len(hypotheses), NUM_STATISTICS))
        for order, ngrams in enumerate(self._index.find(hypotheses)):
            size = self._index.sizes[order]
            sentences, ids, counts = count_ngrams(ngrams, size)
            keys, highest = self._counts[order]
            indices = find_sorted(keys, owners[sentences] * size + ids)
            allowed = np.where(indices >= 0, highest[indices], 0) if len(keys) else 0 * counts
            result[:, order] = np.bincount(
                sentences, np.minimum(counts, allowed), minlength=len(hypotheses)
            )
            result[:, MAX_ORDER + order] = np.maximum(lengths - order, 0)
        result[:, REFERENCE_LENGTH] = self._reference_lengths(lengths, owners)
        return result

    def _reference_lengths(self, lengths: Integers, owners: Integers) -> Statistics:
        choices = self._lengths[owners]  # (hypotheses, references), each row sorted
        if self._reference_length == "average":
            return np.asarray(choices.mean(axis=1))
        if self._reference_length == "shortest":
            return choices[:, 0]
        closest = np.abs(choices - lengths[:, None]).argmin(axis=1)  # the first on ties
        return np.asarray(choices[np.arange(len(owners)), closest])


def bleu(sums: Statistics) -> Statistics:
    """Return unsmoothed corpus BLEU, 0 to 1, of each sum of statistics: (..., NUM_STATISTICS).

    It is 0 if no n-gram of some order matches, as in multi-bleu.perl and Moses' evaluator.
    """
    matches, totals = sums[..., MATCHES], sums[..., TOTALS]
    words, reference = sums[..., LENGTH], sums[..., REFERENCE_LENGTH]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(matches / totals).mean(axis=-1) + np.minimum(0.0, 1.0 - reference / words)
    return np.where((matches > 0).all(axis=-1), np.exp(logs), 0.0)


def sentence_bleu(statistics: Statistics, *, rewards_length: bool = False) -> Statistics:
    """Return smoothed sentence BLEU, 0 to 1, of statistics: (..., NUM_STATISTICS).

    One is added to matches and n-grams of n > 1: Lin and Och (2004), ORANGE; as in Moses'
    minimum-Bayes-risk decoding (moses/mbr.cpp). Without a matching word it is 0.

    :param rewards_length: let the brevity penalty exp(1 - reference / words), and so the result,
        exceed 1 for hypotheses longer than the reference. Training on smoothed BLEU without it
        makes translations short (Nakov et al., 2012, Optimizing for Sentence-Level BLEU+1 Yields
        Short Translations).
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

    # BLEU, the precisions and the penalty are from 0 to 1.
    bleu: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    # Lengths in words.
    length: float
    reference_length: float

    @classmethod
    def of(cls, sums: Statistics) -> Self:
        """Return the score of summed statistics: (NUM_STATISTICS,)."""
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


# More rounds than any climb has needed; each round raises BLEU.
MAX_ROUNDS = 100


class Oracle(NamedTuple):
    """A choice of one hypothesis per sentence from n-best lists."""

    # The row of each sentence's hypothesis in the statistics.
    chosen: Integers
    score: BleuScore


def oracle_bleu(statistics: Statistics, segments: Integers) -> Oracle:
    """Choose hypotheses from n-best lists so that corpus BLEU is high, by hill climbing.

    Corpus BLEU is not a sum over sentences, so the best choice cannot be found sentence by
    sentence. The climb visits the sentences in turn and gives each the hypothesis with which the
    whole corpus scores highest while all others stay, the earliest of equals, until a whole round
    changes nothing. The better of two climbs counts, from the first hypothesis of each list and
    from the best smoothed sentence BLEU. The result is a lower bound of the optimum; on lists small
    enough for trying every choice, it mostly is the optimum.

    :param segments: the segment of each hypothesis, in ascending order.
    """
    if not len(segments):
        raise ValueError("expected at least one hypothesis")
    begins = np.flatnonzero(np.diff(segments, prepend=segments[0] - 1))
    ends = np.append(begins[1:], len(segments))
    smoothed = sentence_bleu(statistics)
    best = [
        begin + int(smoothed[begin:end].argmax()) for begin, end in zip(begins, ends, strict=True)
    ]
    climbs = [_climb(statistics, begins, ends, start) for start in (begins, np.array(best))]
    return max(climbs, key=lambda oracle: oracle.score.bleu)


def _climb(statistics: Statistics, begins: Integers, ends: Integers, start: Integers) -> Oracle:
    chosen = start.copy()
    total = statistics[chosen].sum(axis=0)
    for _ in range(MAX_ROUNDS):
        changed = False
        for segment, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            others = total - statistics[chosen[segment]]
            scores = _climbing_score(others + statistics[begin:end])
            better = begin + int(scores.argmax())
            if scores[better - begin] > scores[chosen[segment] - begin]:
                chosen[segment] = better
                total = others + statistics[better]
                changed = True
        if not changed:
            break
    return Oracle(chosen, BleuScore.of(total))


def _climbing_score(sums: Statistics) -> Statistics:
    """Return BLEU, or smoothed BLEU minus 1 if all are 0, so that a climb can leave 0."""
    scores = bleu(sums)
    if scores.any():
        return scores
    return sentence_bleu(sums) - 1.0
