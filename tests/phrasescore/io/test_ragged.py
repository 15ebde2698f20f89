"""Promises of phrasescore.io.ragged."""

from pathlib import Path

import numpy as np
import pytest

from phrasescore.io.ragged import RaggedBuilder, map_array

ROWS = [[7, 8, 9], [], [5], [6, 4]]


def test_rows_come_back_in_the_order_of_their_indices_and_may_be_repeated() -> None:
    builder = RaggedBuilder()
    assert [builder.add(row) for row in ROWS] == [0, 1, 2, 3]
    array = builder.build()
    assert len(array) == 4
    chosen = np.array([3, 1, 0, 3])
    assert array.lengths_of(chosen).tolist() == [2, 0, 3, 2]
    taken = array.take(chosen)
    assert taken.values.tolist() == [6, 4, 7, 8, 9, 6, 4]
    assert taken.starts.tolist() == [0, 2, 2, 5, 7]
    assert taken.owners().tolist() == [0, 0, 2, 2, 2, 3, 3]


def test_no_rows_are_an_array() -> None:
    array = RaggedBuilder().build()
    assert (len(array), array.values.tolist(), array.starts.tolist()) == (0, [], [0])
    assert array.take(np.arange(0)).starts.tolist() == [0]


def test_a_file_of_numbers_is_mapped_and_may_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(np.array([3, 1], np.uint16).tobytes())
    assert map_array(path, np.uint16).tolist() == [3, 1]
    path.write_bytes(b"")
    assert map_array(path, np.uint16).tolist() == []
    path.write_bytes(b"xyz")
    with pytest.raises(ValueError, match="multiple"):
        map_array(path, np.uint16)
