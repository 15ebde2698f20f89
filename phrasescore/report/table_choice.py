"""The choice of the lines of a phrase table that a report shows, in one pass."""

import heapq
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, NamedTuple, TypeVar

from phrasescore.records import PhrasePair

# Source phrases with fewer targets are not compared.
MIN_TARGETS = 3
# Frequent source phrases that are kept; of phrases that contain each other, one is shown.
_CANDIDATES = 200

_Item = TypeVar("_Item")


class TablePair(NamedTuple):
    """A line of a phrase table."""

    pair: PhrasePair
    # Probabilities, in the order of the table.
    scores: tuple[float, ...]
    # Number of times that the pair was extracted; some tables have fractional counts.
    times: float


class SourcePhrase(NamedTuple):
    """A source phrase with all its targets, in the order of the table."""

    source: tuple[str, ...]
    targets: list[TablePair]

    @property
    def times(self) -> float:
        """Number of times that the phrase was extracted."""
        return sum(target.times for target in self.targets)


@dataclass(frozen=True)
class TableChoice:
    """The chosen parts of a table, and the size of the table."""

    # A uniform sample of all pairs, in the order of the table.
    pairs: list[TablePair]
    # A uniform sample of the long source phrases.
    phrases: list[tuple[str, ...]]
    # Long source phrases of 3 targets or more: the most frequent ones, and a sample of the ones
    # whose pairs were all extracted once.
    frequent: list[SourcePhrase]
    rare: list[SourcePhrase]
    # Number of pairs and of long source phrases of the table.
    num_pairs: int
    num_long: int


class Reservoir(Generic[_Item]):
    """A uniform sample of a stream (Vitter, 1985, algorithm R).

    :param size: number of items in the sample.
    :param seed: seed of this sample.
    """

    def __init__(self, size: int, seed: str) -> None:
        self._size = size
        self._numbers = random.Random(seed)
        self._kept: list[tuple[int, _Item]] = []
        # Number of items added so far.
        self.seen = 0

    def add(self, item: _Item) -> None:
        """Keep or drop the next item of the stream."""
        index = self.seen
        self.seen += 1
        if index < self._size:
            self._kept.append((index, item))
        elif self._size:
            drawn = int(self._numbers.random() * self.seen)
            if drawn < self._size:
                self._kept[drawn] = (index, item)

    def items(self) -> list[_Item]:
        """Return the sample, in the order of the stream."""
        return [item for _, item in sorted(self._kept, key=lambda entry: entry[0])]


def choose_from_table(
    table: Iterable[TablePair],
    *,
    num_pairs: int,
    num_phrases: int,
    num_sources: int,
    long: int,
    seed: int,
) -> TableChoice:
    """Choose pairs and source phrases from a table, which is read once as a stream.

    Lines of the same source phrase should be adjacent, as Moses writes them. Cho et al. (2014),
    section 4.3, show long source phrases, both frequent and rare ones.

    :param num_pairs: number of pairs of the scatter plot.
    :param num_phrases: number of source phrases of the map of phrases.
    :param num_sources: number of frequent and of rare source phrases.
    :param long: smallest number of words of a long source phrase.
    """
    pairs: Reservoir[TablePair] = Reservoir(num_pairs, f"{seed} pairs")
    phrases: Reservoir[tuple[str, ...]] = Reservoir(num_phrases, f"{seed} phrases")
    rare: Reservoir[SourcePhrase] = Reservoir(num_sources, f"{seed} rare")

    def candidates() -> Iterator[SourcePhrase]:
        for found in _sources(table, pairs, long):
            phrases.add(found.source)
            if len(found.targets) >= MIN_TARGETS:
                if all(target.times == 1 for target in found.targets):
                    rare.add(found)
                yield found

    # Of equally frequent phrases, shorter ones come first: longer ones may contain them.
    frequent = heapq.nlargest(
        _CANDIDATES, candidates(), key=lambda found: (found.times, -len(found.source))
    )
    return TableChoice(
        pairs.items(),
        list(dict.fromkeys(phrases.items())),
        _distinct(frequent)[:num_sources],
        rare.items(),
        pairs.seen,
        phrases.seen,
    )


def _sources(
    table: Iterable[TablePair], pairs: Reservoir[TablePair], long: int
) -> Iterator[SourcePhrase]:
    """Yield the long source phrases, and add every line to the sample of pairs."""
    for source, lines in groupby(table, key=lambda line: line.pair.source):
        targets = list(lines)
        for line in targets:
            pairs.add(line)
        if len(source) >= long:
            yield SourcePhrase(source, targets)


def _distinct(phrases: list[SourcePhrase]) -> list[SourcePhrase]:
    """Return the phrases that neither contain an earlier one nor are contained in it."""
    kept: dict[str, SourcePhrase] = {}
    for phrase in phrases:
        words = f" {' '.join(phrase.source)} "
        if not any(other in words or words in other for other in kept):
            kept[words] = phrase
    return list(kept.values())
