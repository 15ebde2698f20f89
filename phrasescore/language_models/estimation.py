"""Estimate n-gram models with interpolated modified Kneser-Ney smoothing, as KenLM's lmplz does.

Chen and Goodman (1998), and Heafield et al. (2013) for the passes over sorted n-grams. Counts are
adjusted in suffix order; discounts are applied in context order, in which the n-grams after a
context are adjacent; and orders are interpolated in suffix order again, in which an n-gram follows
its suffix. All numbers are computed as float32, in lmplz's order.
"""

import logging
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from typing import BinaryIO

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from phrasescore.devices import usable_threads
from phrasescore.errors import PhrasescoreError
from phrasescore.io.sorted_rows import CHUNK_ROWS, RowFile, SortedRuns
from phrasescore.kernels.ngrams import (
    BEGIN,
    END,
    NUMBER_SIZE,
    PRUNED,
    UNKNOWN,
    count_suffixes,
    discount,
    find,
    format_ngrams,
    log10,
    sorted_indices,
)

_logger = logging.getLogger(__name__)

Floats = NDArray[np.float32]
# Rows of uint32 numbers: the keys, then the values.
Rows = NDArray[np.uint32]

# Number of bytes that a sorter holds before it writes a run to the disk. There are up to `order`
# such blocks at a time; the other n-grams are in anonymous temporary files.
BLOCK_BYTES = 1 << 26

# lmplz's discounts for the counts 0, 1, 2 and 3 or more where they cannot be computed.
FALLBACK = (0.0, 0.5, 1.0, 1.5)
# Stands for log10 of 0, the weight of a context whose n-grams all have the discount 0. lmplz writes
# -inf, which KenLM cannot read.
_LEAST_LOG = np.float32(-99)
# Maximum number of orders that are sorted at a time; each takes two blocks of memory.
_THREADS = 4
# A count has 31 bits.
_MOST_TOKENS = (1 << 31) - 1


def estimate(
    sentences: Iterable[Sequence[str]],
    output: BinaryIO,
    *,
    order: int,
    prune: Sequence[int] = (),
    discount_fallback: bool = False,
    report: Callable[[str], None] = lambda _step: None,
) -> list[int]:
    """Write an n-gram model of sentences as an ARPA file; return its number of n-grams per order.

    The n-grams of each order are in suffix order: sorted by the last word, then by the word before
    it, and so on, where words are in the order of their first occurrence. All are as lmplz's.

    :param sentences: words without ``<s>``, ``</s>`` and ``<unk>``.
    :param prune: for each order, from 1, the largest count in the text of n-grams that are left
        out, without decrease; the last number holds for all further orders.
    :param discount_fallback: whether to use `FALLBACK` for orders whose discounts cannot be
        computed. Otherwise they are an error.
    :param report: is called with a description of each step.
    :raises PhrasescoreError: if discounts cannot be computed, an order has no n-gram, or a
        temporary file cannot be written.
    """
    words, counts = _count(sentences, order)
    report("adjusting counts")
    thresholds = [*prune, *[prune[-1] if prune else 0] * (order - len(prune))]
    levels = [
        _NgramOrder(size, order, threshold) for size, threshold in enumerate(thresholds, start=1)
    ]
    last = np.zeros((1, order + 1), np.uint32)
    with ThreadPoolExecutor(min(usable_threads(None), _THREADS)) as pool:
        for rows in counts.sorted():
            for _ in pool.map(_NgramOrder.count, levels, repeat(rows), repeat(last)):
                pass  # re-raises an exception
            last = rows[-1:]
        amounts = [level.finish(last, discount_fallback) for level in levels]
        totals = [level.num_kept for level in levels]
        report("applying discounts")
        discounted = list(pool.map(_NgramOrder.discounted, levels, amounts))
    grams: list[Iterable[Rows]] = [rows for rows, _ in discounted]
    unigrams = np.concatenate(list(grams[0]))
    # <s> is never predicted. It has the probability 1.
    unigrams[BEGIN, 1:] = np.array([1, 0], np.float32).view(np.uint32)
    grams[0] = [unigrams]
    uniform = np.array([[1 / (len(unigrams) - 1)]], np.float32).view(np.uint32)
    head = "".join(f"ngram {size}={total}\n" for size, total in enumerate(totals, start=1))
    output.write(f"\\data\\\n{head}\n".encode())
    format_rows = _Formatter(words)
    lower: Iterable[Rows] = [uniform]
    for size in range(1, order + 1):
        report(f"writing {size}-grams")
        output.write(f"\\{size}-grams:\n".encode())
        probabilities = RowFile(size + 1, np.uint32)
        is_highest = size == order
        backoffs = None if is_highest else _Lookup(discounted[size][1], size)
        shorter = _Lookup(lower, size - 1)
        for rows in grams[size - 1]:
            values = rows.view(np.float32)
            values[:, size] += values[:, size + 1] * shorter.values(rows)
            weights = np.empty(0, np.float32) if backoffs is None else backoffs.values(rows)
            output.write(format_rows(rows, size, values[:, size], weights))
            if not is_highest:
                probabilities.append(rows[:, : size + 1])
        output.write(b"\n")
        lower = probabilities.parts()
    output.write(b"\\end\\\n")
    return totals


