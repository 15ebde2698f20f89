"""Sections about a phrase table: the choice of its pairs, and networks' scores and samples of them.

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
from phrasescore.report.blocks import Cell, Points, Section, Table, shown

# Source phrases with fewer targets are not compared.
MIN_TARGETS = 3
# Number of frequent source phrases to choose from; phrases that contain each other count once.
_CANDIDATES = 200
# Pairs listed at each end of the differences between network and table.
TOP_PAIRS = 25
# Targets listed per source phrase: the preferred ones, and the samples.
TOP_TARGETS, TOP_SAMPLES = 3, 5
# Targets that a network draws per source phrase.
SAMPLES = 50
# Moses' floor of a logarithm (LOWEST_SCORE in moses/TypeDef.h), for probabilities of 0.
_LOWEST = -100.0

_Item = TypeVar("_Item")

_SCORES_LEAD = """\
Each point is a phrase pair, drawn at random from the whole table. Both scores are natural \
logarithms of p(target | source), or of p(source | target) for a network that predicts the source; \
on the diagonal they agree. A network spreads its probability over all possible texts, the table \
over the targets that it has, so most points are below the diagonal.

Pairs that were extracted once stand in columns: the table's p is 1/n if the source phrase was \
extracted n times. The network was trained without these counts, on purpose."""


_PREFERENCES_LEAD = """\
For some source phrases, the targets to which the table gives the highest p(target | source), best \
first, beside the targets to which a network gives the highest p, with their p. The network \
chooses among the targets that the table has. Its probabilities are of a whole phrase with its \
</s>, and need not sum to one over the table's targets.

The table counts occurrences, so it knows much about frequent phrases. It knows next to nothing \
about rare phrases, and the best targets of these are often the result of wrong word alignments."""

_SAMPLES_LEAD = """\
For the source phrases of the tables above, targets that the network draws word by word, each word \
with its probability. Of 50 draws, the five targets with the highest log-probabilities are shown, \
with the number of times that each was drawn, ln p, and "new" if the table lacks the target. Draws \
that are still unfinished after twice the words of the source and 10 are left out."""


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

    # Uniform samples of all pairs, in the order of the table, and of the long source phrases.
    pairs: list[TablePair]
    phrases: list[tuple[str, ...]]
    # Long source phrases with `MIN_TARGETS` or more: the most frequent ones, and a sample of the
    # phrases whose pairs were all extracted once.
    frequent: list[SourcePhrase]
    rare: list[SourcePhrase]
    # Number of pairs and of long source phrases in the table.
    num_pairs: int
    num_long: int


class Reservoir(Generic[_Item]):
    """A uniform sample of ``size`` items of a stream (Vitter, 1985, algorithm R)."""

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
    """Choose pairs and source phrases from a table, whose lines are read once.

    Lines of the same source phrase should be adjacent, as Moses writes them.

    :param num_pairs: for the scatter plot.
    :param num_phrases: number of source phrases in the map.
    :param num_sources: number of frequent and of rare source phrases.
    :param long: minimum number of words of a long source phrase.
    """
    pairs: Reservoir[TablePair] = Reservoir(num_pairs, f"{seed} pairs")
    phrases: Reservoir[tuple[str, ...]] = Reservoir(num_phrases, f"{seed} phrases")
    rare: Reservoir[SourcePhrase] = Reservoir(num_sources, f"{seed} rare")

    def candidates() -> Iterator[SourcePhrase]:
        for source, lines in groupby(table, key=lambda line: line.pair.source):
            targets = list(lines)
            for line in targets:
                pairs.add(line)
            if len(source) < long:
                continue
            phrases.add(source)
            if len(targets) >= MIN_TARGETS:
                phrase = SourcePhrase(source, targets)
                if all(target.times == 1 for target in targets):
                    rare.add(phrase)
                yield phrase

    # On equal frequency, shorter phrases come first: longer ones may contain them.
    frequent = heapq.nlargest(
        _CANDIDATES, candidates(), key=lambda phrase: (phrase.times, -len(phrase.source))
    )
    return TableChoice(
        pairs.items(),
        list(dict.fromkeys(phrases.items())),
        _distinct(frequent)[:num_sources],
        rare.items(),
        pairs.seen,
        phrases.seen,
    )


def _distinct(phrases: list[SourcePhrase]) -> list[SourcePhrase]:
    """Return the phrases that neither contain an earlier one nor are contained in it."""
    kept: dict[str, SourcePhrase] = {}
    for phrase in phrases:
        words = f" {' '.join(phrase.source)} "
        if not any(other in words or words in other for other in kept):
            kept[words] = phrase
    return list(kept.values())


def score_section(
    pairs: Sequence[TablePair],
    models: Sequence[tuple[str, Sequence[float], int]],
    num_pairs: int,
) -> Section:
    """Return a plot per model, and tables of the pairs with the largest differences.

    :param models: the name of each model, its log-probabilities of the pairs, and the index of the
        table's score of the same probability, from 0.
    :param num_pairs: of the whole table.
    """
    labels = tuple(f"{shown(pair.source)} → {shown(pair.target)}" for pair, _, _ in pairs)
    groups = tuple(_group(pair.times) for pair in pairs)
    blocks: list[Points | Table] = []
    for number, (name, scores, column) in enumerate(models, start=1):
        probabilities = [pair.scores[column] for pair in pairs]
        table = [max(math.log(p), _LOWEST) if p > 0 else _LOWEST for p in probabilities]
        caption = f"{len(pairs):,} of {num_pairs:,} pairs. {_correlations(table, scores)}"
        blocks.append(
            Points(
                name=f"scores-{number}",
                title=f"Scores of {name} and of the table",
                x_label=f"ln p of the table (score {column + 1})",
                y_label=f"ln p of {name}",
                x=tuple(table),
                y=tuple(scores),
                labels=labels,
                groups=groups,
                equal=True,
                caption=caption,
            )
        )
        blocks += _disagreements(number, name, pairs, table, scores)
    return Section("scores", "Network scores against table scores", _SCORES_LEAD, tuple(blocks))


