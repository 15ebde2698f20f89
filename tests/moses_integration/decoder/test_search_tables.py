"""Tests of the tables of a search: what is in them is found again when they have grown."""

from typing import Any

import numpy as np
import pytest

from moses_integration.decoder.search_tables import (
    find_bits,
    find_memo,
    find_pool,
    find_state,
    grow,
    make_arcs,
    make_coverages,
    make_hypotheses,
    make_memo,
    make_pool,
    make_states,
    num_rows,
)

ROWS = 8


def test_coverages_are_found_when_there_are_more_of_them() -> None:
    """Of 100 words, which are two numbers of 64 bits."""
    coverages = make_coverages(ROWS, 100)
    for row in range(ROWS):
        coverages.bits[row] = (1 << 63, row)
        coverages.first_gap[row], coverages.future[row] = row, -float(row)
        coverages.slots[-1 - find_bits(coverages, coverages.bits[row])] = row
    coverages.count[0] = ROWS
    longer = grow(coverages, 3 * ROWS)
    assert num_rows(longer) == 4 * ROWS
    for row in range(ROWS):
        assert find_bits(longer, np.array([1 << 63, row], np.uint64)) == row
        assert (longer.first_gap[row], longer.future[row]) == (row, -row)
    assert find_bits(longer, np.array([1 << 63, ROWS], np.uint64)) < 0


def test_states_are_found_when_there_are_more_of_them() -> None:
    states = make_states(ROWS, 2)
    for row in range(ROWS):
        assert find_state(states, np.array([row, -1], np.int32), 1) == row
    states.end_score[3] = -1.5
    longer = grow(states, ROWS + 1)
    for row in range(ROWS):
        assert find_state(longer, np.array([row, -1], np.int32), 1) == row
    assert longer.end_score[3] == -1.5
    # A score that was not asked for is not known, and a new state's is not either.
    assert np.isnan(longer.end_score[np.arange(2 * ROWS) != 3]).all()
    assert find_state(longer, np.array([0, -1], np.int32), 0) == ROWS


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


def test_hypotheses_of_the_pool_are_found_when_there_are_more_of_them() -> None:
    pool = make_pool(ROWS)
    for row in range(ROWS):
        pool.slots[-1 - find_pool(pool, 1, row, 2)] = row
        pool.coverage[row], pool.key[row] = 1, (row, 2)
        pool.score[row] = row
    pool.count[0] = ROWS
    longer = grow(pool, ROWS + 1)
    assert [find_pool(longer, 1, row, 2) for row in range(ROWS)] == list(range(ROWS))
    assert find_pool(longer, 2, 0, 2) < 0
    assert longer.score[:ROWS].tolist() == list(range(ROWS))


@pytest.mark.parametrize("table", [make_arcs(ROWS), make_hypotheses(ROWS, 3)])
def test_rows_stay_when_there_are_more_of_them(table: Any) -> None:
    table.score[:] = np.arange(ROWS)
    longer = grow(table, ROWS + 1)
    assert longer.score[:ROWS].tolist() == list(range(ROWS))
    assert num_rows(longer) == 2 * ROWS


def test_a_table_with_enough_room_stays() -> None:
    arcs = make_arcs(ROWS)
    assert grow(arcs, ROWS) is arcs
