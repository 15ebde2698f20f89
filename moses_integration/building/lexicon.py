"""Lexical translation probabilities from aligned words, as Moses' get_lexical computes them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from moses_integration.building.corpus import AlignedCorpus, SentenceBlock, Side
from phrasescore.io.hashing import first_at_least
from phrasescore.io.kernel_cache import kept_njit

_KERNEL = kept_njit()

# Probabilities are rounded to seven decimals, because Moses' score reads them from the files.
_UNIT = 10_000_000
_SHIFT = np.int64(32)
_LINES = 1 << 16  # that are in memory at a time

Counts = npt.NDArray[np.int64]


def count_words(block: SentenceBlock, source: Side, target: Side) -> tuple[Counts, Counts]:
    """Return the distinct pairs of linked words in a block, as keys, and their counts.

    An unaligned word is linked to `NULL`. A key is a source rank above a target rank.
    """
    sentences = np.repeat(np.arange(len(block.link_starts) - 1), np.diff(block.link_starts))
    sources = block.source_starts[sentences] + block.links[:, 0]
    targets = block.target_starts[sentences] + block.links[:, 1]
    is_free = np.ones(len(block.source), np.bool_)
    is_free[sources] = False
    is_free_target = np.ones(len(block.target), np.bool_)
    is_free_target[targets] = False
    unlinked, unlinked_targets = block.source[is_free], block.target[is_free_target]
    keys = np.concatenate(
        (
            _key(block.source[sources], block.target[targets]),
            _key(unlinked, np.int64(target.null)),
            _key(np.int64(source.null), unlinked_targets),
        )
    )
    distinct, counts = np.unique(keys, return_counts=True)
    return distinct, counts.astype(np.int64)


def _key(
    source: npt.NDArray[np.int32] | np.int64, target: npt.NDArray[np.int32] | np.int64
) -> Counts:
    key: Counts = (np.asarray(source, np.int64) << _SHIFT) | np.asarray(target, np.int64)
    return key


def add_counts(parts: Iterable[tuple[Counts, Counts]]) -> tuple[Counts, Counts]:
    """Add the counts of equal keys."""
    keys, counts = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    firsts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[firsts], np.add.reduceat(counts[order], firsts)


@dataclass(frozen=True)
class WordTables:
    """Translation probabilities of words, in the order of source and target ranks."""

    starts: Counts  # (source words + 1,): where the pairs of each source word begin
    targets: npt.NDArray[np.int32]
    forward: Counts  # p(target | source) in units of 1e-7
    backward: Counts  # p(source | target)

    @classmethod
    def from_counts(cls, keys: Counts, counts: Counts, corpus: AlignedCorpus) -> "WordTables":
        """Normalise counts in both directions."""
        sources, targets = keys >> _SHIFT, keys & ((1 << 32) - 1)
        starts = np.searchsorted(sources, np.arange(len(corpus.source.words) + 1))
        probabilities = []
        for words, size in ((sources, len(starts) - 1), (targets, len(corpus.target.words))):
            totals = np.zeros(size, np.int64)
            np.add.at(totals, words, counts)
            probabilities.append(_divide(counts, totals[words]))
        return cls(starts.astype(np.int64), targets.astype(np.int32), *probabilities)

    def lines(self, source: Side, target: Side) -> Iterator[tuple[bytes, bytes]]:
        """Yield the lines for the files ``lex.f2e`` and ``lex.e2f``, without newlines."""
        sources = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        columns = (sources, self.targets, self.forward, self.backward)
        for begin in range(0, len(sources), _LINES):
            part = (column[begin : begin + _LINES].tolist() for column in columns)
            for first, second, forward, backward in zip(*part, strict=True):
                one, other = source.words[first], target.words[second]
                yield (
                    b"%b%b%d.%07d" % (other, one, *divmod(forward, _UNIT)),
                    b"%b%b%d.%07d" % (one, other, *divmod(backward, _UNIT)),
                )


def _divide(counts: Counts, totals: Counts) -> Counts:
    """Return quotients in units of 1e-7, rounded as C's ``%.7f`` rounds the float64."""
    units, rests = np.divmod(counts * _UNIT, totals)
    units += 2 * rests > totals
    for index in np.flatnonzero(2 * rests == totals):  # the float64 decides
        text = f"{counts[index] / totals[index]:.7f}"
        units[index] = int(text.replace(".", ""))
    quotients: Counts = units
    return quotients


@_KERNEL
def look_up(starts, targets, values, source, target):  # type: ignore[no-untyped-def]
    """Return the probability of a pair of words, and 1 for words that are never linked."""
    end = starts[source + 1]
    place = first_at_least(targets, starts[source], end, target)
    return values[place] / 1e7 if place < end and targets[place] == target else 1.0
