"""Promises of tuning.line_search: the highest line everywhere, by brute force, and tie cases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuning.line_search import Envelopes, upper_envelopes

LOW, HIGH = -10.0, 10.0


def envelope_of(lines: list[tuple[float, float]]) -> tuple[list[int], list[float]]:
    """Return rows and begins of one segment's lines, as (slope, intercept)."""
    slopes, intercepts = np.array(lines, np.float64).T.copy()
    found = upper_envelopes(slopes, intercepts, np.array([0, len(lines)]), LOW, HIGH)
    assert found.starts.tolist() == [0, len(found.rows)]
    return found.rows.tolist(), found.begins.tolist()


def height(found: Envelopes, segment: int, steps: np.ndarray, lines: np.ndarray) -> np.ndarray:
    part = slice(found.starts[segment], found.starts[segment + 1])
    places = np.searchsorted(found.begins[part], steps, side="right") - 1
    chosen = lines[found.rows[part][places]]
    return chosen[:, 0] * steps + chosen[:, 1]


def check_segment(found: Envelopes, segment: int, lines: np.ndarray, rows: np.ndarray) -> None:
    """Compare with all lines on a grid, and between all neighbours of all crossings."""
    part = slice(found.starts[segment], found.starts[segment + 1])
    assert set(found.rows[part]) <= set(rows)
    assert found.begins[part][0] == LOW
    assert (np.diff(found.begins[part]) >= 0).all()
    assert (np.diff(lines[found.rows[part], 0]) > 0).all()
    mine = lines[rows]
    rises = mine[:, None, 0] - mine[None, :, 0]
    falls = mine[None, :, 1] - mine[:, None, 1]
    crossings = falls[rises != 0] / rises[rises != 0]
    inside = crossings[(crossings > LOW) & (crossings < HIGH)]
    edges = np.unique(np.concatenate([[LOW, HIGH], inside]))
    steps = np.concatenate([np.linspace(LOW, HIGH, 501), (edges[1:] + edges[:-1]) / 2])
    highest = (mine[:, :1] * steps + mine[:, 1:]).max(axis=0)
    # Exact but for the rounding of a breakpoint, some 1e-15 times slopes of about 10.
    assert np.abs(height(found, segment, steps, lines) - highest).max() < 1e-11


def test_thousands_of_random_lists_have_the_envelopes_of_brute_force() -> None:
    random = np.random.default_rng(1)
    for kind in range(4):
        for _ in range(10):
            counts = random.integers(1, 40 if kind == 0 else 12, 100)
            starts = np.concatenate([[0], np.cumsum(counts)])
            lines = random.normal(size=(starts[-1], 2))
            if kind == 1:  # many parallel and equal lines, many crossings in one point
                lines = np.round(lines * 2)
            elif kind == 2:  # tangents of a parabola: every line is on the envelope
                lines[:, 1] = -(lines[:, 0] ** 2) / 4
            elif kind == 3:  # slopes all but equal
                lines[:, 0] = 1 + 1e-9 * lines[:, 0]
            found = upper_envelopes(lines[:, 0].copy(), lines[:, 1].copy(), starts, LOW, HIGH)
            for segment in range(len(counts)):
                rows = np.arange(starts[segment], starts[segment + 1])
                check_segment(found, segment, lines, rows)


@settings(max_examples=120, deadline=None)
@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=1, max_size=150))
def test_lines_of_whole_numbers_have_exact_breakpoints(lines: list[tuple[int, int]]) -> None:
    rows, begins = envelope_of([(float(slope), float(high)) for slope, high in lines])
    for row, begin, end in zip(rows, begins, [*begins[1:], HIGH], strict=True):
        middle = (begin + end) / 2
        heights = [slope * middle + high for slope, high in lines]
        assert heights[row] == pytest.approx(max(heights), abs=1e-12)
        assert row == lines.index(lines[row])  # of equal lines the first


def test_every_tangent_of_a_parabola_is_there() -> None:
    # Lines 2 c x - c^2 touch x^2 at c, and cross half way between.
    rows, begins = envelope_of([(2.0 * c, -float(c * c)) for c in (3, -1, 0, 2, 1)])
    assert rows == [1, 2, 4, 3, 0]
    assert begins == [LOW, -0.5, 0.5, 1.5, 2.5]


def test_of_parallel_lines_the_highest_is_there() -> None:
    assert envelope_of([(1, 0), (1, 2), (1, 1)]) == ([1], [LOW])
    assert envelope_of([(1, 0), (-1, 0), (1, 2), (-1, 1)]) == ([3, 2], [LOW, -0.5])


def test_of_equal_lines_the_first_is_there() -> None:
    assert envelope_of([(0, 0), (1, 1), (1, 1), (0, 0)]) == ([0, 1], [LOW, -1.0])
    assert envelope_of([(1, 1)] * 130) == ([0], [LOW])


def test_of_three_lines_through_one_point_the_middle_is_not_there() -> None:
    assert envelope_of([(0, 2), (-1, 2), (1, 2)]) == ([1, 2], [LOW, 0.0])
    assert envelope_of([(-1, 3), (0, 2), (1, 1)]) == ([0, 2], [LOW, 1.0])


def test_one_hypothesis_is_its_own_envelope() -> None:
    assert envelope_of([(5, -3)]) == ([0], [LOW])


def test_with_all_slopes_equal_the_first_of_the_highest_is_there() -> None:
    assert envelope_of([(2, 1), (2, 3), (2, 3)]) == ([1], [LOW])
    assert envelope_of([(0, 0), (0, 0)]) == ([0], [LOW])


def test_lines_that_cross_outside_leave_one() -> None:
    assert envelope_of([(1, 0), (0, 30)]) == ([1], [LOW])


def test_segments_do_not_mix() -> None:
    slopes, intercepts = np.array([0.0, 1.0, 9.0]), np.array([0.0, 0.0, 9.0])
    found = upper_envelopes(slopes, intercepts, np.array([0, 2, 3]), LOW, HIGH)
    assert found.starts.tolist() == [0, 2, 3]
    assert found.rows.tolist() == [0, 1, 2]
    assert found.begins.tolist() == [LOW, 0.0, LOW]
