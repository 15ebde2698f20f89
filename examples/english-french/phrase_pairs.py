"""Phrase pairs of an aligned corpus, counted and scored as Moses does.

What is extracted, counted, smoothed, rounded and sorted follows Moses' phrase-extract
(extract-main.cpp, score-main.cpp, consolidate-main.cpp, lexical-reordering). nltk's
phrase_extraction is not used: it cuts a target side that is too long instead of leaving the pair
out, and such a cut pair is not consistent with the links.
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_LENGTH = 7
# What Moses adds to each orientation count (train-model.perl: --reordering-smooth 0.5).
SMOOTHING = 0.5
ORIENTATIONS = ("mono", "swap", "other")
Links = frozenset[tuple[int, int]]


class SentencePair(NamedTuple):
    """Source words, target words and links (source position, target position)."""

    source: list[str]
    target: list[str]
    links: Links


@dataclass
class PairCounts:
    """What was seen of one phrase pair."""

    alignments: Counter[Links] = field(default_factory=Counter)
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """Return how often the pair was extracted."""
        return self.alignments.total()


def parse_links(line: str) -> Links:
    """Return the links of a line such as "0-0 1-2"; an empty line has none."""
    points = (point.partition("-") for point in line.split())
    return frozenset((int(left), int(right)) for left, _, right in points)


def float32(value: float) -> float:
    """Round to the 32-bit floats in which Moses divides counts and prints scores."""
    result: float = struct.unpack("f", struct.pack("f", value))[0]
    return result


def number(value: float) -> str:
    """Format as C++ streams do by default: six significant digits."""
    return f"{value:.6g}"


def orientation(pair: SentencePair, left: tuple[int, int], right: tuple[int, int]) -> str:
    """Return mono, swap or other from the link wanted for each (wbe, msd)."""

    def aligned(point: tuple[int, int]) -> bool:
        if point in ((-1, -1), (len(pair.source), len(pair.target))):
            return True
        return point in pair.links

    monotone, swapped = aligned(left), aligned(right)
    if monotone and not swapped:
        return "mono"
    return "swap" if swapped and not monotone else "other"


def consistent_spans(pair: SentencePair) -> Iterator[tuple[int, int, int, int]]:
    """Yield (source start, source end, target start, target end), ends excluded.

    A pair is consistent if it has a link and no link leads out of it. Words without links at the
    edges of the source side make further pairs; at those of the target side the loop finds them.
    """
    linked = {i for i, _ in pair.links}
    for top in range(len(pair.target)):
        for bottom in range(top + 1, min(top + MAX_LENGTH, len(pair.target)) + 1):
            sources = [i for i, j in pair.links if top <= j < bottom]
            if not sources:
                continue
            low, high = min(sources), max(sources) + 1
            if any(low <= i < high and not top <= j < bottom for i, j in pair.links):
                continue
            start = low
            while start >= 0 and (start == low or start not in linked):
                end = high
                while end <= len(pair.source) and (end == high or end - 1 not in linked):
                    if end - start <= MAX_LENGTH:
                        yield start, end, top, bottom
                    end += 1
                start -= 1


def extract(corpus: Sequence[SentencePair]) -> dict[tuple[str, str], PairCounts]:
    """Return all phrase pairs of at most ``MAX_LENGTH`` words a side, with their counts."""
    table: dict[tuple[str, str], PairCounts] = {}
    for pair in corpus:
        for start, end, target_start, target_end in consistent_spans(pair):
            source = " ".join(pair.source[start:end])
            target = " ".join(pair.target[target_start:target_end])
            counts = table.setdefault((source, target), PairCounts())
            inside = frozenset(
                (i - start, j - target_start)
                for i, j in pair.links
                if start <= i < end and target_start <= j < target_end
            )
            counts.alignments[inside] += 1
            top, bottom = target_start - 1, target_end
            counts.before[orientation(pair, (start - 1, top), (end, top))] += 1
            counts.after[orientation(pair, (end, bottom), (start - 1, bottom))] += 1
    return table


Lexicon = dict[tuple[str, str], float]


def lexical_probabilities(corpus: Sequence[SentencePair]) -> tuple[Lexicon, Lexicon]:
    """Return p(target word | source word) and p(source word | target word).

    A word without links is linked to NULL. The keys are (source word, target word), and the
    values have the seven decimals of Moses' lex files.
    """
    joint: Counter[tuple[str, str]] = Counter()
    for pair in corpus:
        joint.update((pair.source[i], pair.target[j]) for i, j in pair.links)
        sources, targets = {i for i, _ in pair.links}, {j for _, j in pair.links}
        joint.update(("NULL", w) for j, w in enumerate(pair.target) if j not in targets)
        joint.update((w, "NULL") for i, w in enumerate(pair.source) if i not in sources)
    by_source: Counter[str] = Counter()
    by_target: Counter[str] = Counter()
    for (source, target), count in joint.items():
        by_source[source] += count
        by_target[target] += count
    direct = {pair: float(f"{n / by_source[pair[0]]:.7f}") for pair, n in joint.items()}
    inverse = {pair: float(f"{n / by_target[pair[1]]:.7f}") for pair, n in joint.items()}
    return direct, inverse


def lexical_weight(
    words: list[str], partners: list[list[str]], p: Callable[[str, str], float]
) -> float:
    """Return the product over words of the mean p(word | partner); NULL without partners."""
    weight = 1.0
    for word, linked in zip(words, partners, strict=True):
        names = linked or ["NULL"]
        weight *= sum(p(name, word) for name in names) / len(names)
    return weight


def best_alignment(counts: PairCounts, target_size: int, by_target: bool) -> Links:
    """Return the most frequent alignment inside the pair; ties are broken as Moses breaks them.

    Moses takes the greater one of the vectors that hold, for each word, the set of its partners.
    """
    side, other = (1, 0) if by_target else (0, 1)

    def key(item: tuple[Links, int]) -> tuple[int, list[list[int]]]:
        links, count = item
        vector: list[list[int]] = [[] for _ in range(target_size)]
        for link in sorted(links):
            vector[link[side]].append(link[other])
        return count, vector

    return max(counts.alignments.items(), key=key)[0]


def partners_of(links: Links, words: list[str], size: int, side: int) -> list[list[str]]:
    """Return the words linked with each of the ``size`` positions of one side."""
    result: list[list[str]] = [[] for _ in range(size)]
    for link in sorted(links):
        result[link[side]].append(words[link[1 - side]])
    return result


def table_lines(
    corpus: Sequence[SentencePair], table: dict[tuple[str, str], PairCounts]
) -> list[str]:
    """Return the lines of the phrase table, sorted by bytes.

    Scores: p(source | target), lex(source | target), p(target | source), lex(target | source).
    """
    direct, inverse = lexical_probabilities(corpus)
    source_total: Counter[str] = Counter()
    target_total: Counter[str] = Counter()
    for (source, target), counts in table.items():
        source_total[source] += counts.total
        target_total[target] += counts.total
    lines = []
    for (source, target), counts in table.items():
        f, e = source.split(" "), target.split(" ")
        links = best_alignment(counts, len(e), by_target=True)
        back = best_alignment(counts, len(f), by_target=False)
        lex_direct = lexical_weight(e, partners_of(links, f, len(e), 1), lambda s, t: direct[s, t])
        lex_inverse = lexical_weight(f, partners_of(back, e, len(f), 0), lambda t, s: inverse[s, t])
        joint, n_e, n_f = counts.total, target_total[target], source_total[source]
        scores = map(float32, (joint / n_e, lex_inverse, joint / n_f, lex_direct))
        points = " ".join(f"{i}-{j}" for i, j in sorted(links, key=lambda p: (p[1], p[0])))
        numbers = " ".join(map(number, scores))
        lines.append(f"{source} ||| {target} ||| {numbers} ||| {points} ||| "
                     f"{number(n_e)} {number(n_f)} {number(joint)} ||| |||")  # fmt: skip
    return sorted(lines, key=str.encode)


def reordering_lines(table: dict[tuple[str, str], PairCounts]) -> Iterator[str]:
    """Yield the lines of the reordering table (wbe-msd-bidirectional-fe), sorted by bytes."""
    lines = []
    for (source, target), counts in table.items():
        values = []
        for seen in (counts.before, counts.after):
            smoothed = [seen[name] + SMOOTHING for name in ORIENTATIONS]
            values += [number(value / sum(smoothed)) for value in smoothed]
        lines.append(f"{source} ||| {target} ||| {' '.join(values)}")
    yield from sorted(lines, key=str.encode)
