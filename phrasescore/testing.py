"""Checks for other packages' tests: their features and metrics must keep the contract.

phrasescore's own features and metrics pass the same checks. A broken contract raises a
:class:`phrasescore.errors.PluginError` that explains it.

>>> class Letters:
...     def values(self, pairs):
...         for pair in pairs:
...             yield float(sum(map(len, pair.target)))
>>> check_feature(Letters())
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import PluginError
from phrasescore.evaluation.plugin_metric import CheckedMetric, source_argument
from phrasescore.features.plugin_feature import checked_values, copied
from phrasescore.records import PhrasePair

# The pairs have unknown words, empty sides, repeated pairs and sources, long phrases, a number, and
# a punctuation mark.
PAIRS = [
    PhrasePair(("la", "maison"), ("the", "house")),
    PhrasePair(("rare",), ("rare", "house", "rare")),
    PhrasePair((), ("the",)),
    PhrasePair(("la",), ()),
    PhrasePair(("la", "maison"), ("the", "blue", "house")),
    PhrasePair(("la", "maison"), ("the", "house")),
    PhrasePair(("maison",) * 60, ("house",) * 70),
    PhrasePair(("la", "5", "?"), ("the", "house")),
] * 3

# Two sets of references; the second has other words, other lengths, and an empty line.
REFERENCES = [
    [("the", "cat", "is", "here", "now", "."), ("a", "dog", "barks", "at", "it"), ("yes", "!")],
    [("there", "is", "a", "cat", "here"), ("the", "dog", "barks", "at", "the", "cat"), ()],
]
SOURCES = [("le", "chat", "est", "ici"), ("un", "chien"), ()]
# Hypotheses and their segments: partly correct, repeated and unknown words, empty.
_HYPOTHESES = [
    (("the", "the", "the", "cat", "is", "here"), 0),
    (("seen", "by", "nobody"), 1),
    (("dog",), 1),
    ((), 0),
    ((), 1),
    ((), 2),
]

# Tolerances for values that are computed in different blocks, such as a network's.
_RELATIVE, _ABSOLUTE = 1e-6, 1e-5


def check_feature(
    feature: Any, pairs: Sequence[PhrasePair] = PAIRS, *, read_ahead: int = 20_000
) -> None:
    """Check that a feature keeps the contract for features.

    It yields a finite float for each pair, in order, for any number of pairs. Equal pairs have
    equal values, and a second run gives the same bits. It reads pairs lazily. Two copies
    (``copy.copy``), as used by threads, do not disturb each other.

    :param feature: an object, or a class that can be called without arguments.
    :param read_ahead: number of pairs that it may read before it has returned their values.
    :raises PluginError: at the first violation of the contract.
    """
    if isinstance(feature, type):
        feature = feature()
    title = type(feature).__name__
    pairs = [PhrasePair(*pair) for pair in pairs]

    def values(*some: PhrasePair, of: Any = feature) -> Iterator[float]:
        return checked_values(of, some, title)

    expected = list(values(*pairs))
    list(values())
    if list(values(*pairs)) != expected:
        raise PluginError(title, "a second run gives different values")
    known: dict[PhrasePair, float] = {}
    for pair, value in zip(pairs, expected, strict=True):
        first_value = known.setdefault(pair, value)
        _check_equal(title, "equal pairs have different values", first_value, value)
        (single,) = values(pair)
        _check_equal(title, "a value depends on the other pairs", single, value)
    for value, last in zip(expected, reversed(list(values(*reversed(pairs)))), strict=True):
        _check_equal(title, "a value depends on the order of the pairs", value, last)
    first, second = copied(feature, title), copied(feature, title)
    both = zip(values(*pairs, of=first), values(*reversed(pairs), of=second), strict=True)
    problem = "two copies that run at the same time disturb each other"
    for (one, other), value, last in zip(both, expected, reversed(expected), strict=True):
        _check_equal(title, problem, one, value)
        _check_equal(title, problem, other, last)
    wanted = 10
    endless = _endless(title, pairs, wanted + read_ahead)
    for _ in itertools.islice(checked_values(feature, endless, title), wanted):
        pass


def _check_equal(title: str, problem: str, value: float, expected: float) -> None:
    if not math.isclose(value, expected, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE):
        raise PluginError(title, f"{problem}: {value!r} and {expected!r}")


def _endless(title: str, pairs: Sequence[PhrasePair], most: int) -> Iterator[PhrasePair]:
    """Yield the pairs repeatedly, and raise a PluginError if more than ``most`` are read."""
    for number, pair in enumerate(itertools.cycle(pairs)):
        if number >= most:
            raise PluginError(title, f"it reads {most:,} pairs before their values are requested")
        yield pair


def check_metric(make: Callable[[Any], Any]) -> None:
    """Check that a metric class keeps the contract for metrics.

    References are indexed by reference file, then by segment; each entry is a sequence of words.
    The metric returns ``num_stats`` finite numbers per hypothesis, which do not depend on the other
    hypotheses. The ``score`` of their sum over a corpus is from 0 to 1, also for an array of sums,
    and for the fractional sums and the sums plus 1 that tuning uses. The references score higher
    than empty hypotheses.

    :param make: the class, or a function from references to an object of the class; if it has a
        parameter ``sources``, it gets the words of each source sentence.
    """
    title = getattr(make, "__name__", type(make).__name__)
    for references in (REFERENCES, REFERENCES[1:]):
        num_segments = len(references[0])
        hypotheses = [*references[0], *(words for words, _ in _HYPOTHESES)]
        segments = [*range(num_segments), *(segment for _, segment in _HYPOTHESES)]
        extra = source_argument(make, SOURCES, title)
        metric = CheckedMetric(title, title, functools.partial(make, **extra), references)
        stats = metric.statistics(hypotheses, segments)
        again = metric.statistics(hypotheses, segments)
        _check_same(title, "a second run gives different statistics", again, stats)
        backwards = metric.statistics(hypotheses[::-1], segments[::-1])[::-1]
        _check_same(title, "the statistics depend on the order of the hypotheses", backwards, stats)
        both = zip(hypotheses, segments, strict=True)
        single = [metric.statistics([words], [segment]) for words, segment in both]
        problem = "the statistics depend on the other hypotheses"
        _check_same(title, problem, np.concatenate(single), stats)
        metric.statistics([], [])
        right, empty = stats[:num_segments].sum(axis=0), stats[-num_segments:].sum(axis=0)
        sums = np.stack([right, empty, stats.sum(axis=0), right / 2, right + 1, empty + 1])
        scores = metric.score(sums)
        one_by_one = np.stack([metric.score(row) for row in sums])
        _check_same(title, "an array of sums has other scores than single sums", one_by_one, scores)
        square = metric.score(sums.reshape(2, 3, -1)).reshape(-1)
        _check_same(title, "a matrix of sums has other scores than a list", square, scores)
        metric.score(stats)
        if not scores[0] > scores[1]:
            values = f"the references have {scores[0]:g}, empty hypotheses have {scores[1]:g}"
            raise PluginError(title, f"score: {values}")


def _check_same(
    title: str, problem: str, one: NDArray[np.float64], other: NDArray[np.float64]
) -> None:
    if not np.allclose(one, other, rtol=_RELATIVE, atol=1e-9):
        raise PluginError(title, problem)
