r"""Read language models from ARPA files: ``\data\``, n-gram counts, and the n-grams by order.

A line is ``log10 probability <tab> words separated by blanks [<tab> log10 backoff]``. A blank is a
space, a tab or a carriage return; every other character belongs to a word. Files are read as KenLM
reads them (lm/read_arpa.cc, and lm/search_hashed.cc for the probing model that Moses builds):

* Blank lines between n-grams, text after a count, and lines before ``\data\\`` that begin with
  ``#`` are skipped.
* ``<UNK>`` is ``<unk>``.
* If an n-gram occurs twice, the first line is used; for the unigram ``<unk>`` it is the last.
* A positive log probability is an error. So is an n-gram if one of its words is missing from the
  unigrams, or if its first n-1 words are missing from the (n-1)-grams.

A log probability of ``-inf`` is rejected because it would make hypotheses incomparable. It is
accepted for ``<s>``, which is never predicted.
"""

import itertools
import re
from typing import Any, NamedTuple, NoReturn

import numpy as np

from moses_integration.decoder import ngram_table
from moses_integration.decoder.ngram_table import KERNEL, NgramTables
from moses_integration.nbest_kernels import read_number
from phrasescore.errors import DataError
from phrasescore.io.hashing import copy_rows, find, hash_word, make_table, number_words
from phrasescore.io.text import NUMBER, decode, read_blocks, shorten

# Why `_parse_block` stopped.
DONE, FULL, NO_NUMBER, POSITIVE, UNKNOWN_WORD, FIELDS, NO_CONTEXT, HIGHEST_BACKOFF = range(8)

_UNKNOWN, _BEGIN, _END = "<unk>", "<s>", "</s>"
_UNKNOWN_ALIAS = "<UNK>"

_MOST_AT_FIRST = 1 << 26  # n-grams to allocate before reading: counts may be wrong
_MISSING_UNKNOWN = -100.0  # of <unk>, if missing (lm/config.cc, unknown_missing_logprob)
# KenLM reads both numbers with C functions, which skip leading blanks. It ignores text after the
# count.
_COUNT = re.compile(rb"ngram \s*\+?([0-9]{1,9})=\s*\+?([0-9]{1,18})(?![0-9]).*")
_NUMBER = re.compile(NUMBER.encode())
_BLANKS = re.compile(rb"[ \t\r]+")
_BINARY = b"mmap lm http://kheafield.com/code"

_PROBLEMS = {
    NO_NUMBER: "expected numbers as log10 probability and backoff",
    POSITIVE: "expected a log10 probability of at most 0",
    UNKNOWN_WORD: "expected only words that are listed as 1-grams",
    FIELDS: "expected a log10 probability, {order} words and an optional backoff",
    HIGHEST_BACKOFF: "expected no backoff for n-grams of the highest order",
    NO_CONTEXT: "expected an n-gram whose first {context} words are listed as a {context}-gram",
}


class NgramModel(NamedTuple):
    """Backoff language models in memory: the words, and tables with 24 bytes per n-gram."""

    # The words of the first model, then those that each later model adds, in order of ids; 0, 1 and
    # 2 are <unk>, <s> and </s>.
    words: list[str]
    tables: NgramTables


class _Text:
    def __init__(self, path: str) -> None:
        self.path = path
        self._blocks = read_blocks(path)
        self.block = b""
        self.position = 0  # of the next line in the block
        self.number = 0  # lines read so far

    def fill(self) -> bool:
        """Read the next block if no line is left; return False at the end of the file."""
        if self.position >= len(self.block):
            self.block, self.position = next(self._blocks, b""), 0
        return bool(self.block)

    def peek(self) -> bytes:
        if not self.fill():
            problem = r"expected \end\ at the end of an ARPA file, found the end of the file"
            raise DataError(self.path, self.number, problem)
        end = self.block.find(b"\n", self.position)
        return self.block[self.position : end if end >= 0 else len(self.block)]

    def next(self) -> bytes:
        line = self.peek()
        self.skip(self.position + len(line) + 1, 1)
        return line

    def skip(self, position: int, lines: int) -> None:
        self.position = position
        self.number += lines

    def expect(self, wanted: bytes) -> None:
        """Check that the next line that is not blank is ``wanted``."""
        while not self.peek().strip():
            self.next()
        if (line := self.next().rstrip()) != wanted:
            self.fail(f"expected {wanted.decode()}, found {shorten(line)}")

    def fail(self, problem: str) -> NoReturn:
        raise DataError(self.path, self.number, problem)


