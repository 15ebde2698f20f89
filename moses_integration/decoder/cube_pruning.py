"""Cube pruning: of all extensions that lead to a stack, look only at the most promising ones.

The hypotheses and the options of a block are sorted; if the language model said nothing new, the
best sum would be that of the two first, and each further one next to one that has been taken. So
the search goes from the best corner of all blocks on, as often as the pop limit says (Huang and
Chiang, 2007; SearchCubePruning and BitmapContainer in Moses).
"""

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.ngram_table import KERNEL
from moses_integration.decoder.search_kernels import end_score, score_option, start_score
from moses_integration.decoder.stack_kernels import offer_extension


class Cubes(NamedTuple):
    """The extensions of blocks as sorted squares: rows are hypotheses, columns options."""

    # int64 (blocks + 1,): where the rows of each begin.
    rows: Any
    # int32, by rows: hypotheses within the distortion limit, the best first.
    hypotheses: Any
    # int64 (blocks + 1,) and uint8: whether a cell has been looked at.
    cells: Any
    seen: Any


@KERNEL
def make_cubes(sentence: Any, hypotheses: Any, coverages: Any, blocks: Any) -> Cubes:
    """Sort the hypotheses of each block by what they score once they have come to the span.

    Options are sorted already.
    """
    most = 0
    for block in blocks:
        most += block[1] - block[0]
    rows, cells = np.zeros(len(blocks) + 1, np.int64), np.zeros(len(blocks) + 1, np.int64)
    numbers = np.empty(most, np.int32)
    for place in range(len(blocks)):
        block = blocks[place]
        scores = np.empty(block[1] - block[0])
        for hypothesis in range(block[0], block[1]):
            score, _ = start_score(sentence, hypotheses, hypothesis, block[2], block[3])
            scores[hypothesis - block[0]] = score
        count = rows[place]
        if coverages.future[block[6]] > -np.inf:
            for row in np.argsort(-scores, kind="mergesort"):
                if scores[row] > -np.inf:
                    numbers[count] = block[0] + row
                    count += 1
        rows[place + 1] = count
        cells[place + 1] = cells[place] + (count - rows[place]) * (block[5] - block[4])
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
    """Score a cell of a block and add it to the frontier, unless it has been there already.

    :return: how many cells have been pushed then.
    """
    if cubes.seen[cubes.cells[block] + cell]:
        return pushed
    cubes.seen[cubes.cells[block] + cell] = 1
    start, end, first, last, coverage = blocks[block][2:]
    row, column = divmod(cell, last - first)
    hypothesis, option = cubes.hypotheses[cubes.rows[block] + row], first + column
    score, orientation = start_score(sentence, hypotheses, hypothesis, start, end)
    state = hypotheses.state[hypothesis]
    place = score_option(sentence, tables, states, memo, state, option, scratch)
    score += sentence.score[option] + sentence.backward[option, orientation]
    score += memo.score[place] + coverages.future[coverage]
    if coverages.first_gap[coverage] == sentence.length:
        score += end_score(sentence, tables, states, memo.state[place])
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

    :param pop_limit: how many.
    :param diversity: go on for coverages that have got fewer new hypotheses than this.
    """
    # The extensions that come next: a loss, when it was pushed, block and cell.
    frontier = [(0.0, 0, 0, 0)]
    frontier.clear()
    pushed = 0
    for block in range(len(blocks)):
        if cubes.rows[block] < cubes.rows[block + 1]:
            pushed = _push(sentence, tables, hypotheses, coverages, states, memo, blocks, cubes,
                           frontier, pushed, block, 0, scratch)  # fmt: skip
    got = np.zeros(coverages.count[0], np.int64)
    pops = 0
    while len(frontier) > 0 and (pops < pop_limit or diversity > 0):
        loss, _, block, cell = heappop(frontier)
        first, last, coverage = blocks[block][4:]
        pops += 1
        if pops > pop_limit and got[coverage] >= diversity:
            continue
        width = last - first
        row, column = divmod(cell, width)
        if -loss >= pool.limits[0]:
            hypothesis, option = cubes.hypotheses[cubes.rows[block] + row], first + column
            state = hypotheses.state[hypothesis]
            place = score_option(sentence, tables, states, memo, state, option, scratch)
            complete = coverages.first_gap[coverage] == sentence.length
            got[coverage] += offer_extension(sentence, pool, arcs, limits, -loss, hypothesis,
                option, coverage, state, memo.state[place], complete)  # fmt: skip
        for neighbour, is_there in (
            (cell + 1, column + 1 < width),
            (cell + width, cubes.rows[block] + row + 1 < cubes.rows[block + 1]),
        ):
            if is_there:
                pushed = _push(sentence, tables, hypotheses, coverages, states, memo, blocks,
                               cubes, frontier, pushed, block, neighbour, scratch)  # fmt: skip
