"""Features whose scores depend on the target words before a phrase, scored many at a time.

A network is fast when it gets many n-grams at once, and a search asks for few and often for the
same ones. So the search asks a :class:`RequestBuffer`, which passes new requests on when it is full
or when the answers are needed: before a stack is pruned.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

DEFAULT_BUFFER_SIZE = 4096


class AlignedWords(NamedTuple):
    """What some target words are translations of."""

    # The sentence.
    source: Sequence[str]
    # int32: the place in it that each target word is affiliated with.
    affiliations: Any


class StatefulFeature(Protocol):
    """A feature of target words and the words before them."""

    @property
    def name(self) -> str:
        """The feature's name in n-best lists, such as ``CSLM0``."""

    @property
    def context(self) -> int:
        """Preceding words that a score depends on: 6 for 7-grams."""

    def begin(self, words: Sequence[str]) -> None:
        """Take the words by their ids; called again whenever there are more of them.

        Ids 0, 1 and 2 are ``<unk>``, ``<s>`` and ``</s>``.
        """

    def scores(
        self,
        histories: Any,
        phrases: Any,
        offsets: Any,
        ends: Any,
        aligned: AlignedWords | None = None,
        /,
    ) -> Any:
        """Return the logarithm of the probability of each phrase after its history.

        Rows may repeat. A score depends on its row alone, to the last bit.

        :param histories: int32 (rows, context), the latest word last; 1 where the sentence begins,
            and -1 before it.
        :param phrases: int32, the words of all phrases.
        :param offsets: int64 (rows + 1,), where they begin.
        :param ends: bool (rows,), whether ``</s>`` follows and is scored, too.
        :param aligned: of all phrases; None where the tables were read without alignments.
        :return: float64 (rows,), natural logarithms.
        """


class Requests(NamedTuple):
    """The arguments of :meth:`StatefulFeature.scores`."""

    histories: Any
    phrases: Any
    offsets: Any
    ends: Any
    aligned: AlignedWords | None = None


class RequestBuffer:
    """Requests of one sentence to a feature: each is passed on once, many in a call.

    :param size: requests that are passed on together; 1 for no buffering.
    :ivar requests: the search's requests so far, repeats included.
    :ivar distinct: that were passed on.
    :ivar calls: of the feature.
    """

    def __init__(self, feature: StatefulFeature, size: int = DEFAULT_BUFFER_SIZE) -> None:
        self.feature = feature
        self.requests = self.distinct = self.calls = 0
        self._size = size

    def start(self, rows: Callable[[Any, int], Requests]) -> None:
        """Begin a sentence: forget all scores.

        :param rows: from keys (int64) and a number of preceding words to the requests they mean.
        """
        self._rows = rows
        # Sorted keys and their scores; keys that wait for theirs.
        self._known, self._scores = np.empty(0, np.int64), np.empty(0)
        self._waiting = np.empty(0, np.int64)

    def request(self, keys: Any) -> None:
        """Ask for scores; the feature is called as often as the buffer gets full."""
        self.requests += len(keys)
        fresh = np.unique(keys)
        fresh = fresh[~_among(fresh, self._known) & ~_among(fresh, self._waiting)]
        # One by one into the buffer, and all of it out when it is full.
        while len(self._waiting) + len(fresh) >= self._size:
            room = self._size - len(self._waiting)
            self._waiting = np.concatenate([self._waiting, fresh[:room]])
            fresh = fresh[room:]
            self.flush()
        self._waiting = np.sort(np.concatenate([self._waiting, fresh]))

    def flush(self) -> None:
        """Let the feature score the requests that are waiting."""
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
    places = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return ordered[places] == keys
