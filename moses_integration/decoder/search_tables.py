"""Arrays and hash tables for searching one sentence, and the kernels that fill them.

Kernels do not grow arrays. If an array is too small, the kernel stops; the caller enlarges it with
:func:`grow` and calls the kernel again.

The hypotheses of a stack are grouped by coverage. A *block* combines the hypotheses that share a
coverage with the options for a span. Within a block an extension costs an addition and a look-up,
because the language model score of an option after a state is memoised.
"""

from typing import Any, NamedTuple, TypeVar

import numpy as np

from phrasescore.io.hashing import copy_rows, find, make_table, mix
from phrasescore.io.kernel_cache import borrow
from phrasescore.language_models.ngram_table import END, KERNEL, score_word

EMPTY = -1
# Columns of a block: hypotheses (start, end), span (start, end), options (start, end) and the new
# coverage; ends are exclusive.
BLOCK_COLUMNS = 7
# Orientations, in the order of the lexicalised reordering scores.
MONOTONE, SWAP, DISCONTINUOUS = 0, 1, 2
NUM_ORIENTATIONS = 3

UNFINISHED = np.uint64(1 << 63)  # instead of a state: the score is only an upper bound
_ONE = np.uint64(1)
_FIXED = ("count", "limits", "stacks")  # arrays whose size does not depend on the number of rows


class Coverages(NamedTuple):
    """The distinct sets of source words that hypotheses cover."""

    count: Any  # int64 (1,): rows in use
    keys: Any  # uint64 (rows, words of 64 bits)
    first_gap: Any  # int32 (rows,): the first uncovered source word
    future: Any  # float64 (rows,): the estimate for the uncovered words; -inf if there is none
    slots: Any  # int32 (2 * rows,): row numbers by hash; the size is a power of two


class States(NamedTuple):
    """The distinct language model contexts, which determine the scores of the next words."""

    count: Any
    # int32 (rows, width + models): target words, the latest first, padded with -1; the last columns
    # are the numbers of words in the language models' states.
    keys: Any
    end_score: Any  # float64 (rows,): the weighted score of </s>; NaN if not yet computed
    slots: Any


class Memo(NamedTuple):
    """Memoised language model scores for an option after a state."""

    count: Any
    # uint64 (slots, 3): a table (see `phrasescore.io.hashing`) whose keys are hashes of a state and
    # an option. Column 2 is the state after the option, or `UNFINISHED`.
    keys: Any
    # float64 (slots, 3), in the same memory: column 1 is the weighted score, or an upper bound.
    values: Any


class HypothesisPool(NamedTuple):
    """The hypotheses of the current stack, recombined."""

    count: Any
    keys: Any  # int32 (rows, 3): the coverage, and two numbers that recombinable hypotheses share
    limits: Any  # float64 (2,): the lowest accepted score, and the best score so far
    score: Any  # float64 (rows,): scores including the future estimate
    parent: Any  # int32 (rows,): the extended hypothesis, the option, and the new state
    option: Any
    state: Any
    slots: Any


class Arcs(NamedTuple):
    """Recombined hypotheses, as alternative arcs to a better hypothesis with the same key."""

    count: Any
    score: Any
    parent: Any
    option: Any
    target: Any  # int32: row in the pool, later the number of the hypothesis


class Hypotheses(NamedTuple):
    """The hypotheses in all finished stacks, in order; row 0 is the empty hypothesis."""

    stacks: Any  # int64 (length + 2,): where each stack begins
    score: Any  # float64 (rows,): scores without the future estimate
    parent: Any
    option: Any  # int32 (rows,): -1 for the empty hypothesis
    coverage: Any
    state: Any


class SearchTables(NamedTuple):
    """All tables that the search of one sentence fills."""

    hypotheses: Hypotheses
    coverages: Coverages
    states: States
    memo: Memo
    pool: HypothesisPool
    arcs: Arcs


_Table = TypeVar("_Table", Coverages, States, Memo, HypothesisPool, Arcs, Hypotheses)


