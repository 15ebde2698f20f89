"""The hash table: what was added is found again, also in a larger table."""

import random

import numpy as np

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
