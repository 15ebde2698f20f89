"""Equal scores in the search: the earlier comes first, whatever else there is."""

from itertools import permutations

import numpy as np

from moses_integration.decoder.best_first import pop, push
from moses_integration.decoder.search_kernels import offer
from moses_integration.decoder.search_tables import make_arcs, make_pool
from moses_integration.decoder.stack_kernels import Limits, prune


def test_a_heap_gives_the_least_first_and_of_equals_the_earlier() -> None:
    for given in {*permutations((1.0, 1.0, 0.5, 0.5, 0.5, 2.0))}:
        size = len(given)
        losses, order = np.empty(size), np.empty(size, np.int64)
        first, second = np.empty((2, size), np.int64)
        for place, loss in enumerate(given):
            losses[place], order[place] = loss, place
            first[place], second[place] = place + 10, place + 20
            push(losses, first, second, order, place + 1)
        taken = []
        for left in range(size, 0, -1):
            pop(losses, first, second, order, left)
            taken.append((losses[left - 1], order[left - 1]))
            assert (first[left - 1], second[left - 1]) == tuple(order[left - 1] + [10, 20])
        assert taken == sorted(zip(given, range(size), strict=True))


def test_of_two_equal_hypotheses_the_earlier_stays_and_the_other_is_an_arc() -> None:
    pool, arcs = make_pool(8), make_arcs(8)
    assert offer(pool, arcs, True, -1.0, 1, 11, 0, 5, 6, 2)
    assert not offer(pool, arcs, True, -1.0, 2, 12, 0, 5, 6, 2)
    assert (pool.count[0], pool.parent[0], pool.option[0]) == (1, 1, 11)
    assert (arcs.count[0], arcs.parent[0], arcs.option[0], arcs.target[0]) == (1, 2, 12, 0)
    # A better one takes the place, and what it displaces is an arc, too.
    assert not offer(pool, arcs, True, -0.5, 3, 13, 0, 5, 6, 2)
    assert (pool.count[0], pool.parent[0], pool.score[0]) == (1, 3, -0.5)
    assert (arcs.count[0], arcs.parent[1], arcs.score[1]) == (2, 1, -1.0)
    # Another coverage or key is another hypothesis.
    for key in ((1, 5, 6), (0, 4, 6), (0, 5, 7)):
        assert offer(pool, arcs, True, -9.0, 4, 14, *key, 2)
    assert pool.count[0] == 4


def test_a_full_stack_keeps_the_best_and_of_equals_the_earlier() -> None:
    scores = [-3.0, -1.0, -2.0, -2.0, -2.0, -7.0]
    for size, beam, kept in (
        (3, -np.inf, [1, 2, 3]),
        (2, -np.inf, [1, 2]),
        (5, -1.5, [1, 2, 3, 4]),
        (5, -2.0, [0, 1, 2, 3, 4]),
        (0, -1.0, [1, 2, 3, 4]),
        (6, -0.5, [0, 1, 2, 3, 4, 5]),  # no more than there may be: no beam, as in Moses
    ):
        pool, arcs = make_pool(8), make_arcs(8)
        for place, score in enumerate(scores):
            offer(pool, arcs, True, score, place, 0, place, 0, 0, 0)
            offer(pool, arcs, True, score - 1, place, 1, place, 0, 0, 0)
        prune(pool, arcs, Limits(size, beam, keep_arcs=True, by_request=False))
        count = pool.count[0]
        assert pool.parent[:count].tolist() == kept
        # The arcs go with their hypotheses.
        assert arcs.parent[: arcs.count[0]].tolist() == kept
        assert arcs.target[: arcs.count[0]].tolist() == list(range(count))
