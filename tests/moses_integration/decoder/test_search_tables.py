"""Tests of the tables of a search: what is in them is found again when they have grown."""

from typing import Any

import numpy as np
import pytest

from moses_integration.decoder.search_tables import (
    add_row,
    find_memo,
    find_row,
    grow,
    make_arcs,
    make_coverages,
    make_hypotheses,
    make_memo,
    make_pool,
    make_states,
)

ROWS = 8


@pytest.mark.parametrize(
    ("table", "keys"),
    [
        # Of 100 words, which are two numbers of 64 bits.
        (make_coverages(ROWS, 100), np.array([[1 << 63, row] for row in range(9)], np.uint64)),
        (make_states(ROWS, 2), np.array([[row, -1, 1] for row in range(9)], np.int32)),
        (make_pool(ROWS), np.array([[1, row, 2] for row in range(9)], np.int32)),
    ],
    ids=["coverages", "states", "pool"],
)
def test_rows_are_found_when_there_are_more_of_them(table: Any, keys: Any) -> None:
    assert [add_row(table, key) for key in keys[:ROWS]] == [(row, True) for row in range(ROWS)]
    assert add_row(table, keys[3]) == (3, False)
    number = next(name for name in ("future", "end_score", "score") if name in table._fields)
    getattr(table, number)[3] = -1.5
    longer = grow(table, ROWS + 1)
    assert [find_row(longer, key) for key in keys[:ROWS]] == list(range(ROWS))
    assert find_row(longer, keys[ROWS]) < 0
    assert getattr(longer, number)[3] == -1.5
    assert len(longer.keys) == 2 * ROWS
    assert add_row(longer, keys[ROWS]) == (ROWS, True)


def test_scores_of_the_end_that_were_not_asked_for_are_not_known() -> None:
    longer = grow(make_states(ROWS, 2), ROWS + 1)
    assert np.isnan(longer.end_score).all()


def test_the_memo_has_its_scores_when_there_are_more_of_them() -> None:
    memo = make_memo(ROWS)
    for key in (5, 6 << 40, 7):
        place = -1 - find_memo(memo, key)
        memo.keys[place], memo.score[place], memo.state[place] = key, key / 2, key % 10
    longer = grow(memo, 100)
    for key in (5, 6 << 40, 7):
        place = find_memo(longer, key)
        assert (longer.score[place], longer.state[place]) == (key / 2, key % 10)
    assert find_memo(longer, 8) < 0


@pytest.mark.parametrize("table", [make_arcs(ROWS), make_hypotheses(ROWS, 3)])
def test_rows_stay_when_there_are_more_of_them(table: Any) -> None:
    table.score[:] = np.arange(ROWS)
    longer = grow(table, ROWS + 1)
    assert longer.score[:ROWS].tolist() == list(range(ROWS))
    assert len(longer.score) == 2 * ROWS


def test_a_table_with_enough_room_stays() -> None:
    arcs = make_arcs(ROWS)
    assert grow(arcs, ROWS) is arcs
