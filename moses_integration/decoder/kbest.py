"""Find the best paths through the lattice of a search: n-best lists.

Every hypothesis knows its best arc, and has a list of alternative arcs. A path is described by
another path and one arc at which it leaves the best continuation of that path. A heap of such pairs
yields the paths exactly in score order (Eppstein, 1998; the order of Moses' deviations,
Manager::CalcNBest).
"""

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.ngram_table import KERNEL
from phrasescore.io.hashing import mix


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

    :param offsets: where the words of each option begin in ``target``.
    :param most: how many paths are examined.
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
