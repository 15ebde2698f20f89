"""What a report shows of a phrase table, chosen in one pass that holds no more than is chosen."""

import heapq
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, NamedTuple, TypeVar

from phrasescore.records import PhrasePair

# Of a source phrase whose targets are compared, as in the demo: fewer leave little to choose.
MIN_TARGETS = 3
# Frequent sources that are held: of those that hold one another only one is shown.
_CANDIDATES = 200

_Item = TypeVar("_Item")


class TablePair(NamedTuple):
    """A line of a phrase table."""

    pair: PhrasePair
    # As they stand: probabilities.
    scores: tuple[float, ...]
    # How often the pair was extracted.
    times: float


class SourcePhrase(NamedTuple):
    """A source phrase with all its targets, in the table's order."""

    source: tuple[str, ...]
    targets: list[TablePair]

    @property
    def times(self) -> float:
        """How often the phrase was extracted."""
        return sum(target.times for target in self.targets)


class Limits(NamedTuple):
    """How much is chosen."""

    # For the scatter plot.
    pairs: int
    # For the map of phrases.
    phrases: int
    # For each of the tables of preferences.
    sources: int
    # Words of a source phrase that counts as long.
    long: int


@dataclass(frozen=True)
class TableChoice:
    """What was chosen of a table, and how much of it there is."""

    # Drawn from all, each with the same chance, in the table's order.
    pairs: list[TablePair]
    # Long source phrases, drawn likewise.
    phrases: list[tuple[str, ...]]
    # Long source phrases of 3 targets or more: the most frequent ones, and some of those whose
    # pairs were all extracted once.
    frequent: list[SourcePhrase]
    rare: list[SourcePhrase]
    num_pairs: int
    num_long: int


class Reservoir(Generic[_Item]):
    """Some of a stream's items, each with the same chance (Vitter, 1985, algorithm R).

    :param size: items that are kept.
    :param seed: of this reservoir alone.
    """

    def __init__(self, size: int, seed: str) -> None:
        self._size = size
        self._numbers = random.Random(seed)
        self._kept: list[tuple[int, _Item]] = []
        # Items so far.
        self.seen = 0

    def add(self, item: _Item) -> None:
        """Take the next item of the stream into account."""
        place = self.seen
        self.seen += 1
        if place < self._size:
            self._kept.append((place, item))
        elif self._size:
            drawn = int(self._numbers.random() * self.seen)
            if drawn < self._size:
                self._kept[drawn] = (place, item)

    def items(self) -> list[_Item]:
        """Return what was kept, in the order of the stream."""
        return [item for _, item in sorted(self._kept, key=lambda entry: entry[0])]


def choose(table: Iterable[TablePair], limits: Limits, seed: int) -> TableChoice:
    """Choose from a table whose lines of one source stand together, as Moses writes them.

    Where they do not, what stands together is a source phrase of its own.

    Cho et al. (2014), section 4.3, look at long source phrases, of more than 3 words, that are
    frequent, and at such that are rare.
    """
    pairs: Reservoir[TablePair] = Reservoir(limits.pairs, f"{seed} pairs")
    phrases: Reservoir[tuple[str, ...]] = Reservoir(limits.phrases, f"{seed} phrases")
    rare: Reservoir[SourcePhrase] = Reservoir(limits.sources, f"{seed} rare")
    frequent: list[tuple[float, int, int, SourcePhrase]] = []
    for place, found in enumerate(_sources(table, pairs, limits.long)):
        phrases.add(found.source)
        if len(found.targets) < MIN_TARGETS:
            continue
        if all(target.times == 1 for target in found.targets):
            rare.add(found)
        # Of equally frequent ones the shorter, which the longer ones hold; then the first.
        entry = (found.times, -len(found.source), -place, found)
        if len(frequent) < _CANDIDATES:
            heapq.heappush(frequent, entry)
        else:
            heapq.heappushpop(frequent, entry)
    return TableChoice(
        pairs.items(),
        list(dict.fromkeys(phrases.items())),
        _distinct([entry[-1] for entry in sorted(frequent, reverse=True)])[: limits.sources],
        rare.items(),
        pairs.seen,
        phrases.seen,
    )


def _sources(
    table: Iterable[TablePair], pairs: Reservoir[TablePair], long: int
) -> Iterator[SourcePhrase]:
    """Yield the long source phrases; show every line to the reservoir of pairs."""
    for source, lines in groupby(table, key=lambda line: line.pair.source):
        if len(source) < long:
            for line in lines:
                pairs.add(line)
            continue
        targets = list(lines)
        for line in targets:
            pairs.add(line)
        yield SourcePhrase(source, targets)


def _distinct(found: list[SourcePhrase]) -> list[SourcePhrase]:
    """Leave out a phrase that holds an earlier one or is held by it: it would say the same."""
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
