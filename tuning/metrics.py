"""BLEU, as a function of statistics summed over a corpus, and the oracle of n-best lists.

Statistics are integers stored as float64, so that sums are exact in any order.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Statistics = NDArray[np.float64]

MAX_ORDER = 4  # BLEU's longest n-gram (Papineni et al., 2002)
_UNKNOWN = -1

# BLEU's statistics: the clipped n-gram matches for n = 1 to 4, the number of n-grams for n = 1 to 4
# (the first is the length in words), and the length of the reference.
MATCHES = slice(0, MAX_ORDER)
TOTALS = slice(MAX_ORDER, 2 * MAX_ORDER)
LENGTH = MAX_ORDER
REFERENCE_LENGTH = 2 * MAX_ORDER

MAX_ROUNDS = 100  # rounds of an oracle's climb, more than were ever needed; each round raises BLEU


class Metric(Protocol):
    """A function of summed statistics, to be maximised by tuning."""

    name: str  # in reports, such as ``BLEU``
    num_stats: int  # number of statistics per hypothesis

    def score(self, sums: Statistics) -> Statistics:
        """Return scores from 0 to 1, higher is better, for sums of statistics.

        The shape of ``sums`` is (..., num_stats), and the shape of the result is (...).
        """


class ReferenceMetric(Metric, Protocol):
    """A metric that holds references and can compute the statistics of hypotheses."""

    def statistics(
        self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int]
    ) -> Statistics:
        """Return the statistics of each hypothesis: (hypotheses, num_stats).

        :param segments: the 0-based segment of each hypothesis, in any order.
        """


class CorpusBleu:
    """BLEU (Papineni et al., 2002) from summed statistics, as a `Metric` without references."""

    name = "BLEU"
    num_stats = 2 * MAX_ORDER + 1

    def score(self, sums: Statistics) -> Statistics:
        """Return the `bleu` score for each sum of statistics."""
        return bleu(sums)


class Bleu(CorpusBleu):
    """BLEU against references, as a `ReferenceMetric`.

    The reference length is the closest one, as in multi-bleu.perl and sacrebleu; if two are equally
    close, the shorter one.
    """

    def __init__(self, references: Sequence[Sequence[Sequence[str]]]) -> None:
        self.num_segments = len(references[0])
        lengths = [[len(words) for words in segments] for segments in references]
        self._lengths = np.sort(np.array(lengths, np.float64).T)  # (segments, references)
        self._index = NgramIndex([words for segments in references for words in segments])
        # For each order, sorted keys (segment and n-gram in one number), and the maximum count of
        # the n-gram in a reference of the segment.
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
        """See `ReferenceMetric.statistics`."""
        owners, lengths = np.asarray(segments, np.int64), sentence_lengths(hypotheses)
        result = np.empty((len(hypotheses), self.num_stats))
        for order, ngrams in enumerate(self._index.find(hypotheses)):
            size, (keys, highest) = self._index.sizes[order], self._counts[order]
            sentences, ids, counts = count_ngrams(ngrams, size)
            indices = find_sorted(keys, owners[sentences] * size + ids)
            is_match = indices >= 0
            clipped = np.minimum(counts[is_match], highest[indices[is_match]])
            result[:, order] = np.bincount(sentences[is_match], clipped, len(owners))
            result[:, MAX_ORDER + order] = np.maximum(lengths - order, 0)
        choices = self._lengths[owners]  # (hypotheses, references), each row sorted
        closest = np.abs(choices - lengths[:, None]).argmin(axis=1)  # the first on ties
        result[:, REFERENCE_LENGTH] = choices[np.arange(len(owners)), closest]
        return result


def bleu(sums: Statistics) -> Statistics:
    """Return unsmoothed corpus BLEU, 0 to 1, for each sum of statistics.

    As in multi-bleu.perl and Moses' evaluator, it is 0 if there are no matches for one of the
    n-gram orders.
    """
    matches, totals = sums[..., MATCHES], sums[..., TOTALS]
    words, reference = sums[..., LENGTH], sums[..., REFERENCE_LENGTH]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(matches / totals).mean(axis=-1) + np.minimum(0.0, 1.0 - reference / words)
    return np.where((matches > 0).all(axis=-1), np.exp(logs), 0.0)


def sentence_bleu(statistics: Statistics, *, rewards_length: bool = False) -> Statistics:
    """Return smoothed sentence BLEU, 0 to 1, from each hypothesis's statistics.

    For n > 1, one is added to the matches and to the number of n-grams (Lin and Och, 2004, ORANGE),
    as in moses/mbr.cpp. Without a matching word, BLEU is 0.

    :param rewards_length: do not limit the brevity penalty exp(1 - reference / words) to 1, so that
        it and the result may exceed 1 for hypotheses longer than the reference. Otherwise, training
        on smoothed BLEU makes translations too short (Nakov et al., 2012, Optimizing for
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
    """BLEU with its components; lengths are in words, all other numbers from 0 to 1."""

    bleu: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    length: float
    reference_length: float

    @classmethod
    def of(cls, sums: Statistics) -> Self:
        """Compute the score from summed statistics."""
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
        """Format the score as multi-bleu.perl does.

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


def oracle_rows(statistics: Statistics, segments: Integers) -> Integers:
    """Choose a hypothesis per sentence so that corpus BLEU is high; return their rows.

    Coordinate ascent visits the sentences in turn. It selects the hypothesis that gives the highest
    corpus score while all other sentences remain fixed, the earliest on ties, until a round changes
    nothing. One ascent starts from the first hypothesis in each list and another from the best
    smoothed sentence BLEU; the better result is returned. It is a lower bound on the optimum.

    :param segments: the segment of each hypothesis, in ascending order.
    """
    begins = np.flatnonzero(np.diff(segments, prepend=segments[0] - 1))
    ends = np.append(begins[1:], len(segments))
    smoothed = sentence_bleu(statistics)
    best = [
        begin + int(smoothed[begin:end].argmax()) for begin, end in zip(begins, ends, strict=True)
    ]
    climbs = [_climb(statistics, begins, ends, start) for start in (begins, np.array(best))]
    return max(climbs, key=lambda chosen: BleuScore.of(statistics[chosen].sum(axis=0)).bleu)


def _climb(statistics: Statistics, begins: Integers, ends: Integers, start: Integers) -> Integers:
    chosen = start.copy()
    total = statistics[chosen].sum(axis=0)
    for _ in range(MAX_ROUNDS):
        changed = False
        for segment, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            others = total - statistics[chosen[segment]]
            sums = others + statistics[begin:end]
            scores = bleu(sums)
            if not scores.any():  # so that the ascent can get away from 0
                scores = sentence_bleu(sums) - 1.0
            better = begin + int(scores.argmax())
            if scores[better - begin] > scores[chosen[segment] - begin]:
                chosen[segment] = better
                total = others + statistics[better]
                changed = True
        if not changed:
            break
    return chosen


# N-grams as integers, for many sentences at once


class Ngrams(NamedTuple):
    """The id and the sentence of each n-gram of one order, both 0-based, in text order."""

    ids: Integers
    sentences: Integers


class NgramIndex:
    """The n-grams in the given sentences as integers; equal n-grams have the same id.

    An n-gram is identified by the id of its first n-1 words and its last word, combined in a 64-bit
    integer. Ids are assigned by sorting these integers, without creating tuples of strings.

    :ivar ngrams: the n-grams in the sentences, for each order from 1 on.
    :ivar sizes: the number of distinct n-grams of each order.
    """

    def __init__(self, sentences: Sequence[Sequence[str]]) -> None:
        self._words: dict[str, int] = {}
        words = [
            self._words.setdefault(word, len(self._words)) for text in sentences for word in text
        ]
        self.sizes = [len(self._words)]
        # For each order from 2 on, the sorted integers that identify n-grams; the index is the id.
        self._pairs: list[Integers] = []
        self.ngrams = self._extend(words, sentences, self._learn)

    def find(self, sentences: Sequence[Sequence[str]]) -> list[Ngrams]:
        """Return the n-grams in other sentences that are in the index, for each order."""
        get = self._words.get
        words = [get(word, _UNKNOWN) for sentence in sentences for word in sentence]
        return self._extend(words, sentences, self._look_up)

    def _extend(
        self,
        word_ids: list[int],
        sentences: Sequence[Sequence[str]],
        number: Callable[[int, Integers], Integers],
    ) -> list[Ngrams]:
        words = np.array(word_ids, np.int64)
        lengths = sentence_lengths(sentences)
        owners = np.repeat(np.arange(len(lengths)), lengths)
        ends = np.repeat(lengths.cumsum(), lengths)
        starts = np.flatnonzero(words != _UNKNOWN)
        ids = words[starts]
        ngrams = [Ngrams(ids, owners[starts])]
        for order in range(2, MAX_ORDER + 1):
            inside = starts + (order - 1) < ends[starts]
            starts, ids = starts[inside], ids[inside]
            last = words[starts + (order - 1)]
            pairs = np.where(last == _UNKNOWN, _UNKNOWN, ids * self.sizes[0] + last)
            ids = number(order, pairs)
            known = ids != _UNKNOWN
            starts, ids = starts[known], ids[known]
            ngrams.append(Ngrams(ids, owners[starts]))
        return ngrams

    def _learn(self, _order: int, pairs: Integers) -> Integers:
        known, ids = np.unique(pairs, return_inverse=True)
        self._pairs.append(known)
        self.sizes.append(len(known))
        return ids.astype(np.int64, copy=False)

    def _look_up(self, order: int, pairs: Integers) -> Integers:
        ids = find_sorted(self._pairs[order - 2], pairs)
        return np.where(pairs == _UNKNOWN, _UNKNOWN, ids)


def sentence_lengths(sentences: Sequence[Sequence[str]]) -> Integers:
    """Return the number of words in each sentence."""
    return np.fromiter(map(len, sentences), np.int64, len(sentences))


def find_sorted(known: Integers, wanted: Integers) -> Integers:
    """Return the index of each wanted number in a sorted array, or -1 if it is missing.

    >>> find_sorted(np.array([2, 5, 7]), np.array([7, 3, 2, 9])).tolist()
    [2, -1, 0, -1]
    """
    if not len(known):
        return np.full(len(wanted), _UNKNOWN)
    indices = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[indices] == wanted, indices, _UNKNOWN)


def count_ngrams(ngrams: Ngrams, size: int) -> tuple[Integers, Integers, Integers]:
    """Return sentences, ids and counts of n-grams in sentences, sorted by sentence, then by id.

    :param size: the number of distinct n-grams.
    """
    keys, counts = np.unique(ngrams.sentences * size + ngrams.ids, return_counts=True)
    sentences, ids = np.divmod(keys, max(size, 1))
    return sentences, ids, counts.astype(np.int64, copy=False)
