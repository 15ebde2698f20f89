"""Features whose scores depend on the target words before a phrase, scored in batches.

A network is fast on large batches of n-grams, while a search requests few at a time, often the same
ones. So the search asks a :class:`RequestBuffer`. It passes new requests on when it is full, or
when the scores are needed: before a stack is pruned.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

DEFAULT_BUFFER_SIZE = 4096


class AlignedWords(NamedTuple):
    """A source sentence, and the affiliations of some target words."""

    source: Sequence[str]
    # int32: the index of the source word that each target word is affiliated with.
    affiliations: Any


class Requests(NamedTuple):
    """Phrases after their histories, for :meth:`StatefulFeature.scores`."""

    # int32 (rows, context), the latest word last; 1 for the beginning of the sentence, -1 before.
    histories: Any
    # int32, the words of all phrases; and int64 (rows + 1,), where each phrase begins.
    phrases: Any
    offsets: Any
    # bool (rows,), whether </s> follows and is scored, too.
    ends: Any
    # The affiliations of the phrases; None if tables were read without alignments.
    aligned: AlignedWords | None = None


class StatefulFeature(Protocol):
    """A feature of target words and the words before them."""

    @property
    def name(self) -> str:
        """The feature's name in n-best lists, such as ``CSLM0``."""

    @property
    def context(self) -> int:
        """The number of preceding words that a score depends on: 6 for 7-grams."""

    def begin(self, words: Sequence[str]) -> None:
        """Set the words by id: <unk>, <s>, </s>, ...; called again whenever words are added."""

    def scores(
        self,
        histories: Any,
        phrases: Any,
        offsets: Any,
        ends: Any,
        aligned: AlignedWords | None = None,
        /,
    ) -> Any:
        """Return log p of each phrase after its history: float64 (rows,), natural logarithms.

        The parameters are as in `Requests`. Rows may repeat. A score must depend only on its
        row, to the last bit.
        """


class RequestBuffer:
    """The requests of one sentence to a feature, deduplicated, ``size`` per call of the feature.

    :ivar requests: number of requests so far, repeats included.
    :ivar distinct: number of requests passed on to the feature.
    :ivar calls: number of calls of the feature.
    """

    def __init__(self, feature: StatefulFeature, size: int = DEFAULT_BUFFER_SIZE) -> None:
        self.feature = feature
        self.requests = self.distinct = self.calls = 0
        self._size = size

    def start(self, rows: Callable[[Any, int], Requests]) -> None:
        """Begin a sentence and discard all scores.

        :param rows: maps keys (int64) and a number of preceding words to their requests.
        """
        self._rows = rows
        # Sorted keys and their scores; keys whose scores are pending.
        self._known, self._scores = np.empty(0, np.int64), np.empty(0)
        self._waiting = np.empty(0, np.int64)

    def request(self, keys: Any) -> None:
        """Request scores; the feature is called whenever the buffer is full."""
        self.requests += len(keys)
        fresh = np.unique(keys)
        fresh = fresh[~_among(fresh, self._known) & ~_among(fresh, self._waiting)]
        # As if requests were added one by one, with a flush whenever the buffer is full.
        while len(self._waiting) + len(fresh) >= self._size:
            room = self._size - len(self._waiting)
            self._waiting = np.concatenate([self._waiting, fresh[:room]])
            fresh = fresh[room:]
            self.flush()
        self._waiting = np.sort(np.concatenate([self._waiting, fresh]))

    def flush(self) -> None:
        """Score the pending requests."""
        waiting = self._waiting
        if len(waiting) == 0:
            return
        requests = self._rows(waiting, self.feature.context)
        scores = np.asarray(self.feature.scores(*requests), np.float64)
        if scores.shape != (len(waiting),) or np.isnan(scores).any():
            problem = f"expected {len(waiting)} numbers, found shape {scores.shape}, or NaN"
            raise ValueError(f"{self.feature.name}: {problem}")
        self.calls += 1
        self.distinct += len(waiting)
        known = np.concatenate([self._known, waiting])
        order = np.argsort(known)
        self._known = known[order]
        self._scores = np.concatenate([self._scores, scores])[order]
        self._waiting = np.empty(0, np.int64)

    def scores(self, keys: Any) -> Any:
        """Return the scores of keys that were requested and flushed."""
        return self._scores[np.searchsorted(self._known, keys)]


def _among(keys: Any, ordered: Any) -> Any:
    """Return which keys are in a sorted array."""
    if len(ordered) == 0:
        return np.zeros(len(keys), bool)
    positions = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return ordered[positions] == keys
