"""Sections about a phrase table: selected pairs, with scores and samples from networks.

Cho et al. (2014), section 4.3, figure 3 and tables 2 and 3.
"""

import heapq
import math
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from scipy.stats import rankdata

from phrasescore.generation.sampling import CountedSample
from phrasescore.records import PhrasePair
from phrasescore.report import SEED
from phrasescore.report.blocks import Cell, Points, Section, Table, shown

POINTS = 2000  # random phrase pairs in the plot of scores
MAP_POINTS = 1000  # maximum number of words, phrases or sentences in a map
LONG = 4  # number of words from which source phrases are listed and mapped
MIN_TARGETS = 3  # source phrases with fewer targets are not compared
SOURCES = 10  # frequent and rare source phrases whose targets are listed, as in Cho et al. (2014)
_CANDIDATES = 200  # frequent source phrases to choose from; overlapping ones count once
# Number of targets to list per source phrase: preferred targets, and samples.
TOP_TARGETS, TOP_SAMPLES = 3, 5
SAMPLES = 50  # number of targets to draw from a network per source phrase
_LOWEST = -100.0  # the value at which Moses floors logarithms (LOWEST_SCORE in moses/TypeDef.h)

_Item = TypeVar("_Item")

_SCORES_LEAD = """\
Each point is a phrase pair, drawn at random from the whole table. Both scores are natural \
logarithms of p(target | source), or of p(source | target) for a network that predicts the source; \
on the diagonal they agree. A network spreads its probability over all possible texts, the table \
only over the targets that it has, so most points are below the diagonal.

Pairs that were extracted once form columns: the table's p is 1/n if the source phrase was \
extracted n times. The network was deliberately trained without these counts."""


_PREFERENCES_LEAD = """\
For each selected source phrase, the targets with the highest p(target | source) in the table, \
best first, next to the targets with the highest p according to a network. The network chooses \
among the targets in the table. Its probabilities are for a whole phrase including </s>, and need \
not sum to one over the table's targets.

The table counts occurrences, so it is reliable for frequent phrases. For rare phrases it has \
little evidence, and their best targets often result from wrong word alignments.

The network also draws targets word by word. Of 50 samples, the five targets with the highest \
log-probabilities are shown, with the number of times that each was drawn, ln p, and "new" if the \
table does not have the target. Samples without </s> after twice the number of source words plus \
10 are left out."""


class TablePair(NamedTuple):
    """A phrase pair in a table, with its scores and count."""

    pair: PhrasePair
    scores: tuple[float, ...]  # probabilities, in the order of the table
    times: float  # how often the pair was extracted; some tables have fractional counts


class SourcePhrase(NamedTuple):
    """A source phrase with all its targets, in the order of the table."""

    source: tuple[str, ...]
    targets: list[TablePair]

    @property
    def times(self) -> float:
        """How often the phrase was extracted: the sum over its targets."""
        return sum(target.times for target in self.targets)


@dataclass(frozen=True)
class TableChoice:
    """The selected parts of a table, and the size of the table."""

    # Uniform samples of all pairs, in table order, and of the long source phrases.
    pairs: list[TablePair]
    phrases: list[tuple[str, ...]]
    # Long source phrases with at least `MIN_TARGETS` targets: the most frequent ones, and a sample
    # of the phrases whose pairs were all extracted once.
    frequent: list[SourcePhrase]
    rare: list[SourcePhrase]
    # Number of pairs and of long source phrases in the table.
    num_pairs: int
    num_long: int


class Reservoir(Generic[_Item]):
    """A uniform sample of ``size`` items from a stream (Vitter, 1985, algorithm R)."""

    def __init__(self, size: int, seed: str) -> None:
        self._size = size
        self._numbers = random.Random(seed)
        self._kept: list[tuple[int, _Item]] = []
        # Number of items added so far.
        self.seen = 0

    def add(self, item: _Item) -> None:
        """Add the next item of the stream to the sample, or drop it."""
        index = self.seen
        self.seen += 1
        if index < self._size:
            self._kept.append((index, item))
        elif self._size:
            drawn = int(self._numbers.random() * self.seen)
            if drawn < self._size:
                self._kept[drawn] = (index, item)

    def items(self) -> list[_Item]:
        """Return the sample in stream order."""
        return [item for _, item in sorted(self._kept, key=lambda entry: entry[0])]


def choose_from_table(table: Iterable[TablePair]) -> TableChoice:
    """Choose pairs and source phrases from a table, in one pass over its lines."""
    pairs: Reservoir[TablePair] = Reservoir(POINTS, f"{SEED} pairs")
    phrases: Reservoir[tuple[str, ...]] = Reservoir(MAP_POINTS, f"{SEED} phrases")
    rare: Reservoir[SourcePhrase] = Reservoir(SOURCES, f"{SEED} rare")

    def candidates() -> Iterator[SourcePhrase]:
        for source, lines in groupby(table, key=lambda line: line.pair.source):
            targets = list(lines)
            for line in targets:
                pairs.add(line)
            if len(source) < LONG:
                continue
            phrases.add(source)
            if len(targets) >= MIN_TARGETS:
                phrase = SourcePhrase(source, targets)
                if all(target.times == 1 for target in targets):
                    rare.add(phrase)
                yield phrase

    # On equal frequency, shorter phrases come first, because longer ones may contain them.
    frequent = heapq.nlargest(
        _CANDIDATES, candidates(), key=lambda phrase: (phrase.times, -len(phrase.source))
    )
    chosen = list(dict.fromkeys(phrases.items()))
    best = _distinct(frequent)[:SOURCES]
    return TableChoice(pairs.items(), chosen, best, rare.items(), pairs.seen, phrases.seen)


