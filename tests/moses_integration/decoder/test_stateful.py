"""Promises of moses_integration.decoder.stack_search: what a feature is asked, and how often."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moses_integration.decoder import stack_search
from moses_integration.decoder.stack_search import RequestCache, Requests, StackSearch
from tests.moses_integration.decoder.small_decoder import SmallDecoder


class Squares:
    """Gives each key its square, which the first word of a request is."""

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
    return histories, keys.astype(np.int32), np.arange(len(keys) + 1), ends, None


@pytest.fixture
def feature() -> Squares:
    return Squares()


@pytest.fixture
def cache(feature: Squares) -> RequestCache:
    cache = RequestCache(feature)
    cache.start()
    return cache


def test_a_request_is_passed_on_once(feature: Squares, cache: RequestCache) -> None:
    assert cache.request(np.array([5, 3, 5]), rows).tolist() == [25, 9, 25]
    assert cache.request(np.array([3, 4]), rows).tolist() == [9, 16]
    assert cache.request(np.array([3]), rows).tolist() == [9]
    assert feature.batches == [[3, 5], [4]]
    assert cache.scores(np.array([3, 3, 5, 4])).tolist() == [9, 9, 25, 16]


def test_many_requests_are_passed_on_in_several_calls(
    feature: Squares, cache: RequestCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_search, "_MOST_REQUESTS", 2)
    assert cache.request(np.array([7, 1, 2, 3, 4]), rows).tolist() == [49, 1, 4, 9, 16]
    assert feature.batches == [[1, 2], [3, 4], [7]]


def test_a_new_sentence_forgets_scores(feature: Squares, cache: RequestCache) -> None:
    for _ in range(2):
        cache.start()
        cache.request(np.array([2]), rows)
    assert feature.batches == [[2], [2]]


def test_a_search_leaves_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    # The command line collects rarely, and the tables of a sentence have megabytes.
    sentence = ["a", "b"]
    decoder = SmallDecoder(tmp_path, seed=1).decoder([sentence], [(Squares(), 1.0)])
    gc.collect()
    gc.disable()
    try:
        decoder.translate(sentence)
        del decoder
        assert not [each for each in gc.get_objects() if type(each) is StackSearch]
    finally:
        gc.enable()
