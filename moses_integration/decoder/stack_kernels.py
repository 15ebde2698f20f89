"""Fill the pool for a stack with extensions, exhaustively or by cube pruning, and prune it.

Cube pruning sorts the hypotheses and the options in a block. Without the language model, the best
sum would be in the first corner, and each next best sum adjacent to one already taken. The search
therefore expands from the best corner of every block to neighbours until it reaches the pop limit
(Huang and Chiang, 2007; SearchCubePruning and BitmapContainer in Moses).
"""

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.search_tables import (
    UNFINISHED,
    add_row,
    end_score,
    find_orientation,
    hash_rows,
    memo_key,
    memo_room,
    score_option,
)
from phrasescore.io.hashing import first_slot
from phrasescore.io.kernel_cache import borrow
from phrasescore.language_models.ngram_table import KERNEL


class Limits(NamedTuple):
    """The limits of a stack, in the form that kernels take."""

    stack_size: int  # hypotheses per stack; 0 for no limit
    # At most 0. When a stack exceeds its size, hypotheses are dropped if their score is below the
    # best score plus this. (Moses also rejects a hypothesis that is added after a much better one.)
    beam_width: float
    keep_arcs: bool  # whether to keep recombined hypotheses, for n-best lists
    by_request: bool  # recombine only hypotheses that send the same request to other features


@KERNEL
def _start_score(sentence: Any, hypotheses: Any, hypothesis: int, start: int, end: int) -> Any:
    """Return the score for the jump to a span (-inf beyond the limit), and its orientation."""
    before, after = -1, 0
    last = hypotheses.option[hypothesis]
    if last >= 0:
        before, after = sentence.start[last], sentence.end[last]
    distance = abs(after - start)
    orientation = find_orientation(before, after, start, end)
    if sentence.distortion_limit >= 0 and distance > sentence.distortion_limit:
        return -np.inf, orientation
    score = hypotheses.score[hypothesis] - distance * sentence.distortion_weight
    if last >= 0:
        score += sentence.forward[last, orientation]
    return score, orientation


@KERNEL
def _has_room(tables: Any, limits: Any, extensions: int) -> Any:
    memo, states, pool, arcs = tables.memo, tables.states, tables.pool, tables.arcs
    if memo.count[0] + extensions > memo_room(memo):
        return False
    if states.count[0] + extensions > len(states.keys):
        return False
    if limits.keep_arcs and arcs.count[0] + extensions > len(arcs.score):
        return False
    return limits.stack_size > 0 or pool.count[0] + extensions <= len(pool.score)


@KERNEL
def expand(sentence: Any, tables: Any, limits: Any, blocks: Any, begin: int, scratch: Any) -> int:
    """Add the extensions in ``blocks[begin:]``; return the index of the first that did not fit."""
    sentence, tables, blocks, scratch = borrow((sentence, tables, blocks, scratch))
    hypotheses, coverages = tables.hypotheses, tables.coverages
    pool, arcs, states, memo = tables.pool, tables.arcs, tables.states, tables.memo
    memo_keys, memo_values = memo.keys, memo.values
    option_score, backward, bound = sentence.score, sentence.backward, sentence.bound
    limit = pool.limits
    for number in range(begin, len(blocks)):
        block = blocks[number]
        extensions = (block[1] - block[0]) * (block[5] - block[4])
        if not _has_room(tables, limits, extensions):
            return number
        coverage = block[6]
        future = coverages.future[coverage]
        if future == -np.inf:
            continue
        complete = coverages.first_gap[coverage] == sentence.length
        for parent in range(block[0], block[1]):
            base, orientation = _start_score(sentence, hypotheses, parent, block[2], block[3])
            base += future
            if base < limit[0] or base == -np.inf:
                continue
            state = hypotheses.state[parent]
            for option in range(block[4], block[5]):
                score = base + option_score[option] + backward[option, orientation]
                if score + bound[option] < limit[0]:
                    continue
                # The usual case, inlined; score_option also probes other slots.
                key = memo_key(sentence, state, option)
                slot = first_slot(memo_keys, key)
                if memo_keys[slot, 0] != key or memo_keys[slot, 2] == UNFINISHED:
                    highest = score + max(bound[option], 0.0)  # infinite for a negative weight
                    slot = score_option(
                        sentence, states, memo, state, option, scratch, highest, limit[0]
                    )
                    if memo_keys[slot, 2] == UNFINISHED:
                        continue
                score += memo_values[slot, 1]
                new_state = np.int32(memo_keys[slot, 2])
                if complete:
                    score += end_score(sentence, states, new_state)
                if score < limit[0]:
                    continue
                pair = state, new_state
                _offer(
                    sentence, pool, arcs, limits, score, parent, option, pair, coverage, complete
                )
    return len(blocks)


