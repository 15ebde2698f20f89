"""Hashes, a hash table with 64-bit keys, and a search in sorted values, in compiled code.

A table is a uint64 array (slots, columns) with open addressing: column 0 is the key, `EMPTY` in a
free slot, and the other columns are values in the same cache line. A key is itself a hash, so two
things with the same hash would be confused: among a million, with a chance of 3 in 10^8.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from phrasescore.io.kernel_cache import kept_njit

KERNEL = kept_njit()

EMPTY = np.uint64(0)
# FNV-1a, 64 bits: the hash of no bytes, and the factor.
NO_BYTES, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
# The mixing of splitmix64 (Steele et al., 2014), and the finaliser of MurmurHash3.
_FACTOR, _SHIFT = np.uint64(0xBF58476D1CE4E5B9), np.uint64(29)
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_MIX_SHIFT, _HALF = np.uint64(33), np.uint64(32)


@KERNEL
def add_byte(word: Any, byte: Any) -> Any:
    """Extend a hash of bytes by one byte; the high bits are not random yet."""
    return (word ^ np.uint64(byte)) * _PRIME


@KERNEL
def combine(key: Any, number: Any) -> Any:
    """Extend the hash of a sequence of numbers by one number."""
    mixed = (key ^ number) * _FACTOR
    return mixed ^ (mixed >> _SHIFT)


@KERNEL
def mix(number: Any) -> Any:
    """Map a 64-bit number one to one to 64 bits that each depend on all of its bits."""
    number ^= number >> _MIX_SHIFT
    number *= _FIRST_FACTOR
    number ^= number >> _MIX_SHIFT
    number *= _SECOND_FACTOR
    return number ^ (number >> _MIX_SHIFT)


@KERNEL
def hash_word(text: Any, begin: int, end: int) -> Any:
    """Return the key for a word, given as ``text[begin:end]``."""
    word = NO_BYTES
    for position in range(begin, end):
        word = add_byte(word, text[position])
    return combine(word, EMPTY) | np.uint64(1)


def make_table(num_keys: int, columns: int = 1) -> Any:
    """Return an empty table for ``num_keys`` keys; a third of its slots stays free."""
    return np.zeros((num_keys + num_keys // 2 + 16, columns), np.uint64)


@KERNEL
def first_slot(table: Any, key: Any) -> Any:
    """Return the slot where the search for a key begins."""
    return np.int64(((key >> _HALF) * np.uint64(len(table))) >> _HALF)


@KERNEL
def find(table: Any, key: Any) -> Any:
    """Return the slot of a key, or -1 minus the free slot where it belongs."""
    slot: Any = first_slot(table, key)
    while True:
        slot_key = table[slot, 0]
        if slot_key == key:
            return slot
        if slot_key == EMPTY:
            return -1 - slot
        slot += 1
        if slot == len(table):
            slot = 0


@KERNEL
def first_at_least(values: Any, begin: int, end: int, value: Any) -> int:
    """Return the first place from ``begin`` whose value in sorted ``values`` is not smaller."""
    while begin < end:
        middle = (begin + end) // 2
        if values[middle] < value:
            begin = middle + 1
        else:
            end = middle
    return begin


@KERNEL
def add_key(table: Any, key: Any) -> None:
    """Add a key to a table, which must have a free slot."""
    slot = find(table, key)
    if slot < 0:
        table[-1 - slot, 0] = key


@KERNEL
def copy_rows(old: Any, new: Any) -> None:
    """Copy all rows to an empty table of another size."""
    for row in range(len(old)):
        if old[row, 0] != EMPTY:
            slot = -1 - find(new, old[row, 0])
            for column in range(old.shape[1]):
                new[slot, column] = old[row, column]


def number_words(words: Mapping[str, int]) -> Any:
    """Return a table of words, indexed by `hash_word`; column 1 is the word's number."""
    encoded = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, encoded)])
    table = make_table(len(words), 2)
    numbers = np.array([*words.values()], np.uint64)
    _add_words(table, np.frombuffer(b"".join(encoded), np.uint8), ends, numbers)
    return table


@KERNEL
def _add_words(table: Any, text: Any, ends: Any, numbers: Any) -> None:
    for word in range(len(numbers)):
        key = hash_word(text, ends[word], ends[word + 1])
        slot = find(table, key)
        if slot < 0:
            table[-1 - slot, 0], table[-1 - slot, 1] = key, numbers[word]
