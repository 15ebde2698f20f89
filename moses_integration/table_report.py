"""Compute statistics of a phrase table in one pass, without keeping its phrases in memory.

Phrases are compared by a 64-bit hash. The memory used is 12 bytes for each group of lines with the
same source plus 9 bytes for each line. Among n distinct phrases, the probability of a hash
collision is n² / 2^65: 3e-8 for a million, 3e-4 for a hundred million.
"""

import math
from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import numpy as np

from moses_integration.phrase_table import PhraseTableLine
from moses_integration.table_line import LOWEST_LOG, joint_count
from phrasescore.records import PhrasePair

_BLOCK = 20_000  # lines whose scores are converted to an array at a time


@dataclass(frozen=True)
class TargetsPerSource:
    """Statistics of the number of target phrases, or lines, per source phrase."""

    mean: float
    median: float
    max: int
    # The first source with ``max`` targets; None if the lines of a source are not adjacent and the
    # table could not be read again.
    max_source: str | None


@dataclass(frozen=True)
class ScoreColumn:
    """The range of a score column, as probabilities, and its mean logarithm."""

    min: float
    max: float
    mean_log: float  # mean of max(ln p, -100), the value that Moses loads


@dataclass(frozen=True)
class Counts:
    """Totals over field 5, the counts of extracted phrases."""

    lines: int  # number of lines with the field
    joint: float  # sum of the joint counts; 1 for a line without a count
    once: int  # number of lines whose joint count is 1 or less


@dataclass(frozen=True)
class Coverage:
    """Fractions of a table's words and lines that two shortlists cover."""

    source_words: float  # fraction of running words, with each line counted once
    target_words: float
    source_words_by_count: float  # with each line counted as often as it was extracted
    target_words_by_count: float
    pairs: float  # fraction of lines without an unknown word on either side


@dataclass(frozen=True)
class TableReport:
    """Statistics of a phrase table."""

    lines: int
    distinct_sources: int
    distinct_targets: int
    targets_per_source: TargetsPerSource
    source_lengths: Mapping[int, int]  # number of words -> number of lines, in ascending order
    target_lengths: Mapping[int, int]
    scores: tuple[ScoreColumn, ...]
    counts: Counts
    coverage: Coverage | None  # None without a shortlist


def report_table(
    lines: Iterable[PhraseTableLine],
    *,
    shortlists: tuple[Container[str], Container[str]] | None = None,
    read_again: Callable[[], Iterable[PhraseTableLine]] | None = None,
) -> TableReport:
    """Compute statistics of a phrase table from its lines, at least one and in any order.

    :param shortlists: the source words and the target words that a model knows.
    :param read_again: function that returns the same lines again. It is called only if the lines
        of a source are not adjacent, to find the source with the most targets.
    """
    # The hash and the size of each group of adjacent lines with the same source.
    hashes, sizes = array("q"), array("I")
    largest: tuple[str, ...] = ()
    targets, scores = array("q"), _Scores()
    source_lengths: Counter[int] = Counter()
    target_lengths: Counter[int] = Counter()
    with_counts = once = max_size = 0
    joint_sum = 0.0
    coverage = None if shortlists is None else _CoverageTally(shortlists)
    for source, group in groupby(lines, attrgetter("pair.source")):
        size = 0
        for line in group:
            size += 1
            target = line.pair.target
            targets.append(hash(target))
            target_lengths[len(target)] += 1
            fields = line.raw.split(b"|||", 5)
            scores.add(fields[2])
            joint = joint_count(line.raw)
            with_counts += len(fields) > 4 and bool(fields[4].strip())
            joint_sum += joint
            once += joint <= 1
            if coverage is not None:
                coverage.add(line.pair, joint)
        source_lengths[len(source)] += size
        hashes.append(hash(source))
        sizes.append(size)
        if size > max_size:
            max_size, largest = size, source
    num_lines = source_lengths.total()
    per_source = np.frombuffer(sizes, dtype=np.uint32)
    known, group_of = np.unique(np.frombuffer(hashes, dtype=np.int64), return_inverse=True)
    max_source: str | None = " ".join(largest)
    if len(known) < len(per_source):
        per_source = np.bincount(group_of, weights=per_source).astype(np.int64)
        wanted = set(known[per_source == per_source.max()].tolist())
        again = () if read_again is None else read_again()
        sources = (line.pair.source for line in again if hash(line.pair.source) in wanted)
        max_source = next(map(" ".join, sources), None)
    sorted_targets = np.frombuffer(targets, dtype=np.int64)
    sorted_targets.sort()
    distinct_targets = 1 + int(np.count_nonzero(sorted_targets[1:] != sorted_targets[:-1]))
    mean, median, most = per_source.mean(), np.median(per_source), per_source.max()
    return TableReport(
        lines=num_lines,
        distinct_sources=len(known),
        distinct_targets=distinct_targets,
        targets_per_source=TargetsPerSource(float(mean), float(median), int(most), max_source),
        source_lengths=dict(sorted(source_lengths.items())),
        target_lengths=dict(sorted(target_lengths.items())),
        scores=scores.result(),
        counts=Counts(with_counts, joint_sum, once),
        coverage=None if coverage is None else coverage.result(),
    )


class _Scores:
    def __init__(self) -> None:
        self._fields: list[bytes] = []
        # (minimum, maximum, sum of logarithms) for each block; each has shape (columns,).
        self._blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._lines = 0

    def add(self, field: bytes) -> None:
        self._fields.append(field)
        self._lines += 1
        if len(self._fields) == _BLOCK:
            self._close_block()

    def _close_block(self) -> None:
        if self._fields:
            numbers = [float(number) for number in b" ".join(self._fields).split()]
            values = np.array(numbers).reshape(len(self._fields), -1)  # (lines, columns)
            logs = np.log(np.maximum(values, math.exp(LOWEST_LOG)))
            self._blocks.append((values.min(axis=0), values.max(axis=0), logs.sum(axis=0)))
            self._fields = []

    def result(self) -> tuple[ScoreColumn, ...]:
        self._close_block()
        minima, maxima, sums = map(np.array, zip(*self._blocks, strict=True))
        columns = zip(minima.min(axis=0), maxima.max(axis=0), sums.sum(axis=0), strict=True)
        return tuple(
            ScoreColumn(min=float(low), max=float(high), mean_log=float(total) / self._lines)
            for low, high, total in columns
        )


class _CoverageTally:
    def __init__(self, shortlists: tuple[Container[str], Container[str]]) -> None:
        # For each side: running words, covered words, and both weighted by joint counts.
        self._words: list[list[float]] = [[0, 0, 0, 0], [0, 0, 0, 0]]
        self._sides = list(zip(shortlists, self._words, strict=True))
        self._pairs = self._pairs_inside = 0

    def add(self, pair: PhrasePair, joint: float) -> None:
        all_inside = True
        for words, (shortlist, sums) in zip(pair, self._sides, strict=True):
            size, inside = len(words), sum(word in shortlist for word in words)
            for column, number in enumerate((size, inside, size * joint, inside * joint)):
                sums[column] += number
            all_inside = all_inside and inside == size
        self._pairs += 1
        self._pairs_inside += all_inside

    def result(self) -> Coverage:
        # If there are no running words (all counts are 0), coverage is complete.
        counts = [(words[column], words[column + 1]) for column in (0, 2) for words in self._words]
        source, target, source_by_count, target_by_count = (
            inside / words if words else 1.0 for words, inside in counts
        )
        pairs = self._pairs_inside / self._pairs
        return Coverage(source, target, source_by_count, target_by_count, pairs)