@KERNEL
def _offer(sentence, pool, arcs, limits, score, parent, option, states, coverage, complete):  # type: ignore[no-untyped-def]
    """Add a hypothesis or recombine it, and prune a full pool."""
    old_state, new_state = states
    key = np.int64(coverage), np.int64(option), np.int64(old_state)
    if not limits.by_request:
        key = _recombination_key(sentence, coverage, option, new_state, complete)
    offer(pool, arcs, limits.keep_arcs, score, parent, option, key, new_state)
    if pool.count[0] > limits.stack_size:
        pool.limits[0] = max(pool.limits[0], pool.limits[1] + limits.beam_width)
    if limits.stack_size > 0 and pool.count[0] >= 2 * limits.stack_size:
        prune(pool, arcs, limits)


@KERNEL
def _add_arc(arcs: Any, score: float, parent: int, option: int, target: int) -> None:
    row = arcs.count[0]
    arcs.count[0] = row + 1
    arcs.score[row], arcs.target[row] = score, target
    arcs.parent[row], arcs.option[row] = parent, option


@KERNEL
def offer(pool, arcs, keep_arcs, score, parent, option, key, state):  # type: ignore[no-untyped-def]
    """Add a hypothesis to the pool, or recombine it with the one that has the same key.

    On equal scores the earlier hypothesis is kept. The pool must have a free row, which is
    returned, or the row of the other hypothesis.
    """
    row, is_new = add_row(pool, key)
    if not is_new and score <= pool.score[row]:
        if keep_arcs:
            _add_arc(arcs, score, parent, option, row)
        return row
    if keep_arcs and not is_new:
        _add_arc(arcs, pool.score[row], pool.parent[row], pool.option[row], row)
    pool.score[row], pool.parent[row], pool.option[row] = score, parent, option
    pool.state[row] = state
    pool.limits[1] = max(pool.limits[1], score)
    return row


@KERNEL
def _recombination_key(sentence, coverage, option, state, complete):  # type: ignore[no-untyped-def]
    """Return three numbers that are equal for hypotheses to be recombined."""
    if complete:
        return np.int64(coverage), np.int64(0), np.int64(0)
    return np.int64(coverage), np.int64(sentence.group[option]), np.int64(state)


