"""Segmentation: confidences by hand, the best cuts against all there are, and what is computed."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasescore.generation import segmentation
from phrasescore.generation.generator import Generated
from phrasescore.generation.segmentation import (
    CONFIDENCES,
    Confidence,
    Segment,
    Segmenter,
    Words,
    best_cuts,
    cut_by_random_confidence,
    cut_in_random_order,
    cut_nothing,
)
from phrasescore.records import HypothesisList
from tests.compositions import compositions

FORWARD, BOTH = CONFIDENCES["forward"], CONFIDENCES["both"]


def by_all_segmentations(confidences: np.ndarray) -> list[int]:
    length, longest = confidences.shape

    def worth(sizes: list[int]) -> tuple[int, float, list[int]]:
        infinite, total, start = 0, 0.0, 0
        for size in sizes:
            value = float(confidences[start, size - 1])
            if value == -math.inf:
                infinite += 1
            else:
                total += value
            start += size
        return -infinite, total, sizes[::-1]  # of equal ones: the longest at the end

    return max(compositions(length, longest), key=worth)


# Few values: ties are frequent, and the sums are exact.
VALUES = st.sampled_from([-math.inf, -2.0, -1.5, -1.0, -0.5, 0.0])


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(0, 8), st.integers(1, 9))
def test_the_best_cuts_are_the_best_of_all_segmentations(
    data: st.DataObject, length: int, longest: int
) -> None:
    count = length * longest
    values = data.draw(st.lists(VALUES, min_size=count, max_size=count))
    confidences = np.array(values).reshape(length, longest)
    assert best_cuts(confidences) == by_all_segmentations(confidences)


@pytest.mark.parametrize(
    ("name", "length", "value"),
    [
        # log p = -3 and log q = -5; by hand.
        ("forward", 4, -3.0),
        ("both", 4, -4.0),
        ("penalized", 4, -4.0 / math.log(4)),
        ("penalized", 2, -4.0 / math.log(2)),
        ("penalized", 1, -math.inf),
        ("penalized-released", 4, -4.0 / math.log(6)),
        ("penalized-released", 1, -4.0 / math.log(3)),
    ],
)
def test_confidences_are_those_of_the_paper(name: str, length: int, value: float) -> None:
    confidence = CONFIDENCES[name]
    assert confidence.value(-8.0 if confidence.both else -3.0, length) == pytest.approx(value)


class Networks:
    """Both directions, with log-probabilities that a test makes up from the words."""

    def __init__(self) -> None:
        self.translated: list[Words] = []
        self.calls = 0

    def translate(self, spans: Sequence[Words]) -> list[list[Generated]]:
        """Two candidates: the words in capitals, and more probable ones that say how many."""
        self.calls += 1
        self.translated += spans
        return [
            [
                Generated((str(len(span)),), -0.5 * len(span)),
                Generated(tuple(word.upper() for word in span), self.forward(span)),
            ]
            for span in spans
        ]

    def forward(self, span: Words) -> float:
        return -0.5 * len(span) - sum(map(ord, "".join(span))) % 7 / 8

    def score_back(self, lists: Sequence[HypothesisList]) -> list[list[float]]:
        """Capitals tell the words, and a number does not."""
        return [
            [-20.0 if words[0].isdigit() else -0.25 for words in item.hypotheses] for item in lists
        ]


def segmenter(networks: Networks, name: str = "both", **options: object) -> Segmenter:
    return Segmenter(networks.translate, networks.score_back, CONFIDENCES[name], **options)  # type: ignore[arg-type]


SENTENCES: list[Words] = [
    ("a", "b", "c", "a", "b"),
    (),
    ("b",),
    ("a", "b", "c", "d", "e", "f", "g"),
    ("a", "b", "c", "a", "b"),
]


def test_the_candidate_of_the_highest_confidence_is_the_translation() -> None:
    (found,) = segmenter(Networks(), cut=cut_nothing).segment([("a", "b")])
    networks = Networks()
    expected = (networks.forward(("a", "b")) - 0.25) / 2
    assert found.segments == [Segment(0, 2, ("A", "B"), expected)]
    (found,) = segmenter(Networks(), "forward", cut=cut_nothing).segment([("a", "b")])
    assert found.segments == [Segment(0, 2, ("2",), -1.0)]


def test_segments_are_the_best_of_all_segmentations_and_their_translations_joined() -> None:
    networks = Networks()
    for words, found in zip(
        SENTENCES, segmenter(networks, max_segment=3).segment(SENTENCES), strict=True
    ):
        table = np.full((len(words), 3), np.nan)
        for start in range(len(words)):
            for size in range(1, min(3, len(words) - start) + 1):
                span = words[start : start + size]
                table[start, size - 1] = (networks.forward(span) - 0.25) / 2
        sizes = [segment.end - segment.start for segment in found.segments]
        assert sizes == by_all_segmentations(table)
        assert found.translation == tuple(word.upper() for word in words)
        for segment in found.segments:
            assert segment.confidence == table[segment.start, segment.end - segment.start - 1]


def test_a_span_is_translated_once() -> None:
    networks = Networks()
    worker = segmenter(networks, max_segment=3)
    list(worker.segment(SENTENCES))
    spans = {
        words[start : start + size]
        for words in SENTENCES
        for size in (1, 2, 3)
        for start in range(len(words) - size + 1)
    }
    assert sorted(networks.translated) == sorted(spans)
    assert networks.calls == 1
    assert worker.work.spans == len(spans)
    assert worker.work.wanted == 12 + 1 + 18 + 12


@pytest.mark.parametrize("kept", [0, 3, 100_000])
@pytest.mark.parametrize("block", [1, 5, 20])
def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch, block: int, kept: int) -> None:
    expected = list(segmenter(Networks()).segment(SENTENCES))
    monkeypatch.setattr(segmentation, "BLOCK_SPANS", block)
    monkeypatch.setattr(segmentation, "KEPT_SPANS", kept)
    networks = Networks()
    worker = segmenter(networks)
    assert list(worker.segment(SENTENCES)) == expected
    assert networks.calls > 1
    if kept > 1000:
        assert len(networks.translated) == len(set(networks.translated))
    else:
        assert len(worker._kept) <= kept


def test_sentences_are_read_as_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmentation, "BLOCK_SPANS", 1)
    sentences = iter([("a", "b"), ("c",)])
    results = segmenter(Networks()).segment(sentences)
    assert next(results).words == ("a", "b")
    assert next(sentences) == ("c",)


def test_equal_spans_of_two_sentences_are_translated_once() -> None:
    # Confidences that favour single words: 0 for them, and less for more.
    favour = Confidence(both=False, divisor=lambda length: 1e9 if length == 1 else 1.0)
    networks = Networks()
    worker = Segmenter(networks.translate, None, favour)
    short, long = worker.segment([("a",), ("a", "b", "c")])
    assert [(segment.start, segment.end) for segment in short.segments] == [(0, 1)]
    assert len(long.segments) == 3
    assert len(networks.translated) == 1 + 6 - 1  # "a" is a span of both
    assert worker.work.summary().startswith(
        "2 sentences, 1 of them whole; 4 segments of 1.00 words on average (variance 0.00); "
    )


def test_whole_sentences_may_be_longer_than_a_segment() -> None:
    networks = Networks()
    (found,) = segmenter(networks, max_segment=2, cut=cut_nothing).segment([("a",) * 30])
    assert [(segment.start, segment.end) for segment in found.segments] == [(0, 30)]
    assert networks.translated == [("a",) * 30]


def test_one_word_has_its_segment_under_eq_2() -> None:
    (found,) = segmenter(Networks(), "penalized").segment([("b",)])
    assert found.segments == [Segment(0, 1, ("B",), -math.inf)]


def test_a_translation_without_an_end_deserves_no_confidence() -> None:
    def translate(spans: Sequence[Words]) -> list[list[Generated]]:
        # The whole would be best, if it had an end.
        return [
            [Generated(span, -0.1, finished=len(span) < 3)] if len(span) > 1 else
            [Generated(span, -9.0)]
            for span in spans
        ]  # fmt: skip

    worker = Segmenter(translate, None, FORWARD)
    (found,) = worker.segment([("a", "b", "c")])
    assert [(segment.start, segment.end) for segment in found.segments] == [(0, 1), (1, 3)]
    assert worker.work.unfinished == 0
    worker = Segmenter(translate, None, FORWARD, cut=cut_nothing)
    (found,) = worker.segment([("a", "b", "c")])
    assert found.segments == [Segment(0, 3, ("a", "b", "c"), -math.inf, finished=False)]
    assert worker.work.summary().endswith("; 1 segments without the end of their translation")


def test_random_confidences_depend_on_the_number_alone() -> None:
    cut = cut_by_random_confidence(20)
    drawn = [cut(number, 30) for number in range(20)]
    assert [cut_by_random_confidence(20)(number, 30) for number in range(20)] == drawn
    assert len(set(map(tuple, drawn))) > 10
    assert all(sum(sizes) == 30 and max(sizes) <= 20 for sizes in drawn)
    assert cut(0, 0) == []


def test_random_confidences_are_uniform() -> None:
    # Two words stay whole where c_12 > c_11 + c_22, all uniform between -1 and 0. That fails in the
    # corner of the cube where the three distances from it sum to less than 1: a sixth. 4000 draws
    # have a standard deviation of 0.006.
    cut = cut_by_random_confidence(20)
    whole = sum(cut(number, 2) == [2] for number in range(4000)) / 4000
    assert whole == pytest.approx(5 / 6, abs=0.024)


def test_random_order_keeps_each_sentences_segments() -> None:
    others = [[1, 2, 3, 4, 5], [], [7], *([1, 2, 3] for _ in range(600))]
    cut = cut_in_random_order(others)
    found = [cut(number, sum(sizes)) for number, sizes in enumerate(others)]
    assert list(map(sorted, found)) == others
    # A number has the same order whatever was cut before.
    assert [cut_in_random_order(others)(number, 0) for number in range(20)] == found[:20]
    # Six orders are equally probable: 100 of 600 each, with a standard deviation of 9.
    orders = list(map(tuple, found[3:]))
    assert all(65 <= orders.count(order) <= 135 for order in itertools.permutations((1, 2, 3)))
