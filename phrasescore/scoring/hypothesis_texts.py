"""The plan of scoring n-best lists: one tree for the hypotheses of several sentences."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

import numpy as np

from phrasescore.records import HypothesisList
from phrasescore.scoring.prefix_tree import PrefixTree, Sequences, build_prefix_tree


class HypothesisTexts:
    """The sentences of some lists as numbers of their distinct words."""

    def __init__(self, group: list[HypothesisList]) -> None:
        # A word's number is made where it is first looked up: how many there are before it.
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        sources = [item.source for item in group]
        hypotheses = list(chain.from_iterable(item.hypotheses for item in group))
        self._sources = _sequences(sources, numbers)
        self._hypotheses = _sequences(hypotheses, numbers)
        self._source_of = np.repeat(np.arange(len(group)), [len(item.hypotheses) for item in group])
        self.words = list(numbers)
        self._forward = build_prefix_tree(self._hypotheses, self._source_of, len(group))

    def count_distinct(self) -> int:
        """Return the number of distinct pairs of a list and a hypothesis."""
        return len(self._forward.find_distinct()[0])

    def plan(self, *, reverse: bool) -> tuple[PrefixTree, Sequences]:
        """Return the tree of what is predicted, a sequence a hypothesis, and what its roots read.

        A reverse model predicts the source after each distinct hypothesis: there is little to
        share, but the encoder's work for identical ones.
        """
        if not reverse:
            return self._forward, self._sources
        firsts, inverse = self._forward.find_distinct()
        predicted = self._sources.select(self._source_of)
        return (
            build_prefix_tree(predicted, inverse, len(firsts)),
            self._hypotheses.select(firsts),
        )


def _sequences(sentences: Sequence[tuple[str, ...]], numbers: defaultdict[str, int]) -> Sequences:
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    total = int(lengths.sum())
    words = chain.from_iterable(sentences)
    ids = np.fromiter(map(numbers.__getitem__, words), np.int64, total)
    return Sequences(ids, lengths)
