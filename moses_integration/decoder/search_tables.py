"""Arrays and hash tables that a stack search fills for one sentence.

Coverages and states are numbered in order of appearance, so that hypotheses are compared by
numbers. Kernels never grow an array. They stop if one is too small; the caller then enlarges it
(:func:`grow`) and calls them again.
"""

from typing import Any, NamedTuple, TypeVar

import numpy as np

from moses_integration.decoder.ngram_table import KERNEL
from phrasescore.io.hashing import copy_rows, make_table, mix

EMPTY = -1
# Arrays whose length does not depend on the number of rows.
_FIXED = ("count", "limits", "stacks")


class Coverages(NamedTuple):
    """The distinct sets of source words that hypotheses cover."""

    # int64 (1,): rows in use.
    count: Any
    # uint64 (rows, words of 64 bits).
    keys: Any
    # int32 (rows,): the first uncovered source word.
    first_gap: Any
    # float64 (rows,): the estimate of the untranslated words; -inf if they have no translation.
    future: Any
    # int32 (2 * rows,), a power of two: row numbers by hash.
    slots: Any


class States(NamedTuple):
    """The distinct contexts that determine the scores of further words."""

    count: Any
    # int32 (rows, width + 1): target words, the latest first, padded with -1; then the number of
    # words in the language model's state.
    keys: Any
    # float64 (rows,): the weighted score of </s>; NaN if not yet computed.
    end_score: Any
    slots: Any


class Memo(NamedTuple):
    """Memoised language model scores of options after states."""

    count: Any
    # uint64 (slots, 3): a table (see `phrasescore.io.hashing`) by the mixed number of a state and
    # an option. Column 2 is the state after both.
    keys: Any
    # float64 (slots, 3), in the same memory: column 1 is the weighted score of the language model.
    values: Any


class HypothesisPool(NamedTuple):
    """The hypotheses of the current stack, recombined."""

    count: Any
    # int32 (rows, 3): the coverage, and two numbers that are equal for recombinable hypotheses.
    keys: Any
    # float64 (2,): the lowest accepted score, and the best so far.
    limits: Any
    # float64 (rows,): scores with the estimate of the future.
    score: Any
    # int32 (rows,): the extended hypothesis, the option, and the new state.
    parent: Any
    option: Any
    state: Any
    slots: Any


class Arcs(NamedTuple):
    """Recombined hypotheses: alternative arcs to a better hypothesis with the same key."""

    count: Any
    score: Any
    parent: Any
    option: Any
    # int32: row of the pool, later the number of the hypothesis.
    target: Any


class Hypotheses(NamedTuple):
    """All kept hypotheses, stack after stack; row 0 is the empty hypothesis."""

    # int64 (length + 2,): where the stacks begin.
    stacks: Any
    # float64 (rows,): scores without an estimate of the future.
    score: Any
    parent: Any
    # int32 (rows,): -1 for the empty hypothesis.
    option: Any
    coverage: Any
    state: Any


class SearchTables(NamedTuple):
    """All tables that a search fills."""

    hypotheses: Hypotheses
    coverages: Coverages
    states: States
    memo: Memo
    pool: HypothesisPool
    arcs: Arcs


_Table = TypeVar("_Table", Coverages, States, Memo, HypothesisPool, Arcs, Hypotheses)


def make_tables(length: int, width: int, few: int, many: int, pool: int, arcs: int) -> SearchTables:
    """Return empty tables for a sentence of some length.

    :param width: the largest number of target words in a state.
    :param few: rows for hypotheses and coverages; ``many``: for states and the memo. These and the
        rows of the last two are powers of two.
    """
    zeros = np.zeros(length + 2, np.int64)
    bits = np.zeros((few, max(1, (length + 63) // 64)), np.uint64)
    state_keys = np.full((many, width + 1), EMPTY, np.int32)
    pool_keys, limits = np.empty((pool, 3), np.int32), np.full(2, -np.inf)
    parent, option, state = np.empty((3, pool), np.int32)
    return SearchTables(
        Hypotheses(zeros, np.empty(few), *np.empty((4, few), np.int32)),
        Coverages(_zero(), bits, np.zeros(few, np.int32), np.zeros(few), _slots(few)),
        States(_zero(), state_keys, np.full(many, np.nan), _slots(many)),
        _make_memo(many),
        HypothesisPool(
            _zero(), pool_keys, limits, np.empty(pool), parent, option, state, _slots(pool)
        ),
        Arcs(_zero(), np.empty(arcs), *np.empty((3, arcs), np.int32)),
    )


def _make_memo(rows: int) -> Memo:
    keys = make_table(rows, 3)
    return Memo(_zero(), keys, keys.view(np.float64))


def grow(table: _Table, rows: int) -> _Table:
    """Return a table with the same rows and room for ``rows``; the same table if it has room."""
    old = memo_room(table) if isinstance(table, Memo) else len(table[1])
    if rows <= old:
        return table
    new = 1 << (rows - 1).bit_length()
    if isinstance(table, Memo):
        memo = _make_memo(new)
        copy_rows(table.keys, memo.keys)
        return memo._replace(count=table.count)
    fields: dict[str, Any] = table._asdict()
    for name in table._fields:
        array: Any = fields[name]
        if name == "slots":
            fields[name] = _slots(new)
        elif name not in _FIXED:
            # Unsigned keys are never EMPTY.
            empty: Any = 0 if array.dtype == np.uint64 else EMPTY
            fill = np.nan if name == "end_score" else empty
            fields[name] = np.full((new, *array.shape[1:]), fill, array.dtype)
            fields[name][:old] = array
    longer = table._replace(**fields)
    if "slots" in fields:
        hash_rows(longer)
    return longer


def _zero() -> Any:
    return np.zeros(1, np.int64)


def _slots(rows: int) -> Any:
    return np.full(2 * rows, EMPTY, np.int32)


@KERNEL
def memo_room(memo: Any) -> Any:
    """Return the maximum number of rows of a memo; a third of its slots stays free."""
    return len(memo.keys) // 3 * 2


@KERNEL
def find_row(table: Any, key: Any) -> Any:
    """Return the row of a key, or -1 minus the empty slot where it belongs."""
    number = np.uint64(0)
    for part in key:
        number = mix(number ^ np.uint64(part))
    mask = len(table.slots) - 1
    slot = np.int64(number & np.uint64(mask))
    while True:
        row = table.slots[slot]
        if row < 0:
            return -1 - slot
        same = True
        for column in range(len(key)):
            same = same and table.keys[row, column] == key[column]
        if same:
            return np.int64(row)
        slot = (slot + 1) & mask


@KERNEL
def add_row(table: Any, key: Any) -> tuple[int, bool]:
    """Return the row of a key, and whether it is new; there must be room."""
    row = find_row(table, key)
    if row >= 0:
        return row, False
    slot, row = -1 - row, table.count[0]
    table.count[0] = row + 1
    table.slots[slot] = row
    for column in range(len(key)):
        table.keys[row, column] = key[column]
    return row, True


@KERNEL
def hash_rows(table: Any) -> None:
    """Fill the slots of a table whose rows moved."""
    for slot in range(len(table.slots)):
        table.slots[slot] = EMPTY
    for row in range(table.count[0]):
        table.slots[-1 - find_row(table, table.keys[row])] = row