class RowSorter:
    """Sorts rows by their keys; what does not fit in memory is sorted on the disk.

    :param num_keys: number of columns that are compared.
    :param unsorted_keys: number of first columns by which rows have to be sorted. Rows with equal
        values in these columns are added in order.
    """

    def __init__(self, num_keys: int, num_values: int, *, unsorted_keys: int) -> None:
        self._keys, self._unsorted_keys = num_keys, unsorted_keys
        self._width = num_keys + num_values
        self._most = max(1, BLOCK_BYTES // (4 * self._width))
        self._waiting: list[Rows] = []
        self._num_waiting = 0
        self._runs: SortedRuns | None = None

    def add(self, rows: Rows) -> None:
        """Add rows, which must not be changed afterwards."""
        for first in range(0, len(rows), self._most):
            part = rows[first : first + self._most]
            if self._num_waiting + len(part) > self._most:
                self._write_run()
            self._waiting.append(part)
            self._num_waiting += len(part)

    def _take_waiting(self) -> Rows:
        rows = np.concatenate([np.empty((0, self._width), np.uint32), *self._waiting])
        self._waiting, self._num_waiting = [], 0
        num_ids = int(rows[:, : self._unsorted_keys].max(initial=0)) + 1
        indices = sorted_indices(rows, self._unsorted_keys, num_ids)
        in_order: Rows = np.take(rows, indices, axis=0)  # faster than rows[indices]
        return in_order

    def _write_run(self) -> None:
        if self._runs is None:
            self._runs = SortedRuns(self._width, np.uint32, self._keys, self._most)
        self._runs.add(self._take_waiting())

    def sorted(self) -> Iterator[Rows]:
        """Return all rows in order, in parts. They can be read once."""
        parts: Iterable[Rows] = ()
        if self._runs is None:
            parts = [self._take_waiting()]
        else:
            self._write_run()
            parts = map(self._runs.merge, self._runs.buckets())
        return (
            rows[first : first + CHUNK_ROWS]
            for rows in parts
            for first in range(0, len(rows), CHUNK_ROWS)
        )


class _Ids(dict[str, int]):
    """The id of each word; new words are numbered."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


def _count(sentences: Iterable[Sequence[str]], order: int) -> tuple[list[str], RowSorter]:
    """Return all words, and the n-grams of the highest order with a count of 1 for each occurrence.

    A sentence is preceded by ``order - 1`` times ``<s>``.
    """
    ids = _Ids({"<unk>": UNKNOWN, "<s>": BEGIN, "</s>": END})
    sorter = RowSorter(order, 1, unsorted_keys=order)
    padding = [BEGIN] * (order - 1)
    most = max(1, BLOCK_BYTES // (4 * (order + 1)))
    total = 0
    tokens = array("I")

    def add() -> int:
        windows = sliding_window_view(np.array(tokens, np.uint32), order)
        windows = windows[windows[:, -1] != BEGIN]
        rows = np.ones((len(windows), order + 1), np.uint32)
        rows[:, :order] = windows[:, ::-1]
        sorter.add(rows)
        return len(rows)

    for words in sentences:
        tokens.extend(padding)
        tokens.extend(map(ids.__getitem__, words))
        tokens.append(END)
        if len(tokens) >= most:
            total += add()
            tokens = array("I")
    if tokens:
        total += add()
    if total > _MOST_TOKENS:
        raise PhrasescoreError(f"expected at most {_MOST_TOKENS:,} words, found {total:,}")
    return list(ids), sorter


class _NgramOrder:
    """The n-grams of one order and their adjusted counts, which become probabilities."""

    def __init__(self, size: int, order: int, threshold: int) -> None:
        self._size, self._order, self._threshold = size, order, threshold
        self.sorter = RowSorter(size, 1, unsorted_keys=size - 1)
        # Numbers of n-grams with the adjusted counts 0, 1, 2, 3, 4 and 5 or more.
        self._num_with = np.zeros(6, np.int64)
        self.num_kept = 0
        # The last n-gram found, if its counts are not complete.
        self._open: Rows = np.empty((0, size + 2), np.uint32)
        if size == 1:
            self._add(np.array([[UNKNOWN, 0, 0], [BEGIN, 0, 0]], np.uint32))

    def count(self, rows: Rows, previous: Rows) -> None:
        """Count n-grams in the n-grams of the highest order, which follow the row ``previous``."""
        found = np.empty((len(rows) + 1, self._size + 2), np.uint32)
        found[: len(self._open)] = self._open
        count = count_suffixes(rows, previous, self._order, self._size, found, len(self._open))
        self._add(found[: max(count - 1, 0)])
        self._open = found[max(count - 1, 0) : count].copy()

    def finish(self, last: Rows, discount_fallback: bool) -> Floats:
        """Add the last n-gram; return the discounts."""
        # lmplz computes the discounts with the count in the text, not the adjusted count, of each
        # suffix of the last row.
        size = self._size
        is_suffix = size < self._order and (size == 1 or last[0, size - 2] != BEGIN)
        self._add(self._open, self._open[:, size + is_suffix])
        if not self.num_kept:
            cause = "after --prune" if self._num_with.any() else "because its sentences are short"
            raise PhrasescoreError(
                f"the text has no {size}-gram {cause}; the order must be at most {size - 1}"
            )
        try:
            return _discounts(size, self._num_with)
        except PhrasescoreError:
            if not discount_fallback:
                raise
            found = "the text is too small or too repetitive to estimate the discounts"
            _logger.warning("%d-grams have fixed discounts: %s", size, found)
            return np.array(FALLBACK, np.float32)

    def _add(self, grams: Rows, counted: Rows | None = None) -> None:
        adjusted, in_text = grams[:, self._size], grams[:, self._size + 1]
        counted = adjusted if counted is None else counted
        self._num_with += np.bincount(np.minimum(counted, 5), minlength=6)
        is_pruned = in_text <= self._threshold
        if self._size == 1:
            is_pruned &= grams[:, 0] > END
        self.num_kept += len(grams) - int(np.count_nonzero(is_pruned))
        in_context_order = grams[:, [*range(1, self._size), 0, self._size]]
        in_context_order[is_pruned, self._size] |= PRUNED
        self.sorter.add(in_context_order)

    def discounted(self, amounts: Floats) -> tuple[Iterator[Rows], Iterator[Rows]]:
        """Return the n-grams with their probabilities, and the contexts, both in suffix order."""
        # A row has the probability before interpolation and the weight of the lower order.
        size = self._size
        sorter = RowSorter(size, 2, unsorted_keys=1)
        file = RowFile(size, np.uint32)
        rest: Rows = np.empty((0, size + 1), np.uint32)
        for part in chain(self.sorter.sorted(), [None]):
            rows = rest if part is None else np.concatenate([rest, part])
            grams = np.empty((len(rows), size + 2), np.uint32)
            contexts = np.empty((len(rows), size), np.uint32)
            done, num_grams, num_contexts = discount(
                rows, size, amounts, part is None, grams, grams.view(np.float32), contexts
            )
            sorter.add(grams[:num_grams].copy())
            file.append(contexts[:num_contexts])
            rest = rows[done:]
        return sorter.sorted(), file.parts()


def _discounts(size: int, num_with: NDArray[np.int64]) -> Floats:
    """Return Chen and Goodman's discounts (equation 26) for the adjusted counts 0, 1, 2 and 3+."""
    cure = "; is it short or repetitive? --discount-fallback uses fixed discounts instead"
    amounts = np.zeros(4, np.float32)
    number = num_with.astype(np.float32)
    for count in range(1, 4):
        if not num_with[count]:
            raise PhrasescoreError(
                f"cannot compute the discounts of {size}-grams: the text has no {size}-gram with "
                f"the adjusted count {count}{cure}"
            )
        share = number[1] / np.float32(num_with[1] + 2 * num_with[2])
        expected = np.float32(count + 1) * share * number[count + 1] / number[count]
        amounts[count] = np.float32(count) - expected
        if not 0 <= amounts[count] <= count:
            raise PhrasescoreError(
                f"cannot use the text for a model: the discount of {size}-grams with the adjusted "
                f"count {count} is {amounts[count]:g}, expected 0 to {count}{cure}"
            )
    return amounts


class _Lookup:
    """Finds the value of each row's first keys in a sorted table, whose last column is the value.

    Rows are looked up in order. The value of other rows is 1.
    """

    def __init__(self, table: Iterable[Rows], keys: int) -> None:
        self._parts: Iterator[Rows] = iter(table)
        self._part: Rows = np.empty((0, keys + 1), np.uint32)
        self._keys, self._place = keys, 0

    def values(self, rows: Rows) -> Floats:
        found = np.ones(len(rows), np.float32)
        bits = found.view(np.uint32)
        at = 0
        while True:
            at, self._place = find(rows, at, self._part, self._place, self._keys, bits)
            if at == len(rows) or (part := next(self._parts, None)) is None:
                return found
            self._part, self._place = part, 0


class _Formatter:
    """Formats n-grams as the lines of an ARPA file."""

    def __init__(self, words: Iterable[str]) -> None:
        encoded = [word.encode() for word in words]
        self._words = np.frombuffer(b"".join(encoded), np.uint8)
        self._lengths = np.array([len(word) for word in encoded])
        self._starts = np.concatenate([[0], np.cumsum(self._lengths)])

    def __call__(self, rows: Rows, size: int, probabilities: Floats, weights: Floats) -> bytes:
        """Return the lines of n-grams in suffix order; the highest order has no weights."""
        log_probs = np.minimum(log10(probabilities), 0)
        most = int(self._lengths[rows[:, :size]].sum()) + len(rows) * (size + 2 * NUMBER_SIZE)
        text = np.empty(most, np.uint8)
        backoffs = np.maximum(log10(weights), _LEAST_LOG)
        count = format_ngrams(rows, size, log_probs, backoffs, self._words, self._starts, text)
        return text[:count].tobytes()
