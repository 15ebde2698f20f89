"""Search one sentence stack by stack, each stack from all smaller ones.

Moses pushes extensions of a hypothesis into later stacks (SearchNormal). Here a stack *pulls* them
from the smaller stacks once these are final. The hypotheses are the same, but other features can
score them in batches.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from moses_integration.decoder.kbest import Lattice
from moses_integration.decoder.ngram_table import BEGIN
from moses_integration.decoder.options import Sentence, ranges
from moses_integration.decoder.search_kernels import (
    BLOCK_COLUMNS,
    describe_coverage,
    list_blocks,
)
from moses_integration.decoder.search_limits import SearchLimits
from moses_integration.decoder.search_tables import (
    SearchTables,
    add_row,
    grow,
    make_arcs,
    make_coverages,
    make_hypotheses,
    make_memo,
    make_pool,
    make_states,
)
from moses_integration.decoder.stack_kernels import (
    Limits,
    expand,
    expand_cubes,
    make_cubes,
    prune,
    recombine,
)
from moses_integration.decoder.stateful import AlignedWords, RequestBuffer, Requests

# Initial numbers of rows, enough for a sentence of about ten words.
_FEW, _MANY = 1 << 10, 1 << 15
# For each hypothesis that a stack keeps, this many of the best are scored by other features.
_CANDIDATES = 10


class StackSearch:
    """The search of one sentence.

    :param buffers: other features and their weights.
    :param keep_arcs: whether to keep recombined hypotheses, for n-best lists.
    :param aligned: the affiliations of the options' words.
    """

    def __init__(
        self,
        sentence: Sentence,
        limits: SearchLimits,
        buffers: Sequence[tuple[RequestBuffer, float]] = (),
        *,
        keep_arcs: bool,
        aligned: AlignedWords | None = None,
    ) -> None:
        self._sentence, self._aligned = sentence, aligned
        self._buffers, self._limits = buffers, limits
        self._last = Limits(limits.stack_size, limits.beam_width, keep_arcs, by_request=False)
        self._first = self._last
        if buffers:
            self._first = self._last._replace(
                stack_size=_CANDIDATES * limits.stack_size, by_request=True
            )
        order = sentence.ngrams.order
        self._width = max([order - 1, 1, *(buffer.feature.context for buffer, _ in buffers)])
        self._tables = SearchTables(
            make_hypotheses(_FEW, sentence.length),
            make_coverages(_FEW, sentence.length),
            make_states(_MANY, self._width),
            make_memo(_MANY),
            make_pool(1 << max(2 * self._first.stack_size, 512).bit_length()),
            make_arcs(_MANY if keep_arcs else 1),
        )
        # Target, loss, parent and option of the arcs into each stack.
        self._kept_arcs = [(np.empty(0, np.int32), np.empty(0), *np.empty((2, 0), np.int32))]
        longest = int(np.diff(sentence.offsets).max(initial=0))
        # The score of each option with the estimate of the language model.
        self._promise = sentence.score + sentence.tail[sentence.offsets[:-1]]
        self._scratch = np.zeros(longest + self._width + 1, np.int32)
        for buffer, _ in buffers:
            buffer.start(self._requests)

    def run(self) -> Lattice:
        """Search, and return the lattice of the kept hypotheses."""
        self._add_empty_hypothesis()
        for stack in range(1, self._sentence.length + 1):
            blocks = self._blocks(stack)
            self._clear_pool()
            if self._limits.algorithm == "cube":
                self._expand_cubes(blocks)
            else:
                self._expand(blocks)
            if self._buffers:
                self._score_requests()
            prune(self._tables.pool, self._tables.arcs, self._last)
            self._store(stack)
        return self._lattice()

    def _add_empty_hypothesis(self) -> None:
        hypotheses, coverages, states, *_ = self._tables
        add_row(coverages, coverages.keys[0])
        describe_coverage(self._sentence, coverages, 0)
        state = np.full(self._width + 1, -1, np.int32)
        state[-1] = min(1, self._sentence.ngrams.order - 1)
        if state[-1] or self._sentence.keep_words:
            state[0] = BEGIN
        add_row(states, state)
        hypotheses.stacks[1] = 1
        hypotheses.score[0], hypotheses.parent[0], hypotheses.option[0] = 0.0, -1, -1
        hypotheses.coverage[0] = hypotheses.state[0] = 0

    def _blocks(self, stack: int) -> Any:
        blocks = np.empty((0, BLOCK_COLUMNS), np.int32)
        count = list_blocks(self._sentence, self._tables, stack, blocks, False)
        blocks = np.empty((count, BLOCK_COLUMNS), np.int32)
        # One extra row: a coverage is written before it is known to be new.
        coverages = self._tables.coverages
        coverages = grow(coverages, int(coverages.count[0]) + count + 1)
        self._tables = self._tables._replace(coverages=coverages)
        list_blocks(self._sentence, self._tables, stack, blocks, True)
        # Start with the most promising block, so that bad extensions are rejected at once.
        promise = self._tables.hypotheses.score[blocks[:, 0]] + self._promise[blocks[:, 4]]
        promise += coverages.future[blocks[:, 6]]
        return blocks[np.argsort(-promise, kind="stable")]

    def _expand(self, blocks: Any) -> None:
        """Fill the pool; enlarge tables that are too small."""
        done = 0
        while done < len(blocks):
            done = expand(self._sentence, self._tables, self._first, blocks, done, self._scratch)
            if done < len(blocks):
                first, last, _, _, begin, end, _ = blocks[done]
                self._make_room(int(last - first) * int(end - begin))

    def _expand_cubes(self, blocks: Any) -> None:
        cubes = make_cubes(self._sentence, self._tables, blocks)
        pops, diversity = self._limits.pop_limit, self._limits.diversity
        # Every extension taken makes room for two; with diversity it may be all of them.
        most = len(cubes.seen) if diversity else min(len(cubes.seen), len(blocks) + 2 * pops)
        self._make_room(most)
        tables, scratch = self._tables, self._scratch
        expand_cubes(self._sentence, tables, self._first, blocks, cubes, pops, diversity, scratch)

    def _make_room(self, extensions: int) -> None:
        _, _, states, memo, pool, arcs = self._tables
        if self._first.keep_arcs:
            arcs = grow(arcs, int(arcs.count[0]) + extensions)
        if self._first.stack_size == 0:
            pool = grow(pool, int(pool.count[0]) + extensions)
        self._tables = self._tables._replace(
            states=grow(states, int(states.count[0]) + extensions),
            memo=grow(memo, int(memo.count[0]) + extensions),
            pool=pool,
            arcs=arcs,
        )

    def _clear_pool(self) -> None:
        pool = self._tables.pool
        pool.count[0] = self._tables.arcs.count[0] = 0
        pool.limits.fill(-np.inf)
        pool.slots.fill(-1)

    def _score_requests(self) -> None:
        """Add the scores of other features to the best candidates, and recombine them."""
        hypotheses, coverages, _, _, pool, arcs = self._tables
        prune(pool, arcs, self._first)
        count, num_arcs = int(pool.count[0]), int(arcs.count[0])
        parents, options = pool.parent[:count], pool.option[:count]
        complete = coverages.first_gap[pool.keys[:count, 0]] == self._sentence.length
        keys = self._keys(hypotheses.state[parents], options, complete)
        for buffer, _ in self._buffers:
            buffer.request(keys)
        added = -self._sentence.expected[options]
        for buffer, weight in self._buffers:
            buffer.flush()
            added += weight * buffer.scores(keys)
        pool.score[:count] += added
        if self._last.keep_arcs:
            # An arc has the same option after the same state as its target, so the same scores.
            arcs.score[:num_arcs] += added[arcs.target[:num_arcs]]
            self._tables = self._tables._replace(arcs=grow(arcs, num_arcs + count))
        recombine(self._sentence, self._tables, self._last.keep_arcs)

    def _keys(self, states: Any, options: Any, complete: Any) -> Any:
        numbers = states.astype(np.int64) * len(self._sentence.score) + options
        return 2 * numbers + complete

    def _requests(self, keys: Any, context: int) -> Requests:
        """Return the requests that keys of :meth:`_keys` encode."""
        ends = keys % 2 == 1
        states, options = np.divmod(keys // 2, len(self._sentence.score))
        histories = self._tables.states.keys[states, :context][:, ::-1]
        begins, sizes = self._sentence.offsets[options], np.diff(self._sentence.offsets)[options]
        offsets = np.zeros(len(keys) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        positions = ranges(begins, sizes)
        phrases, aligned = self._sentence.target[positions], self._aligned
        if aligned is not None:
            aligned = aligned._replace(affiliations=aligned.affiliations[positions])
        return Requests(np.ascontiguousarray(histories), phrases, offsets, ends, aligned)

    def _store(self, stack: int) -> None:
        """Store the pool as a stack, sorted by coverage, the best hypotheses first."""
        hypotheses, coverages, _, _, pool, arcs = self._tables
        count, begin = int(pool.count[0]), int(hypotheses.stacks[stack])
        end = begin + count
        hypotheses = grow(hypotheses, end)
        self._tables = self._tables._replace(hypotheses=hypotheses)
        hypotheses.stacks[stack + 1] = end
        order = np.lexsort((-pool.score[:count], pool.keys[:count, 0]))
        coverage = pool.keys[order, 0]
        hypotheses.score[begin:end] = pool.score[order] - coverages.future[coverage]
        hypotheses.coverage[begin:end] = coverage
        hypotheses.parent[begin:end] = pool.parent[order]
        hypotheses.option[begin:end] = pool.option[order]
        hypotheses.state[begin:end] = pool.state[order]
        numbers = np.empty(count, np.int32)
        numbers[order] = np.arange(begin, end)
        num_arcs = int(arcs.count[0])
        rows = arcs.target[:num_arcs]
        # A hypothesis and its arc have the same coverage, so the same future estimate.
        loss = pool.score[rows] - arcs.score[:num_arcs]
        parent, option = arcs.parent[:num_arcs].copy(), arcs.option[:num_arcs].copy()
        self._kept_arcs.append((numbers[rows], loss, parent, option))

    def _lattice(self) -> Lattice:
        hypotheses, length = self._tables.hypotheses, self._sentence.length
        begin, end = int(hypotheses.stacks[length]), int(hypotheses.stacks[length + 1])
        target, loss, parent, option = map(np.concatenate, zip(*self._kept_arcs, strict=True))
        order = np.lexsort((loss, target))
        return Lattice(
            parent=hypotheses.parent[:end],
            option=hypotheses.option[:end],
            state=hypotheses.state[:end],
            first_arc=np.searchsorted(target[order], np.arange(end + 1)),
            arc_loss=loss[order],
            arc_parent=parent[order],
            arc_option=option[order],
            arc_target=target[order],
            goal=begin if end > begin else -1,
        )

    def feature_scores(self, lattice: Lattice, parents: Any, options: Any, last: Any) -> Any:
        """Return other features' scores of extensions, float64 (extensions, features).

        :param last: whether the extension completed the translation.
        """
        keys = self._keys(lattice.state[parents], options, last)
        columns = [buffer.scores(keys) for buffer, _ in self._buffers]
        return np.stack(columns, axis=1) if columns else np.empty((len(options), 0))