def make_tables(
    length: int, columns: int, few: int, many: int, pool: int, arcs: int
) -> SearchTables:
    """Return empty tables for a sentence; ``columns`` is the number of numbers in a state's key.

    All numbers of rows are powers of two.
    """
    bits = np.zeros((few, max(1, (length + 63) // 64)), np.uint64)
    state_keys = np.full((many, columns), EMPTY, np.int32)
    pool_keys, limits = np.empty((pool, 3), np.int32), np.full(2, -np.inf)
    parent, option, state = np.empty((3, pool), np.int32)
    scores = np.empty(pool)
    return SearchTables(
        Hypotheses(np.zeros(length + 2, np.int64), np.empty(few), *np.empty((4, few), np.int32)),
        Coverages(_zero(), bits, np.zeros(few, np.int32), np.zeros(few), _slots(few)),
        States(_zero(), state_keys, np.full(many, np.nan), _slots(many)),
        _make_memo(many),
        HypothesisPool(_zero(), pool_keys, limits, scores, parent, option, state, _slots(pool)),
        Arcs(_zero(), np.empty(arcs), *np.empty((3, arcs), np.int32)),
    )


def _make_memo(rows: int) -> Memo:
    keys = make_table(rows, 3)
    return Memo(_zero(), keys, keys.view(np.float64))


def grow(table: _Table, rows: int) -> _Table:
    """Return the table, or an enlarged copy if it has fewer than ``rows`` rows."""
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
    """Return the maximum number of rows in a memo; a third of its slots stays free."""
    return len(memo.keys) // 3 * 2


@KERNEL
def find_row(table: Any, key: Any) -> Any:
    """Return the row of a key, or -1 minus the index of the empty slot where it belongs."""
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
    """Return the row of a key, and whether it was added. The table must have a free row."""
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
    """Recompute the hash slots of a table after its rows have moved."""
    for slot in range(len(table.slots)):
        table.slots[slot] = EMPTY
    for row in range(table.count[0]):
        table.slots[-1 - find_row(table, table.keys[row])] = row


# Extensions of hypotheses


@KERNEL
def _is_covered(bits: Any, word: int) -> Any:
    return (bits[word // 64] >> np.uint64(word % 64)) & _ONE != 0


@KERNEL
def cover(sentence: Any, coverages: Any, old: int, start: int, end: int) -> Any:
    """Return the number of coverage ``old`` plus a span. The table must have a free row."""
    bits = coverages.keys[coverages.count[0]]
    for part in range(len(bits)):
        bits[part] = coverages.keys[old, part]
    for word in range(start, end):
        bits[word // 64] |= _ONE << np.uint64(word % 64)
    row, is_new = add_row(coverages, bits)
    if is_new:
        describe_coverage(sentence, coverages, row)
    return row


@KERNEL
def describe_coverage(sentence: Any, coverages: Any, row: int) -> None:
    """Compute the first gap in a coverage, and the total future estimate for its gaps."""
    bits, future, gap, word = coverages.keys[row], 0.0, -1, 0
    while word < sentence.length:
        if _is_covered(bits, word):
            word += 1
            continue
        begin = word
        while word < sentence.length and not _is_covered(bits, word):
            word += 1
        gap = begin if gap < 0 else gap
        future += sentence.future[begin, word]
    coverages.first_gap[row] = gap if gap >= 0 else sentence.length
    coverages.future[row] = future


@KERNEL
def list_blocks(sentence: Any, tables: Any, stack: int, blocks: Any, fill: bool) -> int:
    """Return the number of blocks that lead to a stack; with ``fill``, write them to ``blocks``.

    A phrase that does not start at the first gap must end within the distortion limit of it,
    because the search has to jump back to the gap (SearchNormal::ProcessOneHypothesis).
    """
    sentence, tables, blocks = borrow((sentence, tables, blocks))
    count, limit = 0, sentence.distortion_limit
    hypotheses, coverages = tables.hypotheses, tables.coverages
    for size in range(min(sentence.spans.shape[1] - 2, stack), 0, -1):
        first, stop = hypotheses.stacks[stack - size], hypotheses.stacks[stack - size + 1]
        while first < stop:
            coverage = hypotheses.coverage[first]
            last = first + 1
            while last < stop and hypotheses.coverage[last] == coverage:
                last += 1
            gap = coverages.first_gap[coverage]
            farthest = sentence.length - size
            if limit >= 0:
                farthest = min(farthest, max(gap, gap + limit - size))
            for start in range(gap, farthest + 1):
                if _is_free(sentence, coverages.keys[coverage], start, size):
                    if fill:
                        row = blocks[count]
                        row[0], row[1], row[2], row[3] = first, last, start, start + size
                        row[4] = sentence.spans[start, size]
                        row[5] = sentence.spans[start, size + 1]
                        row[6] = cover(sentence, coverages, coverage, start, start + size)
                    count += 1
            first = last
    return count


@KERNEL
def _is_free(sentence: Any, bits: Any, start: int, size: int) -> Any:
    if sentence.spans[start, size] == sentence.spans[start, size + 1]:
        return False
    free = True
    for word in range(start, start + size):
        free = free and not _is_covered(bits, word)
    return free


@KERNEL
def _score_phrase(sentence, states, state, option, scratch, base, lowest):  # type: ignore[no-untyped-def]
    """Return the weighted language model score of an option, and the state after it."""
    # As soon as a model's state contains only words of the phrase, the precomputed score for the
    # rest is added. As soon as ``base`` plus the score is below ``lowest``, the state is -1. The
    # table must have a free row for a state. ``scratch`` (int32) must have room for a phrase and a
    # state.
    begin, end = sentence.offsets[option], sentence.offsets[option + 1]
    columns, num_models = states.keys.shape[1], len(sentence.language_weights)
    width, size = columns - num_models, end - begin
    for column in range(columns):
        scratch[size + column] = states.keys[state, column]
    for position in range(size):
        scratch[size - 1 - position] = sentence.target[begin + position]
    score, longest = 0.0, np.int64(0)
    for model in range(num_models):
        length: Any = np.int64(scratch[size + width + model])
        for position in range(size):
            word, context = sentence.target[begin + position], scratch[size - position :]
            log_prob, new_length = score_word(sentence.ngrams, model, context, length, word)
            length = np.int64(new_length)
            score += log_prob * sentence.language_weights[model]
            if base + score < lowest:
                return score, -1
            if length <= position + 1 and position + 1 < size:
                score += sentence.tail[model, begin + position + 1]
                length = np.int64(sentence.last_length[model, option])
                break
        scratch[size + width + model] = length
        longest = max(longest, length)
    if not sentence.keep_words:
        for position in range(longest, width):
            scratch[position] = -1
    for column in range(width, columns):
        scratch[column] = scratch[size + column]
    return score, add_row(states, scratch[:columns])[0]


@KERNEL
def end_score(sentence: Any, states: Any, state: int) -> Any:
    """Return the weighted language model score of ``</s>`` after a state."""
    if np.isnan(states.end_score[state]):
        key, weights = states.keys[state], sentence.language_weights
        score = 0.0
        for model in range(len(weights)):
            length = key[len(key) - len(weights) + model]
            log_prob, _ = score_word(sentence.ngrams, model, key, length, END)
            score += log_prob * weights[model]
        states.end_score[state] = score
    return states.end_score[state]


@KERNEL
def memo_key(sentence: Any, state: int, option: int) -> Any:
    """Return the memo's key for an option after a state."""
    # mix(0) is not a valid key.
    return mix(np.uint64(np.int64(state) * len(sentence.score) + option + 1))


@KERNEL
def score_option(sentence, states, memo, state, option, scratch, base, lowest):  # type: ignore[no-untyped-def]
    """Return the memo's slot for an option after a state; the memo must have a free row.

    It may be `UNFINISHED` if the sum of ``base`` and the option's score is below ``lowest``.
    """
    key = memo_key(sentence, state, option)
    slot = find(memo.keys, key)
    if slot < 0:
        slot = -1 - slot
        memo.count[0] += 1
    elif memo.keys[slot, 2] != UNFINISHED or base + memo.values[slot, 1] < lowest:
        return slot
    score, new = _score_phrase(sentence, states, state, option, scratch, base, lowest)
    memo.keys[slot, 0], memo.values[slot, 1] = key, score
    memo.keys[slot, 2] = UNFINISHED if new < 0 else np.uint64(new)
    return slot


@KERNEL
def find_orientation(before: int, after: int, start: int, end: int) -> int:
    """Return the orientation of the span ``start .. end`` after the span ``before .. after``."""
    if start == after:
        return MONOTONE
    return SWAP if before == end else DISCONTINUOUS
