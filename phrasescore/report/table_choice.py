"""The lines of a phrase table that a report shows, chosen in one pass over a stream."""

import heapq
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, NamedTuple, TypeVar

from phrasescore.records import PhrasePair

# The least number of targets of a source phrase whose targets are compared.
MIN_TARGETS = 3
# Frequent source phrases that are kept: of those that contain one another only one is shown.
_CANDIDATES = 200

_Item = TypeVar("_Item")


class TablePair(NamedTuple):
    """A line of a phrase table."""

    pair: PhrasePair
    # Probabilities, in the table's order.
    scores: tuple[float, ...]
    # How often the pair was extracted; a table may have fractional counts.
    times: float


class SourcePhrase(NamedTuple):
    """A source phrase with all its targets, in the table's order."""

    source: tuple[str, ...]
    targets: list[TablePair]

    @property
    def times(self) -> float:
        """How often the phrase was extracted."""
        return sum(target.times for target in self.targets)


@dataclass(frozen=True)
class TableChoice:
    """The chosen parts of a table, and the size of the table."""

    # Drawn from all pairs with equal chances, in the table's order.
    pairs: list[TablePair]
    # Drawn likewise from the long source phrases.
    phrases: list[tuple[str, ...]]
    # Long source phrases of 3 targets or more: the most frequent ones, and a sample of those whose
    # pairs were all extracted once.
    frequent: list[SourcePhrase]
    rare: list[SourcePhrase]
    num_pairs: int
    num_long: int


class Reservoir(Generic[_Item]):
    """A sample of a stream in which all items have equal chances (Vitter, 1985, algorithm R).

    :param size: number of items that are kept.
    :param seed: start of the random choices of this reservoir alone.
    """

    def __init__(self, size: int, seed: str) -> None:
        self._size = size
        self._numbers = random.Random(seed)
        self._kept: list[tuple[int, _Item]] = []
        # Number of items added so far.
        self.seen = 0

    def add(self, item: _Item) -> None:
        """Keep or drop the next item of the stream."""
        place = self.seen
        self.seen += 1
        if place < self._size:
            self._kept.append((place, item))
        elif self._size:
            drawn = int(self._numbers.random() * self.seen)
            if drawn < self._size:
                self._kept[drawn] = (place, item)

    def items(self) -> list[_Item]:
        """Return the items kept, in the order of the stream."""
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
    """Choose pairs and source phrases from a table, which is read once and not held.

    Lines of one source phrase are expected to be adjacent, as Moses writes them; each run of them
    counts as a source phrase of its own. Cho et al. (2014), section 4.3, show long source phrases,
    of more than 3 words, both frequent and rare ones.

    :param num_pairs: of the scatter plot.
    :param num_phrases: source phrases of the map of phrases.
    :param num_sources: source phrases of each of the two tables of preferences.
    :param long: the least number of words of a long source phrase.
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

    # Of equally frequent phrases the shorter, which the longer ones contain; then the first.
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
    """Yield the long source phrases, and add every line to the reservoir of pairs."""
    for source, lines in groupby(table, key=lambda line: line.pair.source):
        targets = list(lines)
        for line in targets:
            pairs.add(line)
        if len(source) >= long:
            yield SourcePhrase(source, targets)


def _distinct(found: list[SourcePhrase]) -> list[SourcePhrase]:
    """Return the phrases without those that contain an earlier one or are contained in it."""
    kept: list[SourcePhrase] = []
    for phrase in found:
        words = _padded(phrase.source)
        if not any(
            _padded(other.source) in words or words in _padded(other.source) for other in kept
        ):
            kept.append(phrase)
    return kept


def _padded(words: tuple[str, ...]) -> str:
    return f" {' '.join(words)} "
