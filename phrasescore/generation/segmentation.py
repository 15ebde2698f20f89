"""Translate sentences in segments (Pouget-Abadie et al., 2014).

A sentence is cut into segments that can be translated with confidence, and their translations are
joined in order. The confidence of a span depends on the candidate translations of a forward model,
and on how well a reverse model translates them back (eq. 2-3). The segmentation has the highest sum
of confidences (eq. 4), found by dynamic programming (eq. 5-6).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.generation.generator import Generated
from phrasescore.records import HypothesisList

Words = tuple[str, ...]
Floats = NDArray[np.float64]

# Number of spans that are translated together, and that are cached between blocks of sentences.
BLOCK_SPANS = 4096
KEPT_SPANS = 100_000

SEED = 1  # of the random controls


# Returns one or more candidate translations of each span, most probable first.
Translate = Callable[[Sequence[Words]], Sequence[Sequence[Generated]]]
# Returns log q(span ``</s>`` | candidate), a natural logarithm, for the candidates of each span.
ScoreBack = Callable[[Sequence[HypothesisList]], Iterable[Sequence[float]]]
# Returns the sizes of a sentence's segments, given its number (from 0) and its length.
Cut = Callable[[int, int], list[int]]


class Confidence(NamedTuple):
    """A definition of confidence: a sum of log-probabilities, and its divisor."""

    both: bool  # whether the reverse model's log-probability is added to the forward model's
    # A function of the span's number of words. If it is 0, the confidence is minus infinity.
    divisor: Callable[[int], float]

    def value(self, total: float, num_words: int) -> float:
        """Return the confidence in a span's translation, given the sum of its log-probabilities."""
        divisor = self.divisor(num_words)
        return total / divisor if divisor else -math.inf


# The three definitions of section 5.2, and the one in the authors' program (GroundHog), which
# divides by log(n + 2). penalized is eq. 2: the logarithm of the length of a span of one word is 0,
# so that its confidence is minus infinity; yet table 3 of the paper has a segment of one word.
CONFIDENCES = {
    "forward": Confidence(both=False, divisor=lambda _: 1.0),
    "both": Confidence(both=True, divisor=lambda _: 2.0),
    "penalized": Confidence(both=True, divisor=lambda length: 2.0 * math.log(length)),
    "penalized-released": Confidence(both=True, divisor=lambda length: 2.0 * math.log(length + 2)),
}


class Segment(NamedTuple):
    """The words from ``start`` to ``end``, which is exclusive; both are counted from 0."""

    start: int
    end: int
    target: Words
    # Minus infinity for a single word under eq. 2, and for an unfinished translation.
    confidence: float
    finished: bool = True


class SegmentedSentence(NamedTuple):
    """A sentence and its adjacent segments, from its first word to its last."""

    words: Words
    segments: list[Segment]

    @property
    def translation(self) -> Words:
        """The translations of the segments, joined in order."""
        return tuple(word for segment in self.segments for word in segment.target)


def best_cuts(confidences: Floats) -> list[int]:
    """Return the segment sizes that maximise the sum of confidences (eq. 5-6).

    The number of segments with a confidence of minus infinity is minimized first; then the sum of
    the other confidences is maximized. Among ties, the last segment is as long as possible, then
    the previous one, and so on.

    :param confidences: ``(words, longest)``: entry ``[i, n - 1]`` belongs to the span of n words
        from word i. Spans that reach beyond the sentence are ignored.

    >>> best_cuts(np.array([[-3.0, -1.0], [-3.0, -2.5], [-1.0, np.nan]]))
    [2, 1]
    """
    length, longest = confidences.shape
    # s_j: minus the number of infinite confidences, the sum of the others, and the last size.
    best: list[tuple[int, float, int]] = [(0, 0.0, 0)]
    values = confidences.tolist()
    for end in range(1, length + 1):
        candidates = []
        for size in range(1, min(longest, end) + 1):
            confidence = values[end - size][size - 1]
            infinite, total, _ = best[end - size]
            if confidence == -math.inf:
                candidates.append((infinite - 1, total, size))
            else:
                candidates.append((infinite, total + confidence, size))
        best.append(max(candidates))
    cuts: list[int] = []
    while sum(cuts) < length:
        cuts.append(best[length - sum(cuts)][2])
    return cuts[::-1]


def cut_by_random_confidence(max_segment: int) -> Cut:
    """Return the control that maximizes the sum of random confidences (section 5.1).

    Confidences are uniform between -1 and 0, and depend only on the sentence's number.
    """

    def cut(number: int, length: int) -> list[int]:
        generator = np.random.default_rng([SEED, number])
        return best_cuts(generator.random((length, max_segment)) - 1.0)

    return cut


def cut_nothing(_number: int, length: int) -> list[int]:
    """Return a single segment of any length: the control without segmentation."""
    return [length] if length else []


def cut_in_random_order(segmentations: Sequence[Sequence[int]]) -> Cut:
    """Return the control with the segments of another run in random order (section 5.1).

    "The distribution of the lengths of random segments has its mean and variance identical to those
    of the segments produced by our algorithm": here, each sentence has the lengths of that run. The
    order depends only on the sentence's number.

    :param segmentations: the segment sizes of each sentence.
    """

    def cut(number: int, _length: int) -> list[int]:
        generator = np.random.default_rng([SEED, number])
        shuffled: list[int] = generator.permutation(segmentations[number]).tolist()
        return shuffled

    return cut


class _Translated(NamedTuple):
    """The best translation of a span (eq. 3)."""

    target: Words
    confidence: float
    finished: bool


