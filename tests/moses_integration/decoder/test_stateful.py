"""Promises of moses_integration.decoder.stack_search: what a feature is asked, and how often."""

from typing import Any

import numpy as np

from moses_integration.decoder.stack_search import RequestBuffer, Requests


class Squares:
    """Gives each key its square, which the first word of a request is."""

    name = "Squares0"
    context = 1

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def begin(self, words: Any) -> None:
        pass

    def scores(self, histories: Any, phrases: Any, offsets: Any, ends: Any, *_: Any) -> Any:
        assert len(histories) == len(offsets) - 1 == len(ends)
        self.batches.append(phrases.tolist())
        return phrases.astype(float) ** 2


def rows(keys: Any, context: int) -> Requests:
    histories = np.full((len(keys), context), 1, np.int32)
    ends = np.zeros(len(keys), bool)
    return Requests(histories, keys.astype(np.int32), np.arange(len(keys) + 1), ends)


def make(size: int) -> tuple[Squares, RequestBuffer]:
    feature = Squares()
    buffer = RequestBuffer(feature, size)
    buffer.start(rows)
    return feature, buffer


def test_a_request_is_passed_on_once() -> None:
    feature, buffer = make(100)
    buffer.request(np.array([5, 3, 5]))
    buffer.request(np.array([3, 4]))
    assert feature.batches == []
    buffer.flush()
    buffer.request(np.array([4, 6]))
    buffer.flush()
    buffer.flush()
    assert feature.batches == [[3, 4, 5], [6]]
    assert buffer.scores(np.array([6, 3, 3, 5, 4])).tolist() == [36, 9, 9, 25, 16]
    assert (buffer.requests, buffer.distinct, buffer.calls) == (7, 4, 2)


def test_a_full_buffer_is_emptied() -> None:
    feature, buffer = make(2)
    buffer.request(np.array([7]))
    buffer.request(np.array([1, 2, 3, 4]))
    assert [len(batch) for batch in feature.batches] == [2, 2]
    buffer.flush()
    assert [len(batch) for batch in feature.batches] == [2, 2, 1]
    assert buffer.scores(np.array([7, 1, 2, 3, 4])).tolist() == [49, 1, 4, 9, 16]


def test_a_buffer_of_one_passes_on_each_request_at_once() -> None:
    feature, buffer = make(1)
    buffer.request(np.array([9, 8, 9]))
    assert feature.batches == [[8], [9]]


def test_a_new_sentence_forgets_scores_and_goes_on_counting() -> None:
    feature, buffer = make(10)
    for _ in range(2):
        buffer.start(rows)
        buffer.request(np.array([2]))
        buffer.flush()
    assert feature.batches == [[2], [2]]
    assert buffer.calls == 2