def read_arpa_order(path: str) -> int:
    """Return the order of the model in an ARPA file, reading only the counts at its beginning."""
    return len(_read_counts(_Text(path)))


def read_arpa(*paths: str) -> NgramModel:
    """Load n-gram models from ARPA files, plain or gzip; reject what KenLM rejects."""
    vocabularies, orders, used = [], [], 0
    tables = ngram_table.make_tables(0)
    for path in paths:
        text = _Text(path)
        counts = _read_counts(text)
        text.expect(b"\\1-grams:")
        words, log_probs, backoffs, has_unknown = _read_unigrams(text, counts[0])
        if len(counts) == 1:
            backoffs = [-0.0] * len(words)
        tables = _make_room(tables, used + min(sum(counts[1:]), _MOST_AT_FIRST))
        start = len(tables.unigram_log_probs)
        tables = tables._replace(
            order=len(counts),
            unigram_log_probs=np.append(tables.unigram_log_probs, np.array(log_probs, np.float32)),
            unigram_backoffs=np.append(tables.unigram_backoffs, np.array(backoffs, np.float32)),
        )
        ids = {word: id_ for id_, word in enumerate(words, start)}
        # <unk> may occur in n-grams only if it is listed as a 1-gram.
        spellings = ids | {_UNKNOWN_ALIAS: start}
        if not has_unknown:
            del spellings[_UNKNOWN], spellings[_UNKNOWN_ALIAS]
        vocabulary = number_words(spellings)
        for order, count in enumerate(counts[1:], start=2):
            text.expect(b"\\%d-grams:" % order)
            tables, used = _read_ngrams(text, order, count, tables, used, vocabulary)
        text.expect(b"\\end\\")
        vocabularies.append(ids)
        orders.append(len(counts))
    words = list(dict.fromkeys(itertools.chain.from_iterable(vocabularies)))
    rows = [[ids.get(word, ids[_UNKNOWN]) for word in [*words, _UNKNOWN]] for ids in vocabularies]
    return NgramModel(words, tables._replace(order=max(orders), ids=np.array(rows, np.int32)))


def _make_room(tables: NgramTables, num_ngrams: int) -> NgramTables:
    keys = make_table(num_ngrams, 2)
    if len(keys) <= len(tables.keys):
        return tables
    copy_rows(tables.keys, keys)
    return ngram_table.with_keys(tables, keys)


def _read_counts(text: _Text) -> list[int]:
    while text.fill() and (not text.peek().strip() or text.peek().startswith(b"#")):
        text.next()
    if not text.fill() or text.peek().rstrip() != b"\\data\\":
        line = text.peek() if text.fill() else b""
        problem = rf"expected \data\, found {shorten(line)}"
        if line.startswith(_BINARY):
            problem += "; this is a binary model of KenLM: use the ARPA file it was built from"
        raise DataError(text.path, text.number + 1, problem)
    text.next()
    counts: list[int] = []
    while (line := text.next()).strip():
        match = _COUNT.fullmatch(line)
        if match is None or int(match[1]) != len(counts) + 1:
            text.fail(f"expected 'ngram {len(counts) + 1}=COUNT', found {shorten(line)}")
        counts.append(int(match[2]))
    if not 1 <= len(counts) <= ngram_table.MAX_ORDER:
        text.fail(f"expected counts for 1 to {ngram_table.MAX_ORDER} orders, found {len(counts)}")
    return counts