@dataclass
class SegmentSummary:
    """Counts from one run of `segment`: sentences, segments and translated spans so far."""

    sentences: int = 0
    whole: int = 0  # sentences of at most one segment
    segments: int = 0
    words: int = 0
    squares: int = 0  # sum of the squares of the segments' lengths
    unfinished: int = 0  # segments whose translation does not end
    unknown_words: int = 0  # ``<unk>`` in the translations
    wanted: int = 0  # spans requested, including repetitions
    spans: int = 0  # spans translated

    def summary(self) -> str:
        """Return the counts as one line, with the mean and variance of segment lengths."""
        parts = [
            f"{self.sentences:,} sentences, {self.whole:,} of them whole",
            f"{self.spans:,} spans translated, {self.wanted:,} wanted",
        ]
        if self.segments:
            mean = self.words / self.segments
            variance = self.squares / self.segments - mean**2
            lengths = f"of {mean:.2f} words on average (variance {variance:.2f})"
            parts.insert(1, f"{self.segments:,} segments {lengths}")
        if self.unknown_words:
            parts.append(f"{self.unknown_words:,} <unk> predicted")
        if self.unfinished:
            parts.append(f"{self.unfinished:,} segments without the end of their translation")
        return "; ".join(parts)


@dataclass
class Segmenter:
    """Cuts sentences into segments, and translates the segments."""

    translate: Translate
    score_back: ScoreBack | None  # None if the confidence does not need the reverse model
    confidence: Confidence
    max_segment: int = 20
    # The function of a control; None for the segmentation with the highest confidence.
    cut: Cut | None = None
    work: SegmentSummary = field(default_factory=SegmentSummary, init=False)
    _kept: dict[Words, _Translated] = field(default_factory=dict, init=False)

    def segment(self, sentences: Iterable[Words]) -> Iterator[SegmentedSentence]:
        """Yield each sentence with its segments, in order; sentences are read in blocks."""
        block: list[_Planned] = []
        spans = 0
        for number, words in enumerate(sentences):
            planned = self._plan(number, words)
            block.append(planned)
            spans += len(planned.spans)
            if spans >= BLOCK_SPANS:
                yield from self._finish(block)
                block, spans = [], 0
        yield from self._finish(block)

    def _plan(self, number: int, words: Words) -> "_Planned":
        length, longest = len(words), self.max_segment
        if self.cut is not None:
            return _Planned(words, _bounds(self.cut(number, length)))
        spans = [
            (start, end)
            for start in range(length)
            for end in range(start + 1, min(start + longest, length) + 1)
        ]
        return _Planned(words, spans)

    def _finish(self, block: "list[_Planned]") -> Iterator[SegmentedSentence]:
        translations = self._translated(block)
        for words, spans in block:
            if self.cut is None:
                confidences = np.full((len(words), self.max_segment), -math.inf)
                for start, end in spans:
                    confidences[start, end - start - 1] = translations[words[start:end]].confidence
                spans = _bounds(best_cuts(confidences))
            segments = [
                Segment(start, end, *translations[words[start:end]]) for start, end in spans
            ]
            self._count(segments, len(words))
            yield SegmentedSentence(words, segments)
        for span in list(self._kept)[: max(0, len(self._kept) - KEPT_SPANS)]:
            del self._kept[span]

    def _translated(self, block: "list[_Planned]") -> dict[Words, _Translated]:
        wanted = {planned.words[start:end] for planned in block for start, end in planned.spans}
        self.work.wanted += sum(len(planned.spans) for planned in block)
        # Reinsert the spans that are used again at the end, where they are kept longest.
        translations = {span: self._kept.pop(span) for span in sorted(wanted & self._kept.keys())}
        # Beams of spans of equal length end at similar steps.
        missing = sorted(wanted - translations.keys(), key=lambda span: (len(span), span))
        self.work.spans += len(missing)
        for start in range(0, len(missing), BLOCK_SPANS):
            part = missing[start : start + BLOCK_SPANS]
            translations.update(zip(part, self._translate_spans(part), strict=True))
        self._kept |= translations
        return translations

    def _translate_spans(self, spans: Sequence[Words]) -> list[_Translated]:
        """Return the most confident candidate for each span (eq. 3)."""
        candidates = self.translate(spans)
        totals = [[candidate.log_prob for candidate in of_span] for of_span in candidates]
        if self.confidence.both:
            assert self.score_back is not None
            lists = [
                # Unchecked: old vocabularies have words with characters that divide words today.
                HypothesisList._make((span, [each.words for each in of_span], None))
                for span, of_span in zip(spans, candidates, strict=True)
            ]
            back = self.score_back(lists)
            totals = [
                [forward + backward for forward, backward in zip(*pair, strict=True)]
                for pair in zip(totals, back, strict=True)
            ]
        best = []
        for span, of_span, sums in zip(spans, candidates, totals, strict=True):
            # All candidates of a span have the same divisor. Ties go to the more probable one.
            index = max(range(len(sums)), key=sums.__getitem__)
            chosen = of_span[index]
            confidence = -math.inf
            if chosen.finished:
                confidence = self.confidence.value(sums[index], len(span))
            best.append(_Translated(chosen.words, confidence, chosen.finished))
        return best

    def _count(self, segments: Sequence[Segment], num_words: int) -> None:
        work = self.work
        work.sentences += 1
        work.whole += len(segments) <= 1
        work.segments += len(segments)
        work.words += num_words
        work.squares += sum((segment.end - segment.start) ** 2 for segment in segments)
        work.unknown_words += sum(segment.target.count("<unk>") for segment in segments)
        work.unfinished += sum(not segment.finished for segment in segments)


class _Planned(NamedTuple):
    words: Words
    spans: list[tuple[int, int]]  # the bounds of the spans to translate; the segments of a `cut`


def _bounds(sizes: Sequence[int]) -> list[tuple[int, int]]:
    return list(pairwise(np.cumsum([0, *sizes]).tolist()))
