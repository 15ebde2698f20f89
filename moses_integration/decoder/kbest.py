"""The best paths through what a search has kept: n-best lists.

Every hypothesis knows the best way to it, and by its arcs all others. A path is then another path
and one arc on which it leaves that path's best continuation; a heap of such pairs gives the paths
in the order of their scores, exactly (Eppstein, 1998; the order is that of Moses' deviations,
Manager::CalcNBest).
"""

from typing import Any, NamedTuple

import numpy as np

from moses_integration.decoder.best_first import pop, push
from moses_integration.decoder.ngram_table import KERNEL
from moses_integration.decoder.search_tables import mix


class Lattice(NamedTuple):
    """The hypotheses of a sentence and all ways to them."""

    # By number: score without an estimate of the future, hypothesis before (-1 for the empty one),
    # option, number of its state.
    score: Any
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
    """Return the best paths.

    :param offsets: words of the options begin here, in ``target``.
    :param distinct: leave out paths with the words of a better one.
    :param factor: with ``distinct``, look at no more than so many paths for each that is wanted,
        as Moses' ``-n-best-factor``.
    """
    if lattice.goal < 0 or count < 1:
        empty = np.zeros(0, np.int32)
        return Paths(np.zeros(1, np.int64), empty, empty)
    if count == 1:
        return _best_path(lattice)
    most = count * factor if distinct else count
    begins, options, parents = _search(lattice, offsets, target, count, most, distinct)
    return Paths(begins, options, parents)


def _best_path(lattice: Lattice) -> Paths:
    options, parents = [], []
    node = lattice.goal
    while lattice.parent[node] >= 0:
        options.append(lattice.option[node])
        node = lattice.parent[node]
        parents.append(node)
    ends = np.array([0, len(options)], np.int64)
    return Paths(ends, np.array(options[::-1], np.int32), np.array(parents[::-1], np.int32))


@KERNEL
def _longer(array: Any, size: int) -> Any:
    """Return an array with room for ``size`` items, the old ones first."""
    if size <= len(array):
        return array
    new = np.empty(2 * size, array.dtype)
    new[: len(array)] = array
    return new


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
def _words(offsets: Any, target: Any, options: Any, length: int, words: Any) -> Any:
    """Write the target words of a path that stands from its end to its begin."""
    count = 0
    for place in range(length - 1, -1, -1):
        for word in range(offsets[options[place]], offsets[options[place] + 1]):
            words = _longer(words, count + 1)
            words[count] = target[word]
            count += 1
    return words, count


@KERNEL
def _is_new(texts: Any, begins: Any, slots: Any, words: Any, count: int) -> Any:
    """Return whether no text has these words, and the slot where one with them belongs."""
    key = np.uint64(count)
    for place in range(count):
        key = mix(key ^ np.uint64(np.uint32(words[place])))
    mask = len(slots) - 1
    slot = np.int64(key & np.uint64(mask))
    while slots[slot] >= 0:
        text = slots[slot]
        same = begins[text + 1] - begins[text] == count
        for place in range(count):
            same = same and texts[begins[text] + place] == words[place]
            if not same:
                break
        if same:
            return False, slot
        slot = (slot + 1) & mask
    return True, slot


@KERNEL
def _search(
    lattice: Any, offsets: Any, target: Any, count: int, most: int, distinct: bool
) -> tuple[Any, Any, Any]:
    # The heap: a loss, the path that is left, the arc it is left on, and when it was pushed.
    losses, order = np.empty(256), np.empty(256, np.int64)
    heap_before, heap_arcs = np.empty(256, np.int64), np.empty(256, np.int64)
    # Paths that were taken from it.
    before, arcs = np.empty(most, np.int64), np.empty(most, np.int64)
    options, parents = np.empty((2, len(lattice.score) + 1), np.int32)
    out_options, out_parents = np.empty(64, np.int32), np.empty(64, np.int32)
    begins = np.zeros(count + 1, np.int64)
    texts, text_begins = np.empty(64, np.int32), np.zeros(count + 1, np.int64)
    words, slots = np.empty(64, np.int32), np.full(4, -1, np.int64)
    while distinct and len(slots) < 2 * count:
        slots = np.full(2 * len(slots), -1, np.int64)
    size, pushed, found = 0, 0, 0
    loss, node = 0.0, lattice.goal
    before[0], arcs[0] = -1, -1
    for path in range(most):
        if path > 0:
            if size == 0:
                break
            pop(losses, heap_before, heap_arcs, order, size)
            size -= 1
            loss, before[path], arcs[path] = losses[size], heap_before[size], heap_arcs[size]
            arc = arcs[path]
            node = lattice.arc_parent[arc]
            if arc + 1 < lattice.first_arc[lattice.arc_target[arc] + 1]:
                # The next best arc to the same place: it takes the place of this one.
                losses[size] = loss - lattice.arc_loss[arc] + lattice.arc_loss[arc + 1]
                heap_before[size], heap_arcs[size] = before[path], arc + 1
                order[size] = pushed
                size, pushed = size + 1, pushed + 1
                push(losses, heap_before, heap_arcs, order, size)
        while node >= 0:
            arc = lattice.first_arc[node]
            if arc < lattice.first_arc[node + 1]:
                losses, order = _longer(losses, size + 2), _longer(order, size + 2)
                heap_before = _longer(heap_before, size + 2)
                heap_arcs = _longer(heap_arcs, size + 2)
                losses[size], order[size] = loss + lattice.arc_loss[arc], pushed
                heap_before[size], heap_arcs[size] = path, arc
                size, pushed = size + 1, pushed + 1
                push(losses, heap_before, heap_arcs, order, size)
            node = lattice.parent[node]
        length = _walk(lattice, before, arcs, path, options, parents)
        if distinct:
            words, num_words = _words(offsets, target, options, length, words)
            is_new, slot = _is_new(texts, text_begins, slots, words, num_words)
            if not is_new:
                continue
            slots[slot] = found
            begin = text_begins[found]
            texts = _longer(texts, begin + num_words)
            texts[begin : begin + num_words] = words[:num_words]
            text_begins[found + 1] = begin + num_words
        begin = begins[found]
        out_options = _longer(out_options, begin + length)
        out_parents = _longer(out_parents, begin + length)
        out_options[begin : begin + length] = options[:length][::-1]
        out_parents[begin : begin + length] = parents[:length][::-1]
        found += 1
        begins[found] = begin + length
        if found == count:
            break
    return begins[: found + 1], out_options[: begins[found]], out_parents[: begins[found]]