@KERNEL
def _select(scores: Any, rank: int) -> Any:
    """Return the score at a rank (1 is the highest), reordering the scores (Hoare's FIND)."""
    # numpy.partition would take numba two seconds to compile.
    first, last = 0, len(scores) - 1
    while first < last:
        pivot = scores[(first + last) // 2]
        low, high = first, last
        while low <= high:
            while scores[low] > pivot:
                low += 1
            while scores[high] < pivot:
                high -= 1
            if low <= high:
                scores[low], scores[high] = scores[high], scores[low]
                low += 1
                high -= 1
        if rank - 1 <= high:
            last = high
        elif rank - 1 >= low:
            first = low
        else:
            break
    return scores[rank - 1]


@KERNEL
def prune(pool: Any, arcs: Any, limits: Any) -> None:
    """Prune a pool to the stack size, with the arcs; on equal scores the earlier rows are kept."""
    pool, arcs = borrow((pool, arcs))
    count, size = pool.count[0], limits.stack_size
    if count <= size:
        return
    cut = pool.limits[1] + limits.beam_width
    ties = count
    if size > 0:
        lowest = _select(pool.score[:count].copy(), size)
        if lowest >= cut:
            cut = lowest
            ties = size
            for row in range(count):
                ties -= 1 if pool.score[row] > cut else 0
    pool.limits[0] = max(pool.limits[0], cut)
    moved = np.full(count, -1, np.int32)
    kept = 0
    for row in range(count):
        score = pool.score[row]
        if score > cut or (score == cut and ties > 0):
            ties -= 1 if score == cut else 0
            pool.score[kept], pool.parent[kept] = score, pool.parent[row]
            pool.option[kept], pool.state[kept] = pool.option[row], pool.state[row]
            pool.keys[kept] = pool.keys[row]
            moved[row] = kept
            kept += 1
    if kept == count:
        return
    pool.count[0] = kept
    hash_rows(pool)
    if not limits.keep_arcs:
        return
    kept = 0
    for row in range(arcs.count[0]):
        target = moved[arcs.target[row]]
        if target >= 0:  # otherwise the row was dropped
            arcs.score[kept], arcs.target[kept] = arcs.score[row], target
            arcs.parent[kept], arcs.option[kept] = arcs.parent[row], arcs.option[row]
            kept += 1
    arcs.count[0] = kept


@KERNEL
def recombine(sentence: Any, tables: Any, keep_arcs: bool) -> None:
    """Recombine hypotheses that had to be scored by other features first; arcs must have room."""
    sentence, tables = borrow((sentence, tables))
    pool, arcs, coverages = tables.pool, tables.arcs, tables.coverages
    count = pool.count[0]
    moved = np.empty(count, np.int32)
    num_arcs = arcs.count[0]
    pool.count[0] = 0
    pool.slots[:] = -1
    pool.limits[0] = pool.limits[1] = -np.inf
    for row in range(count):
        option, coverage, state = pool.option[row], pool.keys[row, 0], pool.state[row]
        complete = coverages.first_gap[coverage] == sentence.length
        key = _recombination_key(sentence, coverage, option, state, complete)
        # Existing arcs are updated later, because the new rows of their targets are not yet known.
        moved[row] = offer(
            pool, arcs, keep_arcs, pool.score[row], pool.parent[row], option, key, state
        )
    for row in range(num_arcs):
        arcs.target[row] = moved[arcs.target[row]]


# Cube pruning


class Cubes(NamedTuple):
    """The extensions of blocks as sorted rectangles: rows are hypotheses, columns are options."""

    rows: Any  # int64 (blocks + 1,): where the rows of each block begin
    hypotheses: Any  # int32, by row: hypotheses within the distortion limit, best first
    cells: Any  # int64 (blocks + 1,): where the cells of each block begin
    seen: Any  # uint8, by cell: whether it has been pushed to the frontier


@KERNEL
def make_cubes(sentence: Any, tables: Any, blocks: Any) -> Cubes:
    """Sort the hypotheses in each block by their score plus the score for the jump to the span."""
    sentence, tables, blocks = borrow((sentence, tables, blocks))
    hypotheses, coverages = tables.hypotheses, tables.coverages
    rows, cells = np.zeros(len(blocks) + 1, np.int64), np.zeros(len(blocks) + 1, np.int64)
    size = 0
    for block in blocks:
        size += block[1] - block[0]
    numbers = np.empty(size, np.int32)
    for number in range(len(blocks)):
        block = blocks[number]
        scores = np.empty(block[1] - block[0])
        for hypothesis in range(block[0], block[1]):
            score, _ = _start_score(sentence, hypotheses, hypothesis, block[2], block[3])
            scores[hypothesis - block[0]] = score
        count = rows[number]
        if coverages.future[block[6]] > -np.inf:
            for row in np.argsort(-scores, kind="mergesort"):
                if scores[row] > -np.inf:
                    numbers[count] = block[0] + row
                    count += 1
        rows[number + 1] = count
        cells[number + 1] = cells[number] + (count - rows[number]) * (block[5] - block[4])
    return Cubes(rows, numbers[: rows[-1]], cells, np.zeros(cells[-1], np.uint8))


@KERNEL
def _push(sentence, tables, blocks, cubes, frontier, candidate, scratch):  # type: ignore[no-untyped-def]
    """Push a cell to the frontier if it is new; return the number of cells pushed so far."""
    hypotheses, coverages, states, memo = tables
    pushed, block, cell = candidate
    if cubes.seen[cubes.cells[block] + cell]:
        return pushed
    cubes.seen[cubes.cells[block] + cell] = 1
    start, end, first, last, coverage = blocks[block][2:]
    row, column = divmod(cell, last - first)
    hypothesis, option = cubes.hypotheses[cubes.rows[block] + row], first + column
    score, orientation = _start_score(sentence, hypotheses, hypothesis, start, end)
    state = hypotheses.state[hypothesis]
    slot = score_option(sentence, states, memo, state, option, scratch, 0.0, -np.inf)
    score += sentence.score[option] + sentence.backward[option, orientation]
    score += memo.values[slot, 1] + coverages.future[coverage]
    if coverages.first_gap[coverage] == sentence.length:
        score += end_score(sentence, states, np.int32(memo.keys[slot, 2]))
    heappush(frontier, (-score, pushed, block, cell))
    return pushed + 1


@KERNEL
def expand_cubes(sentence, tables, limits, blocks, cubes, pop_limit, scratch):  # type: ignore[no-untyped-def]
    """Add the ``pop_limit`` most promising extensions to the pool. All tables must have room."""
    sentence, tables, blocks, cubes, scratch = borrow((sentence, tables, blocks, cubes, scratch))
    hypotheses, coverages, pool = tables.hypotheses, tables.coverages, tables.pool
    states, memo, arcs = tables.states, tables.memo, tables.arcs
    parts = hypotheses, coverages, states, memo
    # Candidate extensions: loss, insertion order, block and cell.
    frontier = [(0.0, 0, 0, 0)]
    frontier.clear()
    pushed = 0
    for block in range(len(blocks)):
        if cubes.rows[block] < cubes.rows[block + 1]:
            candidate = (pushed, block, 0)
            pushed = _push(sentence, parts, blocks, cubes, frontier, candidate, scratch)
    for _ in range(pop_limit):
        if len(frontier) == 0:
            break
        loss, _, block, cell = heappop(frontier)
        first, last, coverage = blocks[block][4:]
        width = last - first
        row, column = divmod(cell, width)
        if -loss >= pool.limits[0]:
            hypothesis, option = cubes.hypotheses[cubes.rows[block] + row], first + column
            state = hypotheses.state[hypothesis]
            slot = score_option(sentence, states, memo, state, option, scratch, 0.0, -np.inf)
            new_state = np.int32(memo.keys[slot, 2])
            complete = coverages.first_gap[coverage] == sentence.length
            pair = state, new_state
            _offer(
                sentence, pool, arcs, limits, -loss, hypothesis, option, pair, coverage, complete
            )
        for neighbour, exists in (
            (cell + 1, column + 1 < width),
            (cell + width, cubes.rows[block] + row + 1 < cubes.rows[block + 1]),
        ):
            if exists:
                candidate = (pushed, block, neighbour)
                pushed = _push(sentence, parts, blocks, cubes, frontier, candidate, scratch)
