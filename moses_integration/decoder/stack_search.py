"""Search one sentence stack by stack, each stack from all smaller ones, and list the best paths.

Moses pushes extensions of a hypothesis into later stacks (SearchNormal). Here a stack *pulls* them
from the smaller stacks once these are final. The hypotheses are the same, but other features can
score them in batches.

Every hypothesis knows its best arc, and has a list of alternative arcs. A path is described by
another path and one arc at which it leaves the best continuation of that path. A heap of such pairs
yields the paths exactly in score order (Eppstein, 1998; the order of Moses' deviations,
Manager::CalcNBest).
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.ngram_table import BEGIN, KERNEL
from moses_integration.decoder.options import Sentence, ranges
from moses_integration.decoder.search_kernels import (
    BLOCK_COLUMNS,
    describe_coverage,
    list_blocks,
)
from moses_integration.decoder.search_limits import SearchLimits
from moses_integration.decoder.search_tables import add_row, grow, make_tables
from moses_integration.decoder.stack_kernels import (
    Limits,
    expand,
    expand_cubes,
    make_cubes,
    prune,
    recombine,
)
from moses_integration.decoder.stateful import AlignedWords, RequestBuffer, Requests
from phrasescore.io.hashing import mix

# Initial numbers of rows, enough for a sentence of about ten words.
_FEW, _MANY = 1 << 10, 1 << 15
# For each hypothesis that a stack keeps, this many of the best are scored by other features.
_CANDIDATES = 10


class Lattice(NamedTuple):
    """The hypotheses of a sentence, and the arcs that lead to each."""

    # By number of the hypothesis: predecessor (-1 for the empty one), option, and state.
    parent: Any
    option: Any
    state: Any
    # The alternative arcs of a hypothesis are first_arc[number] .. first_arc[number + 1], best
    # first: the loss compared to the best arc, the predecessor, the option, and the hypothesis.
    first_arc: Any
    arc_loss: Any
    arc_parent: Any
    arc_option: Any
    arc_target: Any
    # The complete hypothesis, -1 if the sentence cannot be covered.
    goal: int


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
        pool = 1 << max(2 * self._first.stack_size, 512).bit_length()
        arcs = _MANY if keep_arcs else 1
        self._tables = make_tables(sentence.length, self._width, _FEW, _MANY, pool, arcs)
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


class Paths(NamedTuple):
    """Derivations, best first."""

    # int64 (paths + 1,): where the options of each path begin.
    offsets: Any
    # int32: options in target order, and the hypotheses that they extend.
    options: Any
    parents: Any


@KERNEL
def _walk(lattice: Any, before: Any, arcs: Any, path: int, options: Any, parents: Any) -> int:
    """Write a path from its end to its beginning; return its length."""
    num_arcs = 0
    current = path
    while current > 0:  # path 0 takes no arc
        num_arcs += 1
        current = before[current]
    turns = np.empty(num_arcs, np.int64)
    current = path
    for index in range(num_arcs - 1, -1, -1):
        turns[index] = arcs[current]
        current = before[current]
    node, turn, length = lattice.goal, 0, 0
    while lattice.parent[node] >= 0 or (
        turn < num_arcs and lattice.arc_target[turns[turn]] == node
    ):
        if turn < num_arcs and lattice.arc_target[turns[turn]] == node:
            options[length] = lattice.arc_option[turns[turn]]
            node = lattice.arc_parent[turns[turn]]
            turn += 1
        else:
            options[length] = lattice.option[node]
            node = lattice.parent[node]
        parents[length] = node
        length += 1
    return length


@KERNEL
def _hash_words(offsets: Any, target: Any, options: Any, length: int) -> Any:
    key = np.uint64(0)
    for index in range(length - 1, -1, -1):
        for word in range(offsets[options[index]], offsets[options[index] + 1]):
            key = mix(key ^ np.uint64(target[word] + 1))
    return key


@KERNEL
def best_paths(
    lattice: Any, offsets: Any, target: Any, count: int, most: int, distinct: bool
) -> Paths:
    """Return the best paths through a lattice with a goal.

    :param offsets: the index in ``target`` of each option's first word.
    :param most: maximum number of paths to examine.
    :param distinct: leave out paths with the words of a better one. Words are compared by a 64-bit
        hash, which confuses two of 10,000 paths with a chance of 1 in 10^11.
    """
    # Loss, insertion order, the path that is left, and the arc at which it is left.
    heap = [(0.0, 0, -1, -1)]
    pushed = 1
    # For each path taken from the heap: the path that it leaves, and the arc.
    before, arcs = np.empty(most, np.int64), np.empty(most, np.int64)
    options, parents = np.empty((2, len(lattice.parent) + 1), np.int32)
    begins = [0]
    out_options, out_parents = [np.int32(0)], [np.int32(0)]
    out_options.clear()
    out_parents.clear()
    texts = {np.uint64(0)}
    texts.clear()
    for path in range(most):
        if len(heap) == 0 or len(begins) > count:
            break
        loss, _, before[path], arcs[path] = heappop(heap)
        arc, node = arcs[path], lattice.goal
        if arc >= 0:
            node = lattice.arc_parent[arc]
            if arc + 1 < lattice.first_arc[lattice.arc_target[arc] + 1]:
                # The next best arc to the same hypothesis replaces this one.
                next_loss = loss - lattice.arc_loss[arc] + lattice.arc_loss[arc + 1]
                heappush(heap, (next_loss, pushed, before[path], arc + 1))
                pushed += 1
        while node >= 0:
            arc = lattice.first_arc[node]
            if arc < lattice.first_arc[node + 1]:
                heappush(heap, (loss + lattice.arc_loss[arc], pushed, path, arc))
                pushed += 1
            node = lattice.parent[node]
        length = _walk(lattice, before, arcs, path, options, parents)
        if distinct:
            key = _hash_words(offsets, target, options, length)
            if key in texts:
                continue
            texts.add(key)
        for index in range(length - 1, -1, -1):
            out_options.append(options[index])
            out_parents.append(parents[index])
        begins.append(len(out_options))
    return Paths(np.array(begins), np.array(out_options), np.array(out_parents))
