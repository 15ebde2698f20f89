"""Arrays that a stack search fills for one sentence, and the hash tables among them.

Coverages and states are numbered in the order in which they appear, so that hypotheses are compared
by numbers. Kernels never grow an array: they stop where one is too small, and the caller makes it
larger (:func:`grow`) and lets them go on.
"""

from typing import Any, NamedTuple, TypeVar

import numpy as np

from moses_integration.decoder.ngram_table import KERNEL

# The finaliser of MurmurHash3.
_FIRST_FACTOR = np.uint64(0xFF51AFD7ED558CCD)
_SECOND_FACTOR = np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)
_HALF = np.uint64(32)

EMPTY = -1
# Arrays whose length does not follow the rows.
_FIXED = ("count", "limits", "stacks")


class Coverages(NamedTuple):
    """Sets of source words that hypotheses cover, without repeats."""

    # int64 (1,): rows in use.
    count: Any
    # uint64 (rows, words of 64 bits).
    bits: Any
    # int32 (rows,): the first source word that is not covered.
    first_gap: Any
    # float64 (rows,): the estimate of what remains to be translated; -inf if it cannot be.
    future: Any
    # int32 (2 * rows,), a power of two: row numbers by hash.
    slots: Any


class States(NamedTuple):
    """What the scores of further words depend on, without repeats."""

    count: Any
    # int32 (rows, width): target words, the latest first, -1 where there are none.
    words: Any
    # int32 (rows,): how many of them are the language model's state.
    length: Any
    # float64 (rows,): the weighted score of </s>; NaN while it is not known.
    end_score: Any
    slots: Any


class Memo(NamedTuple):
    """Scores of options after states, as far as they have been asked for."""

    count: Any
    # int64 (rows,): state * options + option, in an order of hashes.
    keys: Any
    # float64 (rows,): the weighted score of the language model.
    score: Any
    # int32 (rows,): the state after it.
    state: Any


class HypothesisPool(NamedTuple):
    """The hypotheses of the stack that is being made, no two of which recombine."""

    # int64 (1,)
    count: Any
    # float64 (2,): a score below which none is taken, and the best so far.
    limits: Any
    # float64 (rows,): with the estimate of the future.
    score: Any
    # int32 (rows,): the hypothesis that was extended, the option it was extended with, what is
    # covered now, and the state.
    parent: Any
    option: Any
    coverage: Any
    state: Any
    # int32 (rows, 2): with the coverage, what two hypotheses have in common that recombine.
    key: Any
    slots: Any


class Arcs(NamedTuple):
    """Hypotheses that were recombined with better ones: other ways to the same place."""

    count: Any
    score: Any
    parent: Any
    option: Any
    # int32: row of the pool, later number of the hypothesis.
    target: Any


class Hypotheses(NamedTuple):
    """All hypotheses that stay, stack after stack; number 0 is the empty one."""

    # int64 (length + 2,): where the stacks begin.
    stacks: Any
    # float64 (rows,): without an estimate of the future.
    score: Any
    parent: Any
    # int32 (rows,): -1 for the empty hypothesis.
    option: Any
    coverage: Any
    state: Any


_Table = TypeVar("_Table", Coverages, States, Memo, HypothesisPool, Arcs, Hypotheses)


