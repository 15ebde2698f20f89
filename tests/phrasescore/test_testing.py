"""Promises of phrasescore.testing: what breaks a contract does not pass, and the reason is said."""

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from phrasescore.errors import PluginError
from phrasescore.records import PhrasePair
from phrasescore.testing import check_feature, check_metric
from tuning.metrics import Statistics

Values = Callable[[Iterable[PhrasePair]], Iterable[Any]]


def lengths(pairs: Iterable[PhrasePair]) -> Iterator[float]:
    return (float(len(pair.target)) for pair in pairs)


def sorted_values(pairs: Iterable[PhrasePair]) -> Iterator[float]:
    return iter(sorted(lengths(pairs)))


def numbered(pairs: Iterable[PhrasePair]) -> Iterator[float]:
    return (float(number) for number, _ in enumerate(pairs))


def random_values(pairs: Iterable[PhrasePair]) -> Iterator[float]:
    return (random.random() for _ in pairs)


def ahead(size: int) -> Values:
    def values(pairs: Iterable[PhrasePair]) -> Iterator[float]:
        waiting = iter(pairs)
        while block := list(itertools.islice(waiting, size)):
            yield from lengths(block)

    return values


def made(values: Values) -> object:
    class Tried:
        def values(self, pairs: Iterable[PhrasePair]) -> Iterable[Any]:
            return values(pairs)

    return Tried()


class Shared:
    """Computes four values at a time, and keeps them in a list that a copy has, too."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        waiting = iter(pairs)
        while block := list(itertools.islice(waiting, 4)):
            self.found.extend(lengths(block))
            while self.found:
                yield self.found.pop(0)


@pytest.mark.parametrize(
    ("feature", "reason"),
    [
        (made(lambda pairs: itertools.islice(lengths(pairs), 23)), "got only 23 in all"),
        (made(lambda pairs: [*lengths(pairs), 0.0]), "expected 24 values, one per pair, got more"),
        (made(lambda pairs: (math.nan for _ in pairs)), "expected a finite float, got nan"),
        (made(lambda pairs: (-math.inf for _ in pairs)), "expected a finite float, got -inf"),
        (made(lambda pairs: (np.float32(1) for _ in pairs)), "(float32) for the pair 'la maison "),
        (made(random_values), "a second run gives different values"),
        (made(numbered), "a value depends on the other pairs: 0.0 and 1.0"),
        (made(sorted_values), "a value depends on the other pairs: 2.0 and 0.0"),
        (made(ahead(30_000)), "it reads 20,010 pairs before their values are requested"),
        (Shared(), "two copies that run at the same time disturb each other"),
    ],
)
def test_a_feature_that_breaks_a_promise_does_not_pass(feature: object, reason: str) -> None:
    with pytest.raises(PluginError) as caught:
        check_feature(feature)
    assert str(caught.value).startswith(f"{type(feature).__name__}: ")
    assert reason in str(caught.value)


def test_a_feature_may_read_a_block_ahead() -> None:
    check_feature(made(ahead(16_384)))
    check_feature(made(ahead(4)), read_ahead=4)
    with pytest.raises(PluginError, match="it reads 12 pairs before"):
        check_feature(made(ahead(20)), read_ahead=2)


class Matches:
    """Counts right words; the checks below break one promise each."""

    num_stats = 2

    def __init__(self, references: Sequence[Sequence[Sequence[str]]]) -> None:
        self.references = references[0]

    def statistics(
        self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int]
    ) -> Statistics:
        rows = [
            (len(set(words) & set(self.references[segment])), len(set(self.references[segment])))
            for words, segment in zip(hypotheses, segments, strict=True)
        ]
        return np.array(rows, np.float64).reshape(-1, 2)

    def score(self, sums: Statistics) -> Statistics:
        return sums[..., 0] / np.maximum(sums[..., 1], 1)


def test_a_metric_that_keeps_its_promises_passes() -> None:
    check_metric(Matches)


class Worse(Matches):
    def score(self, sums: Statistics) -> Statistics:
        return 1 - super().score(sums)


class Drawn(Matches):
    def statistics(
        self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int]
    ) -> Statistics:
        return super().statistics(hypotheses, segments) + random.random()


class Ordered(Matches):
    def statistics(
        self, hypotheses: Sequence[Sequence[str]], segments: Sequence[int]
    ) -> Statistics:
        found = super().statistics(hypotheses, segments)
        return found + np.arange(len(found))[:, None]


class OneAtATime(Matches):
    def score(self, sums: Statistics) -> Any:
        return float(sums[0] / max(sums[1], 1))


class Undefined(Matches):
    def score(self, sums: Statistics) -> Statistics:
        with np.errstate(invalid="ignore"):
            return sums[..., 0] / sums[..., 1]


class Percent(Matches):
    def score(self, sums: Statistics) -> Statistics:
        return 100 * super().score(sums)


class NoNumber(Matches):
    num_stats = 0


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (Worse, "score: the references have 0, empty hypotheses have 1"),
        (Drawn, "a second run gives different statistics"),
        (Ordered, "the statistics depend on the order of the hypotheses"),
        (OneAtATime, "score: "),
        (Undefined, "score: expected finite numbers, got nan"),
        (Percent, "score: expected 0 to 1, got 100"),
        (NoNumber, "num_stats: expected a positive integer, got 0"),
        (lambda references: references, "num_stats: AttributeError: 'list' object has no attr"),
    ],
)
def test_a_metric_that_breaks_a_promise_does_not_pass(metric: Any, reason: str) -> None:
    with pytest.raises(PluginError) as caught:
        check_metric(metric)
    assert str(caught.value).startswith(f"{metric.__name__}: {reason}")
