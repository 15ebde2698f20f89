"""The hash table finds what was added; a ragged array has rows of any length."""

import random
from pathlib import Path

import numpy as np
import pytest

from phrasescore.io.hashing import (
    EMPTY,
    add_key,
    combine,
    copy_rows,
    find,
    hash_word,
    make_table,
    mix,
    number_words,
)
from phrasescore.io.ragged import RaggedBuilder, map_array


def test_keys_are_found_until_the_table_is_full_and_no_others() -> None:
    generator = random.Random(1)
    keys = [np.uint64(generator.randrange(1, 1 << 64)) for _ in range(600)]
    # Keys of one slot, at the end of the table.
    keys += [np.uint64((1 << 64) - number) for number in range(1, 9)]
    table = make_table(len(keys))
    for key in keys:
        add_key(table, key)
        add_key(table, key)
    assert (table[:, 0] != EMPTY).sum() == len(keys)
    assert [table[find(table, key), 0] for key in keys] == keys
    assert find(table, np.uint64(3)) < 0


def test_a_larger_table_has_the_same_rows() -> None:
    table = make_table(5, 2)
    for number in range(1, 6):
        slot = -1 - find(table, np.uint64(mix(np.uint64(number))))
        table[slot] = np.uint64(mix(np.uint64(number))), number
    larger = make_table(100, 2)
    copy_rows(table, larger)
    numbers = [larger[find(larger, np.uint64(mix(np.uint64(number)))), 1] for number in range(1, 6)]
    assert numbers == [1, 2, 3, 4, 5]
    assert find(larger, np.uint64(mix(np.uint64(6)))) < 0


def test_words_are_found_by_their_bytes() -> None:
    words = {"la": 7, "maison": 0, "été": 3, "": 9}
    table = number_words(words)
    text = np.frombuffer("la maison été l".encode(), np.uint8)
    spans = [(0, 2), (3, 9), (10, 15), (4, 4), (16, 17)]
    slots = [find(table, np.uint64(hash_word(text, begin, end))) for begin, end in spans]
    assert [int(table[slot, 1]) for slot in slots[:4]] == [7, 0, 3, 9]
    assert slots[4] < 0


def test_the_order_of_numbers_counts() -> None:
    one, other = np.uint64(1), np.uint64(2)
    assert combine(combine(EMPTY, one), other) != combine(combine(EMPTY, other), one)


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
