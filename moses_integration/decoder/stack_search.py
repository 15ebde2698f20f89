"""The stack search of a sentence: stack after stack, each from all smaller ones.

Moses pushes extensions of a hypothesis into later stacks (SearchNormal); here a stack *pulls* them
from the smaller ones when these are final. The hypotheses are the same, and those that other
features have to score come together.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.cube_pruning import expand_cubes, make_cubes, make_frontier
from moses_integration.decoder.kbest import Lattice
from moses_integration.decoder.search_kernels import (
    BLOCK_COLUMNS,
    Sentence,
    describe_coverage,
    list_blocks,
)
from moses_integration.decoder.search_tables import (
    find_bits,
    find_state,
    grow,
    make_arcs,
    make_coverages,
    make_hypotheses,
    make_memo,
    make_pool,
    make_states,
)
from moses_integration.decoder.stack_kernels import Limits, expand, prune, recombine
from moses_integration.decoder.stateful import RequestBuffer, Requests

# Rows that tables begin with: those of a sentence of some ten words.
_FEW, _MANY = 1 << 10, 1 << 15
# The id of <s>, after which a sentence begins.
_BEGIN = 1


class StackLimits(NamedTuple):
    """How far a search goes."""

    # Hypotheses a stack; 0 for no limit.
    stack_size: int
    # Natural logarithm of the probability, relative to the best, below which one goes from a stack
    # that has more than it may. Moses' beam cuts smaller ones, too, as it meets the hypotheses.
    beam_width: float
    # Of those that the search itself finds best, how many other features score; 0 for all.
    candidates: int
    # Whether recombined hypotheses are kept for n-best lists.
    keep_arcs: bool
    # Extensions that cube pruning looks at for a stack; 0 for all, without cubes.
    pop_limit: int = 0
    # New hypotheses of each coverage for which cube pruning goes on beyond that limit.
    diversity: int = 0


class StackSearch:
    """The search of one sentence.

    :param tables: the language model's NgramTables.
    :param buffers: other features and their weights.
    """

    def __init__(
        self,
        sentence: Sentence,
        tables: Any,
        limits: StackLimits,
        buffers: Sequence[tuple[RequestBuffer, float]] = (),
    ) -> None:
        self._sentence, self._tables = sentence, tables
        self._buffers, self._limits = buffers, limits
        self._last = Limits(
            limits.stack_size, limits.beam_width, limits.keep_arcs, by_request=False
        )
        self._first = self._last
        if buffers:
            self._first = self._last._replace(stack_size=limits.candidates, by_request=True)
        width = max([tables.order - 1, 1, *(buffer.feature.context for buffer, _ in buffers)])
        self._coverages = make_coverages(_FEW, sentence.length)
        self._states = make_states(_MANY, width)
        self._memo = make_memo(2 * _MANY)
        self._pool = make_pool(1 << max(2 * self._first.stack_size, 512).bit_length())
        self._arcs = make_arcs(_MANY if limits.keep_arcs else 1)
        self._hypotheses = make_hypotheses(_FEW, sentence.length)
        self._kept_arcs: list[tuple[Any, ...]] = []
        longest = int(np.diff(sentence.offsets).max(initial=0))
        # Of each option: its score with the estimate of the language model.
        self._promise = sentence.score + sentence.tail[sentence.offsets[:-1]]
        self._scratch = np.zeros(longest + width + 1, np.int32)
        for buffer, _ in buffers:
            buffer.start(self._requests)

    def run(self) -> Lattice:
        """Search, and return what was kept."""
        self._add_empty_hypothesis()
        for stack in range(1, self._sentence.length + 1):
            blocks = self._blocks(stack)
            self._clear_pool()
            if self._limits.pop_limit:
                self._expand_cubes(blocks)
            else:
                self._expand(blocks)
            if self._buffers:
                self._score_requests()
            prune(self._pool, self._arcs, self._last)
            self._store(stack)
        return self._lattice()

    def _add_empty_hypothesis(self) -> None:
        coverages, hypotheses = self._coverages, self._hypotheses
        coverages.slots[-1 - find_bits(coverages, coverages.bits[0])] = 0
        coverages.count[0] = 1
        describe_coverage(self._sentence, coverages, 0)
        words = np.full(self._states.words.shape[1], -1, np.int32)
        length = min(1, self._tables.order - 1)
        if length or self._sentence.keep_words:
            words[0] = _BEGIN
        find_state(self._states, words, length)
        hypotheses.stacks[1] = 1
        hypotheses.score[0], hypotheses.parent[0], hypotheses.option[0] = 0.0, -1, -1
        hypotheses.coverage[0] = hypotheses.state[0] = 0

    def _blocks(self, stack: int) -> Any:
        """Return the blocks that lead to a stack."""
        none = np.empty((0, BLOCK_COLUMNS), np.int32)
        arguments = (self._sentence, self._hypotheses, self._coverages, stack)
        count = list_blocks(*arguments, none, False)
        blocks = np.empty((count, BLOCK_COLUMNS), np.int32)
        # One row more: a coverage is written before it is known to be new.
        self._coverages = grow(self._coverages, int(self._coverages.count[0]) + count + 1)
        list_blocks(*arguments[:2], self._coverages, stack, blocks, True)
        # The most promising first: then others can be seen to be too bad at once.
        promise = self._hypotheses.score[blocks[:, 0]] + self._promise[blocks[:, 4]]
        promise += self._coverages.future[blocks[:, 6]]
        return blocks[np.argsort(-promise, kind="stable")]

    def _expand(self, blocks: Any) -> None:
        """Fill the pool, making tables larger where they are too small."""
        done = 0
        while done < len(blocks):
            done = expand(
                *(self._sentence, self._tables, self._hypotheses, self._coverages, self._states),
                *(self._memo, self._pool, self._arcs),
                *(self._first, blocks, done, self._scratch),
            )  # fmt: skip
            if done < len(blocks):
                first, last, _, _, begin, end, _ = blocks[done]
                self._make_room(int(last - first) * int(end - begin))

    def _expand_cubes(self, blocks: Any) -> None:
        """Fill the pool with what cube pruning finds."""
        fixed: Any = (self._sentence, self._tables, self._hypotheses, self._coverages)
        cubes = make_cubes(self._sentence, self._hypotheses, self._coverages, blocks)
        pops, diversity = self._limits.pop_limit, self._limits.diversity
        # Every extension that is taken makes room for two; with diversity it may be all of them.
        most = len(cubes.seen) if diversity else min(len(cubes.seen), len(blocks) + 2 * pops)
        self._make_room(most)
        tables: Any = (self._states, self._memo, self._pool, self._arcs, self._first)
        frontier: Any = make_frontier(most)
        rest: Any = (blocks, cubes, frontier, pops, diversity, self._scratch)
        expand_cubes(*(*fixed, *tables, *rest))

    def _make_room(self, extensions: int) -> None:
        self._states = grow(self._states, int(self._states.count[0]) + extensions)
        self._memo = grow(self._memo, (int(self._memo.count[0]) + extensions) * 4 // 3 + 4)
        if self._first.keep_arcs:
            self._arcs = grow(self._arcs, int(self._arcs.count[0]) + extensions)
        if self._first.stack_size == 0:
            self._pool = grow(self._pool, int(self._pool.count[0]) + extensions)

    def _clear_pool(self) -> None:
        self._pool.count[0] = self._arcs.count[0] = 0
        self._pool.limits.fill(-np.inf)
        self._pool.slots.fill(-1)

    def _score_requests(self) -> None:
        """Let other features score the best candidates, and recombine these then."""
        pool, arcs = self._pool, self._arcs
        prune(pool, arcs, self._first)
        count, num_arcs = int(pool.count[0]), int(arcs.count[0])
        parents, options = pool.parent[:count], pool.option[:count]
        complete = self._coverages.first_gap[pool.coverage[:count]] == self._sentence.length
        keys = self._keys(self._hypotheses.state[parents], options, complete)
        for buffer, _ in self._buffers:
            buffer.request(keys)
        added = -self._sentence.expected[options]
        for buffer, weight in self._buffers:
            buffer.flush()
            added += weight * buffer.scores(keys)
        pool.score[:count] += added
        if self._last.keep_arcs:
            # They were recombined for having the same option after the same state.
            arcs.score[:num_arcs] += added[arcs.target[:num_arcs]]
            self._arcs = grow(arcs, num_arcs + count)
        recombine(self._sentence, self._coverages, pool, self._arcs, self._last.keep_arcs)

    def _keys(self, states: Any, options: Any, complete: Any) -> Any:
        numbers = states.astype(np.int64) * len(self._sentence.score) + options
        return 2 * numbers + complete

    def _requests(self, keys: Any, context: int) -> Requests:
        """Return what the keys of :meth:`_keys` mean."""
        ends = keys % 2 == 1
        states, options = np.divmod(keys // 2, len(self._sentence.score))
        histories = self._states.words[states, :context][:, ::-1]
        begins, sizes = self._sentence.offsets[options], np.diff(self._sentence.offsets)[options]
        offsets = np.zeros(len(keys) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        places = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], sizes)
        phrases = self._sentence.target[places]
        return Requests(np.ascontiguousarray(histories), phrases, offsets, ends)

    def _store(self, stack: int) -> None:
        """Make the pool's rows the hypotheses of a stack, by coverage, the best ones first."""
        pool, count = self._pool, int(self._pool.count[0])
        begin = int(self._hypotheses.stacks[stack])
        end = begin + count
        self._hypotheses = grow(self._hypotheses, end)
        hypotheses = self._hypotheses
        hypotheses.stacks[stack + 1] = end
        order = np.lexsort((-pool.score[:count], pool.coverage[:count]))
        coverage = pool.coverage[order]
        hypotheses.score[begin:end] = pool.score[order] - self._coverages.future[coverage]
        hypotheses.coverage[begin:end] = coverage
        hypotheses.parent[begin:end] = pool.parent[order]
        hypotheses.option[begin:end] = pool.option[order]
        hypotheses.state[begin:end] = pool.state[order]
        num_arcs = int(self._arcs.count[0])
        if num_arcs:
            numbers = np.empty(count, np.int32)
            numbers[order] = np.arange(begin, end)
            rows = self._arcs.target[:num_arcs]
            # Of a hypothesis and its arc all but the way is the same, the future, too.
            loss = pool.score[rows] - self._arcs.score[:num_arcs]
            parent, option = self._arcs.parent[:num_arcs].copy(), self._arcs.option[:num_arcs]
            self._kept_arcs.append((numbers[rows], loss, parent, option.copy()))

    def _lattice(self) -> Lattice:
        hypotheses, length = self._hypotheses, self._sentence.length
        begin, end = int(hypotheses.stacks[length]), int(hypotheses.stacks[length + 1])
        kept = self._kept_arcs or [
            (np.empty(0, np.int32), np.empty(0), *np.empty((2, 0), np.int32))
        ]
        target, loss, parent, option = (
            np.concatenate([arcs[column] for arcs in kept]) for column in range(4)
        )
        order = np.lexsort((loss, target))
        return Lattice(
            score=hypotheses.score[:end].copy(),
            parent=hypotheses.parent[:end].copy(),
            option=hypotheses.option[:end].copy(),
            state=hypotheses.state[:end].copy(),
            first_arc=np.searchsorted(target[order], np.arange(end + 1)),
            arc_loss=loss[order],
            arc_parent=parent[order],
            arc_option=option[order],
            arc_target=target[order],
            goal=begin if end > begin else -1,
        )

    def feature_scores(self, lattice: Lattice, parents: Any, options: Any, last: Any) -> Any:
        """Return what other features gave to extensions, float64 (extensions, features).

        :param parents: the hypotheses that were extended.
        :param last: whether the extension completed the translation.
        """
        keys = self._keys(lattice.state[parents], options, last)
        columns = [buffer.scores(keys) for buffer, _ in self._buffers]
        return np.stack(columns, axis=1) if columns else np.empty((len(options), 0))