def _distinct(phrases: list[SourcePhrase]) -> list[SourcePhrase]:
    """Drop phrases that contain an earlier phrase or are contained in one."""
    kept: dict[str, SourcePhrase] = {}
    for phrase in phrases:
        words = f" {' '.join(phrase.source)} "
        if not any(other in words or words in other for other in kept):
            kept[words] = phrase
    return list(kept.values())


def score_section(
    pairs: Sequence[TablePair], models: Sequence[tuple[str, Sequence[float], int]], num_pairs: int
) -> Section:
    """Return a plot per model.

    :param models: for each model, its name, its log-probabilities for the pairs, and the 0-based
        index of the table score for the same probability.
    """
    labels = tuple(f"{shown(pair.source)} → {shown(pair.target)}" for pair, _, _ in pairs)
    groups = tuple(_group(pair.times) for pair in pairs)
    blocks = []
    for number, (name, scores, column) in enumerate(models, start=1):
        probabilities = [pair.scores[column] for pair in pairs]
        table = [max(math.log(p), _LOWEST) if p > 0 else _LOWEST for p in probabilities]
        caption = (
            f"Points above the diagonal are pairs that {name} finds more probable than the table. "
            f"{len(pairs):,} of {num_pairs:,} pairs. {_correlations(table, scores)}"
        )
        blocks.append(
            Points(
                name=f"scores-{number}",
                title=f"Scores from {name} and from the table",
                x_label=f"ln p of the table (score {column + 1})",
                y_label=f"ln p of {name}",
                x=tuple(table),
                y=tuple(scores),
                labels=labels,
                groups=groups,
                caption=caption,
            )
        )
    return Section("scores", "Network scores against table scores", _SCORES_LEAD, tuple(blocks))


def _group(times: float) -> str:
    if times >= 10:
        return "extracted 10 times or more"
    return "extracted 2 to 9 times" if times >= 2 else "extracted once"


def _correlations(table: Sequence[float], scores: Sequence[float]) -> str:
    """Describe both correlation coefficients in a sentence; empty if they are undefined."""
    if len(table) < 3 or len(set(table)) == 1 or len(set(scores)) == 1:
        return ""
    pearson = np.corrcoef(table, scores)[0, 1]
    spearman = np.corrcoef(rankdata(table), rankdata(scores))[0, 1]
    return f"Correlation {pearson:.2f} (Pearson), {spearman:.2f} of their ranks (Spearman)."


def preference_section(
    choice: TableChoice,
    models: Mapping[str, Mapping[PhrasePair, float]],
    column: int,
    drawn: Mapping[str, Sequence[Sequence[CountedSample]]],
) -> Section:
    """Return tables with the preferred targets for frequent and for rare source phrases.

    :param models: each model's log p(target | source), including ``</s>``, for all their targets.
    :param column: 0-based index of p(target | source) among the table's scores.
    :param drawn: each model's samples for each source phrase, the frequent ones first.
    """
    samples = [iter(of_model) for of_model in drawn.values()]
    kind = f"with {LONG} words or more and {MIN_TARGETS} targets or more"
    captions = {
        "frequent": f"The most frequent phrases {kind}; one of phrases that contain each other.",
        "rare": f"Drawn from the phrases {kind} whose pairs were all extracted once.",
    }
    columns = ["source phrase", "times extracted", "targets", "the table prefers"]
    columns += [f"{name} prefers" for name in models]
    columns += [f"{name} draws" for name in drawn]
    blocks = []
    for name, sources in _groups(choice):
        rows: list[tuple[Cell, ...]] = []
        for source in sources:
            by_table = {target.pair: target.scores[column] for target in source.targets}
            cells = [_best(by_table)]
            for log_probs in models.values():
                cells.append(_best({pair: math.exp(log_probs[pair]) for pair in by_table}))
            known = {target.pair.target for target in source.targets}
            for of_model in samples:
                best = next(of_model)[:TOP_SAMPLES]
                cells.append("\n".join(_describe(sample, known) for sample in best))
            counts = (_count(source.times), len(source.targets))
            rows.append((shown(source.source), *counts, *cells))
        title = f"Long, {name} source phrases"
        blocks.append(
            Table(f"preferences-{name}", title, tuple(columns), tuple(rows), captions[name])
        )
    return Section(
        "preferences", "What the table and the network prefer", _PREFERENCES_LEAD, tuple(blocks)
    )


def _groups(choice: TableChoice) -> Iterator[tuple[str, Sequence[SourcePhrase]]]:
    for name, sources in (("frequent", choice.frequent), ("rare", choice.rare)):
        if sources:
            yield name, sources


def _best(probabilities: Mapping[PhrasePair, float]) -> str:
    """Format the best targets, one per line; ties are in the order of the table."""
    best = sorted(probabilities.items(), key=lambda entry: -entry[1])[:TOP_TARGETS]
    shares = (f"{p:.3f}" if p >= 0.0005 else "< 0.001" for _, p in best)
    targets = (shown(pair.target) for pair, _ in best)
    return "\n".join(f"{target} ({share})" for target, share in zip(targets, shares, strict=True))


def _describe(sample: CountedSample, known: Collection[tuple[str, ...]]) -> str:
    target = sample.target
    new = "" if target.words in known else ", new"
    return f"{shown(target.words)} (× {sample.times}, {target.log_prob:.2f}{new})"


def _count(number: float) -> int | float:
    return int(number) if number.is_integer() else number