def make_coverages(rows: int, length: int) -> Coverages:
    """Return a table without rows, with room for ``rows`` (a power of two, as in all of these)."""
    bits = np.zeros((rows, max(1, (length + 63) // 64)), np.uint64)
    return Coverages(_zero(), bits, np.zeros(rows, np.int32), np.zeros(rows), _slots(rows))


def make_states(rows: int, width: int) -> States:
    """Return a table without rows.

    :param width: target words that a state has at most.
    """
    words = np.full((rows, width), EMPTY, np.int32)
    length, end_score = np.zeros(rows, np.int32), np.full(rows, np.nan)
    return States(_zero(), words, length, end_score, _slots(rows))


def make_memo(rows: int) -> Memo:
    """Return a table without rows; a quarter of it is left empty."""
    keys = np.full(rows, EMPTY, np.int64)
    return Memo(_zero(), keys, np.empty(rows), np.empty(rows, np.int32))


def make_pool(rows: int) -> HypothesisPool:
    """Return a table without rows."""
    limits, score, key = np.full(2, -np.inf), np.empty(rows), np.empty((rows, 2), np.int32)
    parent, option, coverage, state = np.empty((4, rows), np.int32)
    return HypothesisPool(
        _zero(), limits, score, parent, option, coverage, state, key, _slots(rows)
    )


def make_arcs(rows: int) -> Arcs:
    """Return a table without rows."""
    return Arcs(_zero(), np.empty(rows), *np.empty((3, rows), np.int32))


def make_hypotheses(rows: int, length: int) -> Hypotheses:
    """Return a table without rows."""
    stacks = np.zeros(length + 2, np.int64)
    return Hypotheses(stacks, np.empty(rows), *np.empty((4, rows), np.int32))


def num_rows(table: NamedTuple) -> int:
    """Return how many rows a table has room for."""
    last: int = len(table[-1])
    return last // 2 if "slots" in table._fields else last


def grow(table: _Table, rows: int) -> _Table:
    """Return a table with the same rows and room for ``rows``; itself if it has that."""
    old = num_rows(table)
    if rows <= old:
        return table
    new = 1 << (rows - 1).bit_length()
    fields: dict[str, Any] = table._asdict()
    for name in table._fields:
        array: Any = fields[name]
        if name == "slots":
            fields[name] = _slots(new)
        elif name not in _FIXED:
            # Bits are unsigned, and so never EMPTY.
            fill = {"end_score": np.nan, "bits": 0}.get(name, EMPTY)
            fields[name] = np.full((new, *array.shape[1:]), fill, array.dtype)
            fields[name][:old] = array
    longer = table._replace(**fields)
    if isinstance(longer, Coverages):
        _hash_coverages(longer)
    elif isinstance(longer, States):
        _hash_states(longer)
    elif isinstance(longer, HypothesisPool):
        hash_pool(longer)
    elif isinstance(longer, Memo):
        longer.keys.fill(EMPTY)
        _hash_memo(table, longer)
    return longer


def _zero() -> Any:
    return np.zeros(1, np.int64)


def _slots(rows: int) -> Any:
    return np.full(2 * rows, EMPTY, np.int32)


@KERNEL
def mix(number: Any) -> Any:
    """Return 64 bits each of which depends on every bit of the number."""
    number ^= number >> _SHIFT
    number *= _FIRST_FACTOR
    number ^= number >> _SHIFT
    number *= _SECOND_FACTOR
    return number ^ (number >> _SHIFT)


@KERNEL
def find_bits(coverages: Any, bits: Any) -> Any:
    """Return the number of a coverage, or -1 minus the empty slot where it belongs."""
    key = np.uint64(0)
    for word in bits:
        key = mix(key ^ word)
    mask = len(coverages.slots) - 1
    slot = np.int64(key & np.uint64(mask))
    while True:
        row = coverages.slots[slot]
        if row < 0:
            return -1 - slot
        same = True
        for place in range(len(bits)):
            same = same and coverages.bits[row, place] == bits[place]
        if same:
            return np.int64(row)
        slot = (slot + 1) & mask


@KERNEL
def _hash_coverages(coverages: Any) -> None:
    for row in range(coverages.count[0]):
        coverages.slots[-1 - find_bits(coverages, coverages.bits[row])] = row


@KERNEL
def find_state(states: Any, words: Any, length: int) -> Any:
    """Return the number of a state, adding it if it is new; there must be room."""
    width = states.words.shape[1]
    key = np.uint64(length)
    for place in range(width):
        key = mix(key ^ np.uint64(np.uint32(words[place])))
    mask = len(states.slots) - 1
    slot = np.int64(key & np.uint64(mask))
    while True:
        row = states.slots[slot]
        if row < 0:
            break
        same = states.length[row] == length
        for place in range(width):
            same = same and states.words[row, place] == words[place]
        if same:
            return np.int64(row)
        slot = (slot + 1) & mask
    row = states.count[0]
    states.count[0] = row + 1
    states.slots[slot] = row
    states.length[row] = length
    for place in range(width):
        states.words[row, place] = words[place]
    return np.int64(row)


@KERNEL
def _hash_states(states: Any) -> None:
    """Fill empty slots: each row is found to be new, and gets its own number again."""
    rows = states.count[0]
    states.count[0] = 0
    for row in range(rows):
        find_state(states, states.words[row], states.length[row])


@KERNEL
def find_memo(memo: Any, key: int) -> Any:
    """Return the place of a key, or -1 minus the empty place where it belongs."""
    mask = len(memo.keys) - 1
    place = np.int64(mix(np.uint64(key)) & np.uint64(mask))
    while True:
        found = memo.keys[place]
        if found == key:
            return place
        if found < 0:
            return -1 - place
        place = (place + 1) & mask


@KERNEL
def _hash_memo(old: Any, new: Any) -> None:
    for place in range(len(old.keys)):
        if old.keys[place] >= 0:
            free = -1 - find_memo(new, old.keys[place])
            new.keys[free] = old.keys[place]
            new.score[free] = old.score[place]
            new.state[free] = old.state[place]


@KERNEL
def find_pool(pool: Any, coverage: int, first: int, second: int) -> Any:
    """Return the row of a hypothesis with this key, or -1 minus the empty slot."""
    mask = len(pool.slots) - 1
    key = mix(np.uint64(coverage) ^ mix((np.uint64(first) << _HALF) ^ np.uint64(second)))
    slot = np.int64(key & np.uint64(mask))
    while True:
        row = pool.slots[slot]
        if row < 0:
            return -1 - slot
        if (
            pool.coverage[row] == coverage
            and pool.key[row, 0] == first
            and pool.key[row, 1] == second
        ):
            return np.int64(row)
        slot = (slot + 1) & mask


@KERNEL
def hash_pool(pool: Any) -> None:
    """Fill the slots of a pool whose rows have moved."""
    for slot in range(len(pool.slots)):
        pool.slots[slot] = EMPTY
    for row in range(pool.count[0]):
        slot = -1 - find_pool(pool, pool.coverage[row], pool.key[row, 0], pool.key[row, 1])
        pool.slots[slot] = row
