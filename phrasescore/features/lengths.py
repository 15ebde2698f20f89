"""How long a translation is, and how long for its source."""

import math
from collections.abc import Iterable, Iterator

from phrasescore.records import PhrasePair


class TargetLength:
    """The number of target words: a count, without ``</s>``.

    Moses' ``WordPenalty`` is minus this number. It is for lists of decoders that do not print it,
    and for networks whose log-probabilities favour short translations.
    """

    def __init__(self) -> None:
        self._total = 0

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        """Yield the number of target words of each pair."""
        for pair in pairs:
            self._total += len(pair.target)
            yield float(len(pair.target))

    def summary(self) -> str:
        """Return how many words there were."""
        return f"{self._total:,} target words"


class LengthRatio:
    """log((target words + 1) / (source words + 1)): natural, 0 where both are of one length.

    The end symbols count, so that an empty side has a ratio. Unlike the number of words, it means
    the same in a short sentence and in a long one.
    """

    def __init__(self) -> None:
        self._total = 0.0
        self._pairs = 0

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        """Yield the logarithm of the ratio of each pair."""
        for pair in pairs:
            value = math.log((len(pair.target) + 1) / (len(pair.source) + 1))
            self._total += value
            self._pairs += 1
            yield value

    def summary(self) -> str:
        """Return the usual ratio, the geometric mean."""
        ratio = math.exp(self._total / self._pairs) if self._pairs else math.nan
        return f"{ratio:.3f} target words a source word"
