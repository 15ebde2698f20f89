"""Cube pruning: examine only the most promising of all extensions that lead to a stack.

The hypotheses and the options of a block are sorted. If the language model added nothing, the first
two would have the best sum, and each next best sum would be a neighbour of one already taken. So
the search expands from the best corners of all blocks until the pop limit (Huang and Chiang, 2007;
SearchCubePruning and BitmapContainer in Moses).
"""

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.ngram_table import KERNEL
from moses_integration.decoder.search_kernels import end_score, score_option, start_score
from moses_integration.decoder.stack_kernels import offer_extension


class Cubes(NamedTuple):
    """The extensions of blocks as sorted rectangles: rows are hypotheses, columns are options."""

    # int64 (blocks + 1,): where the rows of each block begin.
    rows: Any
    # int32, by row: hypotheses within the distortion limit, the best first.
    hypotheses: Any
    # int64 (blocks + 1,): where the cells of each block begin; and uint8: whether a cell was seen.
    cells: Any
    seen: Any


@KERNEL
def make_cubes(sentence: Any, hypotheses: Any, coverages: Any, blocks: Any) -> Cubes:
    """Sort the hypotheses of each block by their scores with the span."""
    most = 0
    for block in blocks:
        most += block[1] - block[0]
    rows, cells = np.zeros(len(blocks) + 1, np.int64), np.zeros(len(blocks) + 1, np.int64)
    numbers = np.empty(most, np.int32)
    for number in range(len(blocks)):
        block = blocks[number]
        scores = np.empty(block[1] - block[0])
        for hypothesis in range(block[0], block[1]):
            score, _ = start_score(sentence, hypotheses, hypothesis, block[2], block[3])
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
def _push(
    sentence: Any,
    tables: Any,
    hypotheses: Any,
    coverages: Any,
    states: Any,
    memo: Any,
    blocks: Any,
    cubes: Any,
    frontier: Any,
    pushed: int,
    block: int,
    cell: int,
    scratch: Any,
) -> int:
    """Push a cell of a block to the frontier if it is new; return the number of pushed cells."""
    if cubes.seen[cubes.cells[block] + cell]:
        return pushed
    cubes.seen[cubes.cells[block] + cell] = 1
    start, end, first, last, coverage = blocks[block][2:]
    row, column = divmod(cell, last - first)
    hypothesis, option = cubes.hypotheses[cubes.rows[block] + row], first + column
    score, orientation = start_score(sentence, hypotheses, hypothesis, start, end)
    state = hypotheses.state[hypothesis]
    slot = score_option(sentence, tables, states, memo, state, option, scratch)
    score += sentence.score[option] + sentence.backward[option, orientation]
    score += memo.score[slot] + coverages.future[coverage]
    if coverages.first_gap[coverage] == sentence.length:
        score += end_score(sentence, tables, states, memo.state[slot])
    heappush(frontier, (-score, pushed, block, cell))
    return pushed + 1


@KERNEL
def expand_cubes(
    sentence: Any,
    tables: Any,
    hypotheses: Any,
    coverages: Any,
    states: Any,
    memo: Any,
    pool: Any,
    arcs: Any,
    limits: Any,
    blocks: Any,
    cubes: Any,
    pop_limit: int,
    diversity: int,
    scratch: Any,
) -> None:
    """Add the most promising extensions to the pool. All tables must have room.

    :param pop_limit: the number of extensions.
    :param diversity: continue for coverages that got fewer new hypotheses than this.
    """
    # Candidate extensions: loss, insertion order, block and cell.
    frontier = [(0.0, 0, 0, 0)]
    frontier.clear()
    pushed = 0
    for block in range(len(blocks)):
        if cubes.rows[block] < cubes.rows[block + 1]:
            pushed = _push(sentence, tables, hypotheses, coverages, states, memo, blocks, cubes,
                           frontier, pushed, block, 0, scratch)  # fmt: skip
    num_new = np.zeros(coverages.count[0], np.int64)
    pops = 0
    while len(frontier) > 0 and (pops < pop_limit or diversity > 0):
        loss, _, block, cell = heappop(frontier)
        first, last, coverage = blocks[block][4:]
        pops += 1
        if pops > pop_limit and num_new[coverage] >= diversity:
            continue
        width = last - first
        row, column = divmod(cell, width)
        if -loss >= pool.limits[0]:
            hypothesis, option = cubes.hypotheses[cubes.rows[block] + row], first + column
            state = hypotheses.state[hypothesis]
            slot = score_option(sentence, tables, states, memo, state, option, scratch)
            complete = coverages.first_gap[coverage] == sentence.length
            num_new[coverage] += offer_extension(sentence, pool, arcs, limits, -loss, hypothesis,
                option, coverage, state, memo.state[slot], complete)  # fmt: skip
        for neighbour, exists in (
            (cell + 1, column + 1 < width),
            (cell + width, cubes.rows[block] + row + 1 < cubes.rows[block + 1]),
        ):
            if exists:
                pushed = _push(sentence, tables, hypotheses, coverages, states, memo, blocks,
                               cubes, frontier, pushed, block, neighbour, scratch)  # fmt: skip
