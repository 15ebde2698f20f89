"""The best paths through what a search has kept: n-best lists.

Every hypothesis knows the best way to it, and by its arcs all others. A path is then another path
and one arc on which it leaves that path's best continuation; a heap of such pairs gives the paths
in the order of their scores, exactly (Eppstein, 1998; the order is that of Moses' deviations,
Manager::CalcNBest).
"""

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.ngram_table import KERNEL
from moses_integration.decoder.search_tables import mix


class Lattice(NamedTuple):
    """The hypotheses of a sentence and all ways to them."""

    # By number: hypothesis before (-1 for the empty one), option, number of its state.
    parent: Any
    option: Any
    state: Any
    # Other ways: those to a hypothesis stand at first_arc[number] .. first_arc[number + 1], best
    # first; how much each loses against the best one, where it comes from, and its option.
    first_arc: Any
    arc_loss: Any
    arc_parent: Any
    arc_option: Any
    arc_target: Any
    # The complete hypothesis, -1 if the sentence cannot be covered.
    goal: int


class Paths(NamedTuple):
    """Derivations, best first."""

    # int64 (paths + 1,): where the options of each begin.
    offsets: Any
    # int32: options in the order of the target, and the hypotheses that they extend.
    options: Any
    parents: Any


def best_paths(
    lattice: Lattice, offsets: Any, target: Any, count: int, *, distinct: bool, factor: int
) -> Paths:
    """Return the best paths through a lattice with a goal.

    :param offsets: words of the options begin here, in ``target``.
    :param distinct: leave out paths with the words of a better one. Words are known by a 64-bit
        hash: among 10,000 paths two of them have the same with a chance of 1 in 10^11.
    :param factor: with ``distinct``, look at up to ``factor`` paths for each one that is wanted,
        as with Moses' ``-n-best-factor``.
    """
    most = count * factor if distinct else count
    return Paths(*_search(lattice, offsets, target, count, most, distinct))


@KERNEL
def _walk(lattice: Any, before: Any, arcs: Any, path: int, options: Any, parents: Any) -> int:
    """Write a path from its end to its begin; return its length."""
    num_arcs = 0
    leave = path
    while leave > 0:  # path 0 takes no arc
        num_arcs += 1
        leave = before[leave]
    turns = np.empty(num_arcs, np.int64)
    leave = path
    for place in range(num_arcs - 1, -1, -1):
        turns[place] = arcs[leave]
        leave = before[leave]
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
    """Return a hash of the target words of a path that stands from its end to its begin."""
    key = np.uint64(0)
    for place in range(length - 1, -1, -1):
        for word in range(offsets[options[place]], offsets[options[place] + 1]):
            key = mix(key ^ np.uint64(target[word] + 1))
    return key


@KERNEL
def _search(
    lattice: Any, offsets: Any, target: Any, count: int, most: int, distinct: bool
) -> tuple[Any, Any, Any]:
    # A loss, when it was pushed, the path that is left, and the arc on which it is left.
    heap = [(0.0, 0, -1, -1)]
    pushed = 1
    # Paths that were taken from the heap.
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
                # The next best arc to the same place: it takes the place of this one.
                other = loss - lattice.arc_loss[arc] + lattice.arc_loss[arc + 1]
                heappush(heap, (other, pushed, before[path], arc + 1))
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
        for place in range(length - 1, -1, -1):
            out_options.append(options[place])
            out_parents.append(parents[place])
        begins.append(len(out_options))
    return np.array(begins), np.array(out_options), np.array(out_parents)
