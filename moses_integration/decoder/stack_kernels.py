"""Fill the pool of a stack with all extensions, and prune it."""

from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.ngram_table import KERNEL
from moses_integration.decoder.search_kernels import (
    end_score,
    offer,
    score_option,
    start_score,
)
from moses_integration.decoder.search_tables import hash_rows, mix


class Limits(NamedTuple):
    """The limits of a stack."""

    # Hypotheses per stack; 0 for no limit.
    stack_size: int
    # At most 0. Once a stack exceeds its size, a hypothesis is dropped if its score is below the
    # best one's plus this. (Moses also refuses those that come after a much better one at once.)
    beam_width: float
    # Whether to keep recombined hypotheses, for n-best lists.
    keep_arcs: bool
    # Whether to recombine only hypotheses for which other features get the same request.
    by_request: bool


@KERNEL
def room_for(memo: Any, states: Any, pool: Any, arcs: Any, limits: Any, extensions: int) -> Any:
    """Return whether all tables have room for some more extensions."""
    if memo.count[0] + extensions > len(memo.keys) // 4 * 3:
        return False
    if states.count[0] + extensions > len(states.keys):
        return False
    if limits.keep_arcs and arcs.count[0] + extensions > len(arcs.score):
        return False
    return limits.stack_size > 0 or pool.count[0] + extensions <= len(pool.score)


@KERNEL
def expand(
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
    begin: int,
    scratch: Any,
) -> int:
    """Add all extensions of the blocks from ``begin`` on; return the first block without room."""
    # Bind arrays to names: numba counts references to a tuple's fields at every use.
    memo_keys, memo_score, memo_state = memo.keys, memo.score, memo.state
    mask = np.uint64(len(memo_keys) - 1)
    option_score, backward, bound = sentence.score, sentence.backward, sentence.bound
    limit, num_options = pool.limits, len(sentence.score)
    for number in range(begin, len(blocks)):
        block = blocks[number]
        extensions = (block[1] - block[0]) * (block[5] - block[4])
        if not room_for(memo, states, pool, arcs, limits, extensions):
            return number
        coverage = block[6]
        future = coverages.future[coverage]
        if future == -np.inf:
            continue
        complete = coverages.first_gap[coverage] == sentence.length
        for hypothesis in range(block[0], block[1]):
            base, orientation = start_score(sentence, hypotheses, hypothesis, block[2], block[3])
            base += future
            if base < pool.limits[0] or base == -np.inf:
                continue
            state = hypotheses.state[hypothesis]
            key = np.int64(state) * num_options
            for option in range(block[4], block[5]):
                score = base + option_score[option] + backward[option, orientation]
                if score + bound[option] < limit[0]:
                    continue
                # The usual case, without calls; score_option also probes other slots.
                slot = np.int64(mix(np.uint64(key + option)) & mask)
                if memo_keys[slot] != key + option:
                    slot = score_option(sentence, tables, states, memo, state, option, scratch)
                score += memo_score[slot]
                new_state = memo_state[slot]
                if complete:
                    score += end_score(sentence, tables, states, new_state)
                if score < limit[0]:
                    continue
                offer_extension(sentence, pool, arcs, limits, score, hypothesis, option, coverage,
                       state, new_state, complete)  # fmt: skip
    return len(blocks)


@KERNEL
def offer_extension(
    sentence: Any,
    pool: Any,
    arcs: Any,
    limits: Any,
    score: float,
    parent: int,
    option: int,
    coverage: int,
    state: int,
    new_state: int,
    complete: bool,
) -> bool:
    """Offer a hypothesis to the pool, prune that if it is full; return whether the key is new."""
    first: Any = np.int64(option)
    second: Any = np.int64(state)
    if not limits.by_request:
        first, second = _recombination_key(sentence, option, new_state, complete)
    is_new: bool
    _, is_new = offer(
        pool, arcs, limits.keep_arcs, score, parent, option, coverage, first, second, new_state
    )
    if pool.count[0] > limits.stack_size:
        pool.limits[0] = max(pool.limits[0], pool.limits[1] + limits.beam_width)
    if limits.stack_size > 0 and pool.count[0] >= 2 * limits.stack_size:
        prune(pool, arcs, limits)
    return is_new


@KERNEL
def _recombination_key(sentence: Any, option: int, state: int, complete: bool) -> Any:
    """Return two numbers that are equal for hypotheses of a coverage with the same future."""
    if complete:
        return np.int64(0), np.int64(0)
    return np.int64(sentence.group[option]), np.int64(state)


@KERNEL
def _select(scores: Any, rank: int) -> Any:
    """Return the score of a rank, 1 for the highest; reorders the scores (Hoare's FIND)."""
    # numba takes two seconds to compile numpy's partition.
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
    """Keep the best hypotheses of a pool and their arcs, up to the stack size; first of equals."""
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
            _move(pool, row, kept)
            moved[row] = kept
            kept += 1
    if kept == count:
        return
    pool.count[0] = kept
    hash_rows(pool)
    if limits.keep_arcs:
        _redirect(arcs, moved)


@KERNEL
def _move(pool: Any, row: int, to: int) -> None:
    """Copy a row of a pool to another one."""
    pool.score[to], pool.parent[to] = pool.score[row], pool.parent[row]
    pool.option[to], pool.state[to] = pool.option[row], pool.state[row]
    pool.keys[to] = pool.keys[row]


@KERNEL
def _redirect(arcs: Any, moved: Any) -> None:
    """Point arcs to the new rows of the pool; drop those whose row is gone."""
    kept = 0
    for row in range(arcs.count[0]):
        target = moved[arcs.target[row]]
        if target >= 0:
            arcs.score[kept], arcs.target[kept] = arcs.score[row], target
            arcs.parent[kept], arcs.option[kept] = arcs.parent[row], arcs.option[row]
            kept += 1
    arcs.count[0] = kept


@KERNEL
def recombine(sentence: Any, coverages: Any, pool: Any, arcs: Any, keep_arcs: bool) -> None:
    """Recombine hypotheses that were kept apart until other features had scored them.

    There must be room for as many arcs as the pool has rows.
    """
    count = pool.count[0]
    moved = np.empty(count, np.int32)
    num_arcs = arcs.count[0]
    pool.count[0] = 0
    pool.slots[:] = -1
    pool.limits[0] = pool.limits[1] = -np.inf
    for row in range(count):
        option, coverage, state = pool.option[row], pool.keys[row, 0], pool.state[row]
        complete = coverages.first_gap[coverage] == sentence.length
        first, second = _recombination_key(sentence, option, state, complete)
        # Existing arcs stay for now: the new rows of their targets are not known yet.
        moved[row], _ = offer(pool, arcs, keep_arcs, pool.score[row], pool.parent[row], option,
                              coverage, first, second, state)  # fmt: skip
    for row in range(num_arcs):
        arcs.target[row] = moved[arcs.target[row]]