def _read_unigrams(text: _Text, count: int) -> tuple[list[str], list[float], list[float], bool]:
    """Return words, log10 probabilities, backoffs (all by id), and whether ``<unk>`` is listed."""
    missing = (1.0, 0.0)
    values = dict.fromkeys((_UNKNOWN, _BEGIN, _END), missing)
    for _ in range(count):
        while not (line := text.next()).strip():
            pass
        fields = [field for field in _BLANKS.split(line) if field]
        if not 2 <= len(fields) <= 3:
            text.fail("expected a log10 probability, a word and an optional backoff")
        word = decode(text.path, text.number, fields[1])
        if word == _UNKNOWN_ALIAS:
            word = _UNKNOWN
        numbers = [fields[0], *fields[2:]]
        if word == _BEGIN and numbers[0] == b"-inf":
            numbers[0] = b"-99"  # never used
        if not all(map(_NUMBER.fullmatch, numbers)):
            text.fail(f"{_PROBLEMS[NO_NUMBER]}, found {shorten(line)}")
        log_prob, backoff = map(float, (*numbers, 0)[:2])
        if log_prob > 0:
            text.fail(f"{_PROBLEMS[POSITIVE]}, found {log_prob}")
        backoff = backoff or -0.0  # -0.0 until a longer n-gram begins with this one
        if word == _UNKNOWN or values.get(word, missing) is missing:
            values[word] = (log_prob, backoff)
    for word in (_BEGIN, _END):
        if values[word] is missing:
            text.fail(f"expected {word} among the 1-grams, found no such line")
    has_unknown = values[_UNKNOWN] is not missing
    if not has_unknown:
        values[_UNKNOWN] = (_MISSING_UNKNOWN, 0.0)
    log_probs, backoffs = zip(*values.values(), strict=True)
    return list(values), list(log_probs), list(backoffs), has_unknown


def _read_ngrams(
    text: _Text, order: int, count: int, tables: NgramTables, used: int, vocabulary: Any
) -> tuple[NgramTables, int]:
    """Read the n-grams of one order; return the tables and the number of n-grams in them."""
    left = count
    while left:
        if not text.fill():
            text.peek()  # raises
        block = np.frombuffer(text.block, np.uint8)
        position, lines, num_read, used, problem = _parse_block(
            tables, vocabulary, block, text.position, order, left, used
        )
        text.skip(position, lines)
        left -= num_read
        if problem == FULL:
            # Allocate 1.5 times as many slots, to make room for the blanks of missing suffixes.
            tables = _make_room(tables, len(tables.keys))
        elif problem != DONE:
            line = text.next()
            wanted = _PROBLEMS[problem].format(order=order, context=order - 1)
            text.fail(f"{wanted}, found {shorten(line)}")
        elif left and position < len(text.block):
            text.next()
            text.fail(f"expected {count:,} {order}-grams, as counted above, found {count - left:,}")
    return tables, used


@KERNEL
def _is_blank(byte: int) -> bool:
    return byte == 32 or byte == 9 or byte == 13


