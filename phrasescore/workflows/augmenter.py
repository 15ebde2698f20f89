"""The lines of an augmented phrase table, made group by group of sources."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple

from moses_integration.augment import NewPair, SourceBlock, is_writable, write_block
from phrasescore.engines.pool import Pending
from phrasescore.generation.generator import Generated, Source, TargetPool, TargetWork
from phrasescore.vocabulary import Vocabulary
from phrasescore.workflows.new_pair_scores import NewTargets, PairScores
from phrasescore.workflows.text_checks import UnknownWordCheck

# Lines of a group of sources, or more where its last source has more: what is generated together,
# and lost at most when a run is killed.
GROUP_LINES = 4096


class SourceGroup(NamedTuple):
    """Sources with their lines, and the targets of those that are asked."""

    blocks: list[SourceBlock]
    asked: list[SourceBlock]
    targets: list[Pending[list[list[Generated]]]]


@dataclass(slots=True)
class Augmenter:
    """Makes the lines of a group of sources, old and new, and counts them."""

    # How targets are generated.
    work: TargetWork
    vocabularies: Sequence[Vocabulary]
    # Of the sides of the lines whose sources may be asked.
    unknown_words: tuple[UnknownWordCheck, UnknownWordCheck]
    scores: PairScores
    # The sources that get new targets; None for all.
    only: frozenset[Source] | None
    min_count: float | None
    min_probability: float
    indicator: bool
    # Of the summary.
    counts: dict[str, Any] = field(
        default_factory=lambda: dict.fromkeys(("sources", "asked", "unknown", "new", "known"), 0)
    )

    def submit(
        self, groups: Iterable[list[SourceBlock]], pool: TargetPool
    ) -> Iterator[SourceGroup]:
        """Yield the groups in order; those that follow are with the workers meanwhile."""
        waiting: deque[SourceGroup] = deque()
        for blocks in groups:
            asked = [block for block in blocks if self._is_asked(block)]
            self.counts["sources"] += len(blocks)
            self.counts["asked"] += len(asked)
            windows = self.work.windows(block.source for block in asked)
            waiting.append(SourceGroup(blocks, asked, list(map(pool.submit, windows))))
            while waiting and (not waiting[0].targets or _ahead(waiting) >= 2 * pool.workers):
                yield waiting.popleft()
        yield from waiting

    def lines(self, group: SourceGroup) -> Iterator[bytes]:
        """Yield the lines of a group with its new pairs."""
        blocks, asked, targets = group
        generated = chain.from_iterable(pending.result() for pending in targets)
        found = [
            self._new_targets(
                block, ((target.words, target.log_prob) for target in targets if target.finished)
            )
            for block, targets in zip(asked, generated, strict=True)
        ]
        new = {
            item.source: list(map(NewPair, item.targets, rows))
            for item, rows in zip(found, self.scores.rows(found), strict=True)
        }
        self.counts["new"] += sum(map(len, new.values()))
        for block in blocks:
            yield from write_block(block, new.get(block.source, ()), indicator=self.indicator)

    def warn(self) -> None:
        """Warn if the networks do not know the table's words; for the end of the table."""
        for unknown_words in self.unknown_words:
            unknown_words.warn()

    def _is_asked(self, block: SourceBlock) -> bool:
        if self.only is not None and block.source not in self.only:
            return False
        least = self.min_count
        if least is not None and block.lines and block.times_extracted < least:
            return False
        sources, targets = self.unknown_words
        sources.count(block.source)
        for line in block.lines:
            targets.count(line.pair.target)
        if any(Vocabulary.UNKNOWN in known.ids(block.source) for known in self.vocabularies):
            self.counts["unknown"] += 1
            return False
        return True

    def _new_targets(
        self, block: SourceBlock, targets: Iterable[tuple[Source, float]]
    ) -> NewTargets:
        """Return the targets that the table lacks and that are probable enough."""
        new = NewTargets(block.source, [], [])
        for words, log_prob in targets:
            if not is_writable(words) or math.exp(log_prob) < self.min_probability:
                continue
            if block.lacks(words):
                new.targets.append(words)
                new.log_probs.append(log_prob)
            else:
                self.counts["known"] += 1
        return new


def _ahead(groups: Iterable[SourceGroup]) -> int:
    """Return how many windows are with the workers beside those of the first group."""
    return sum(max(1, len(group.targets)) for group in islice(groups, 1, None))


def group_sources(blocks: Iterable[SourceBlock]) -> Iterator[list[SourceBlock]]:
    """Yield the sources in groups; each but the last ends with the last line of a source.

    Sources that sort behind the table's last one belong to the last group: a resumed run knows by
    the lines of the table which groups are done.
    """
    group: list[SourceBlock] = []
    between: list[SourceBlock] = []
    lines = 0
    for block in blocks:
        if not block.lines:
            between.append(block)
            continue
        if lines >= GROUP_LINES:
            yield group
            group, lines = [], 0
        group += [*between, block]
        between = []
        lines += len(block.lines)
    yield [*group, *between]
