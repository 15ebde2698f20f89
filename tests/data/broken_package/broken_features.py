"""Features of which each breaks its contract in a way of its own."""

import math
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

NOT_A_CLASS = 3


class Whole:
    """A whole number per pair."""

    def values(self, pairs: Iterable[Any]) -> Iterator[Any]:
        """Yield the number of target words, but as an int."""
        return (len(pair.target) for pair in pairs)


class TooFew:
    """One value less than there are pairs."""

    def values(self, pairs: Iterable[Any]) -> Iterator[Any]:
        """Yield a value for each pair but the first."""
        return (float(len(pair.target)) for pair in islice(pairs, 1, None))


class TooMany:
    """One value more than there are pairs."""

    def values(self, pairs: Iterable[Any]) -> Iterator[Any]:
        """Yield a value for each pair, and one more."""
        return chain((float(len(pair.target)) for pair in pairs), [0.0])


class NotANumber:
    """NaN where a target has more than two words."""

    def values(self, pairs: Iterable[Any]) -> Iterator[Any]:
        """Yield NaN or 0."""
        return (math.nan if len(pair.target) > 2 else 0.0 for pair in pairs)


class Infinite:
    """Positive infinity."""

    def values(self, pairs: Iterable[Any]) -> Iterator[Any]:
        """Yield infinity."""
        return (math.inf for _ in pairs)


class Raises:
    """An error of two lines."""

    def values(self, pairs: Iterable[Any]) -> Iterator[Any]:
        """Yield a value, and then raise."""
        for _ in islice(pairs, 1):
            yield 0.0
        raise KeyError("no such word:\nmaison")


class Nothing:
    """None in place of an iterator."""

    def values(self, pairs: Iterable[Any]) -> None:
        """Return nothing."""


class NoValues:
    """A class without a method ``values``."""


class NotMade:
    """A class that wants an argument."""

    def __init__(self, path: str) -> None:
        self.path = path