@KERNEL
def _parse_block(tables, vocabulary, text, position, order, left, used):  # type: ignore[no-untyped-def]
    """Insert the n-grams of a block into the tables, up to the end of the section.

    :return: the position of the first unread byte, the number of lines read, the number of n-grams
        read, the number of n-grams in the tables, and the problem with the line at this position.
    """
    words = np.empty(order, np.int32)
    starts, ends = np.empty(order + 2, np.int64), np.empty(order + 2, np.int64)
    lines = done = 0
    while done < left and position < len(text):
        if text[position] == 92:  # a backslash: the next section
            break
        if used + order > len(tables.keys) - len(tables.keys) // 8:
            return position, lines, done, used, FULL
        fields, end = _split_line(text, position, starts, ends)
        if fields == 0:
            position = end + 1
            lines += 1
            continue
        if fields < order + 1 or fields > order + 2:
            return position, lines, done, used, FIELDS
        stop, log_prob, _ = read_number(text, starts[0], ends[0])
        are_numbers, backoff = stop == ends[0], -0.0
        if fields == order + 2:
            stop, backoff, _ = read_number(text, starts[order + 1], ends[order + 1])
            are_numbers = are_numbers and stop == ends[order + 1]
        if not are_numbers:
            return position, lines, done, used, NO_NUMBER
        if backoff != 0.0 and order == tables.order:
            return position, lines, done, used, HIGHEST_BACKOFF
        if log_prob > 0.0:
            return position, lines, done, used, POSITIVE
        for field in range(order):
            slot = find(vocabulary, hash_word(text, starts[field + 1], ends[field + 1]))
            if slot < 0:
                return position, lines, done, used, UNKNOWN_WORD
            words[field] = vocabulary[slot, 1]
        if np.isnan(_remember(tables, words[: order - 1])):
            return position, lines, done, used, NO_CONTEXT
        used += _insert(tables, words, log_prob, -0.0 if backoff == 0.0 else backoff)
        position = end + 1
        lines += 1
        done += 1
    return position, lines, done, used, DONE


@KERNEL
def _split_line(text: Any, position: int, starts: Any, ends: Any) -> tuple[int, int]:
    """Fill in where fields start and end; return the number of all fields and the line's end."""
    fields = 0
    while position < len(text) and text[position] != 10:
        if _is_blank(text[position]):
            position += 1
            continue
        start = position
        while position < len(text) and text[position] != 10 and not _is_blank(text[position]):
            position += 1
        if fields < len(starts):
            starts[fields], ends[fields] = start, position
        fields += 1
    return fields, position


@KERNEL
def _remember(tables: Any, words: Any) -> Any:
    """Return an n-gram's backoff (NaN if missing), and mark that a longer n-gram begins with it."""
    if len(words) == 1:
        if not ngram_table.extends(tables.unigram_backoffs[words[0]]):
            tables.unigram_backoffs[words[0]] = 0.0
        return tables.unigram_backoffs[words[0]]
    key = ngram_table.first_hash(words[-1])
    for position in range(len(words) - 2, -1, -1):
        key = ngram_table.longer_hash(key, words[position])
    slot = find(tables.keys, key)
    if slot < 0:
        return np.float32(np.nan)
    if not ngram_table.extends(tables.values[slot, 3]):
        tables.values[slot, 3] = 0.0
    return tables.values[slot, 3]


@KERNEL
def _insert(tables: Any, words: Any, log_prob: float, backoff: float) -> int:
    """Insert an n-gram and blanks for its missing suffixes; return the number of added n-grams.

    A blank has the backed-off probability and no backoff weight (KenLM's AdjustLower). An n-gram
    that is already in the tables is not replaced.
    """
    order, added = len(words), 0
    key = ngram_table.first_hash(words[order - 1])
    suffix_log_prob = tables.unigram_log_probs[words[order - 1]]
    for length in range(2, order + 1):
        first = order - length
        key = ngram_table.longer_hash(key, words[first])
        slot = find(tables.keys, key)
        if slot >= 0:
            suffix_log_prob = tables.values[slot, 2]
            continue
        slot, added = -1 - slot, added + 1
        tables.keys[slot, 0] = key
        if length == order:
            tables.values[slot, 2] = log_prob
            tables.values[slot, 3] = backoff
        else:
            context_backoff = _remember(tables, words[first : order - 1])
            if not np.isnan(context_backoff):
                suffix_log_prob += context_backoff
            tables.values[slot, 2] = suffix_log_prob
            tables.values[slot, 3] = -0.0
    return added
