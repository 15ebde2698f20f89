"""Equal scores in the search: the earlier comes first, whatever else there is."""

import numpy as np

from moses_integration.decoder.search_tables import make_tables
from moses_integration.decoder.stack_kernels import Limits, offer, prune


def test_of_two_equal_hypotheses_the_earlier_stays_and_the_other_is_an_arc() -> None:
    *_, pool, arcs = make_tables(3, 2, 8, 8, 8, 8)
    assert offer(pool, arcs, True, -1.0, 1, 11, (0, 5, 6), 2) == (0, True)
    assert offer(pool, arcs, True, -1.0, 2, 12, (0, 5, 6), 2) == (0, False)
    assert (pool.count[0], pool.parent[0], pool.option[0]) == (1, 1, 11)
    assert (arcs.count[0], arcs.parent[0], arcs.option[0], arcs.target[0]) == (1, 2, 12, 0)
    # A better one takes the place, and what it displaces is an arc, too.
    assert offer(pool, arcs, True, -0.5, 3, 13, (0, 5, 6), 2) == (0, False)
    assert (pool.count[0], pool.parent[0], pool.score[0]) == (1, 3, -0.5)
    assert (arcs.count[0], arcs.parent[1], arcs.score[1]) == (2, 1, -1.0)
    # Another coverage or key is another hypothesis.
    for row, key in enumerate(((1, 5, 6), (0, 4, 6), (0, 5, 7)), start=1):
        assert offer(pool, arcs, True, -9.0, 4, 14, key, 2) == (row, True)


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
        *_, pool, arcs = make_tables(3, 2, 8, 8, 8, 8)
        for place, score in enumerate(scores):
            offer(pool, arcs, True, score, place, 0, (place, 0, 0), 0)
            offer(pool, arcs, True, score - 1, place, 1, (place, 0, 0), 0)
        prune(pool, arcs, Limits(size, beam, keep_arcs=True, by_request=False))
        count = pool.count[0]
        assert pool.parent[:count].tolist() == kept
        # The arcs go with their hypotheses.
        assert arcs.parent[: arcs.count[0]].tolist() == kept
        assert arcs.target[: arcs.count[0]].tolist() == list(range(count))