def _group(times: float) -> str:
    if times >= 10:
        return "extracted 10 times or more"
    return "extracted 2 to 9 times" if times >= 2 else "extracted once"


def _correlations(table: Sequence[float], scores: Sequence[float]) -> str:
    """Return a sentence with both correlation coefficients; empty if they are undefined."""
    if len(table) < 3 or len(set(table)) == 1 or len(set(scores)) == 1:
        return ""
    pearson = np.corrcoef(table, scores)[0, 1]
    spearman = np.corrcoef(rankdata(table), rankdata(scores))[0, 1]
    return f"Correlation {pearson:.2f} (Pearson), {spearman:.2f} of their ranks (Spearman)."


def _disagreements(
    number: int,
    name: str,
    pairs: Sequence[TablePair],
    table: Sequence[float],
    scores: Sequence[float],
) -> list[Table]:
    """Return tables of the pairs with the largest positive and negative differences."""
    differences = np.subtract(scores, table)
    order = np.argsort(-differences, kind="stable").tolist()
    ends = {
        "above": [index for index in order if differences[index] > 0][:TOP_PAIRS],
        "below": [index for index in reversed(order) if differences[index] < 0][:TOP_PAIRS],
    }
    columns = (
        *("source phrase", "target phrase", "times extracted"),
        *("table", "network", "difference"),
    )
    tables = []
    for end, indexes in ends.items():
        rows: list[tuple[Cell, ...]] = []
        for index in indexes:
            pair, _, times = pairs[index]
            phrases = (shown(pair.source), shown(pair.target), _count(times))
            rows.append((*phrases, table[index], scores[index], float(differences[index])))
        caption = (
            f"At most {TOP_PAIRS} of the pairs above. The network's ln p minus the table's is the "
            "difference; nothing is divided by length."
        )
        if rows:
            title = f"Where {name} is farthest {end} the table"
            tables.append(Table(f"scores-{number}-{end}", title, columns, tuple(rows), caption))
    return tables


def preference_section(
    choice: TableChoice, models: Mapping[str, Mapping[PhrasePair, float]], column: int, long: int
) -> Section:
    """Return a table of the frequent source phrases, and a table of the rare ones.

    :param models: each model's log p(target | source), with ``</s>``, of all their targets.
    :param column: index of the table's p(target | source), from 0.
    :param long: minimum number of words of a source phrase.
    """
    kind = f"with {long} words or more and {MIN_TARGETS} targets or more"
    captions = {
        "frequent": f"The most frequent phrases {kind}; one of phrases that contain each other.",
        "rare": f"Drawn from the phrases {kind} whose pairs were all extracted once.",
    }
    columns = ["source phrase", "times extracted", "targets", "the table prefers"]
    columns += [f"{name} prefers" for name in models]
    blocks = []
    for name, sources in _groups(choice):
        rows: list[tuple[Cell, ...]] = []
        for source in sources:
            by_table = {target.pair: target.scores[column] for target in source.targets}
            cells = [_best(by_table)]
            for log_probs in models.values():
                cells.append(_best({pair: math.exp(log_probs[pair]) for pair in by_table}))
            counts = (_count(source.times), len(source.targets))
            rows.append((shown(source.source), *counts, *cells))
        title = f"Long, {name} source phrases"
        blocks.append(
            Table(f"preferences-{name}", title, tuple(columns), tuple(rows), captions[name])
        )
    return Section(
        "preferences", "What the table and the network prefer", _PREFERENCES_LEAD, tuple(blocks)
    )


def sample_section(
    choice: TableChoice, models: Mapping[str, Sequence[Sequence[CountedSample]]]
) -> Section:
    """Return a table of samples for the frequent source phrases, and one for the rare ones.

    :param models: by name, the distinct targets that the model drew for each frequent and then each
        rare source phrase, sorted by falling log-probability.
    """
    drawn = [iter(samples) for samples in models.values()]
    columns = ("source phrase", *(f"{name} draws" for name in models))
    blocks = []
    for name, sources in _groups(choice):
        rows: list[tuple[Cell, ...]] = []
        for source in sources:
            known = {target.pair.target for target in source.targets}
            best = [next(samples)[:TOP_SAMPLES] for samples in drawn]
            cells = ["\n".join(_describe(sample, known) for sample in samples) for samples in best]
            rows.append((shown(source.source), *cells))
        title = f"Samples for long, {name} source phrases"
        blocks.append(Table(f"samples-{name}", title, columns, tuple(rows)))
    return Section("samples", "What the network draws", _SAMPLES_LEAD, tuple(blocks))


def _groups(choice: TableChoice) -> Iterator[tuple[str, Sequence[SourcePhrase]]]:
    for name, sources in (("frequent", choice.frequent), ("rare", choice.rare)):
        if sources:
            yield name, sources


def _best(probabilities: Mapping[PhrasePair, float]) -> str:
    """Return the best targets, one per line; on ties in the order of the table."""
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
