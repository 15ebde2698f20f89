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
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from phrasescore.errors import DataError
from phrasescore.io.hashing import copy_rows, make_table, number_words
from phrasescore.io.text import decode, read_blocks, shorten
from phrasescore.language_models import ngram_table
from phrasescore.language_models.arpa_kernels import (
    DONE,
    FIELDS,
    FULL,
    HIGHEST_BACKOFF,
    NO_CONTEXT,
    NO_NUMBER,
    NOT_LISTED,
    POSITIVE,
    UNKNOWN_WORD,
    parse_ngrams,
    parse_unigrams,
)
from phrasescore.language_models.kenlm_scorer import BINARY
from phrasescore.language_models.ngram_table import BEGIN, END, UNKNOWN, NgramTables

# The ids of the words that every model has.
_SYMBOLS = {"<unk>": UNKNOWN, "<UNK>": UNKNOWN, "<s>": BEGIN, "</s>": END}

_MOST_AT_FIRST = 1 << 26  # n-grams to allocate before reading: counts may be wrong
_MISSING_UNKNOWN = -100.0  # of <unk>, if missing (lm/config.cc, unknown_missing_logprob)
# KenLM reads both numbers with C functions, which skip leading blanks. It ignores text after the
# count.
_COUNT = re.compile(rb"ngram \s*\+?([0-9]{1,9})=\s*\+?([0-9]{1,18})(?![0-9]).*")

_PROBLEMS = {
    NO_NUMBER: "expected numbers as log10 probability and backoff",
    POSITIVE: "expected a log10 probability of at most 0",
    UNKNOWN_WORD: "expected only words that are listed as 1-grams",
    FIELDS: "expected a log10 probability, a {order}-gram and an optional backoff",
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
        while not self.peek().strip():
            self.next()
        if (line := self.next().rstrip()) != wanted:
            self.fail(f"expected {wanted.decode()}, found {shorten(line)}")

    def fail(self, problem: str) -> NoReturn:
        raise DataError(self.path, self.number, problem)


def read_arpa_counts(path: str) -> list[int]:
    """Return the number of n-grams of each order in an ARPA file, reading only its beginning."""
    return _read_counts(_Text(path))


def read_arpa(*paths: str) -> NgramModel:
    """Load n-gram models from ARPA files, plain or gzip; reject what KenLM rejects."""
    vocabularies, orders, used = [], [], 0
    tables = ngram_table.make_tables(0)
    for path in paths:
        model = _ArpaReader(path, tables, used)
        vocabularies.append({word: id_ for id_, word in enumerate(model.words(), model.start)})
        orders.append(model.tables.order)
        tables, used = model.tables, model.used
    words = list(dict.fromkeys(itertools.chain.from_iterable(vocabularies)))
    if len(paths) == 1:
        return NgramModel(words, tables)
    rows = [[ids.get(word, ids["<unk>"]) for word in [*words, "<unk>"]] for ids in vocabularies]
    return NgramModel(words, tables._replace(order=max(orders), ids=np.array(rows, np.int32)))


def _with_room(table: Any, num_keys: int) -> Any:
    larger = make_table(num_keys, 2)
    if len(larger) <= len(table):
        return table
    copy_rows(table, larger)
    return larger


class _ArpaReader:
    """Adds the model in a file to tables.

    :ivar start: the id of the model's first word, ``<unk>``.
    :ivar used: number of longer n-grams in the tables.
    """

    def __init__(self, path: str, tables: NgramTables, used: int) -> None:
        self._text = _Text(path)
        counts = _read_counts(self._text)
        self.start, self.used = len(tables.unigram_backoffs), used
        self._words = ["<unk>\n<s>\n</s>"]
        self._unigrams = np.zeros((min(counts[0], _MOST_AT_FIRST) + END + 1, 2), np.float32)
        self._unigrams[: END + 1] = NOT_LISTED, -0.0
        self._count = END + 1
        self.vocabulary = _with_room(number_words(_SYMBOLS), len(self._unigrams) + 1)
        self._read_section(1, counts[0], self._parse_unigrams)
        for word in (BEGIN, END):
            if self._unigrams[word, 0] == NOT_LISTED:
                name = "<s>" if word == BEGIN else "</s>"
                self._text.fail(f"expected {name} among the 1-grams, found no such line")
        log_probs, backoffs = self._unigrams[: self._count].T
        if len(counts) == 1:
            backoffs = np.full_like(backoffs, -0.0)
        if self.start:
            self.vocabulary[:, 1] += np.uint64(self.start)
        self.tables = tables._replace(
            order=len(counts),
            unigram_log_probs=np.append(tables.unigram_log_probs, log_probs),
            unigram_backoffs=np.append(tables.unigram_backoffs, backoffs),
        )
        del self._unigrams
        self._make_room(used + min(sum(counts[1:]), _MOST_AT_FIRST))
        for order, count in enumerate(counts[1:], start=2):
            self._read_section(order, count, self._parse_ngrams)
        self._text.expect(b"\\end\\")
        if self.tables.unigram_log_probs[self.start] == NOT_LISTED:
            self.tables.unigram_log_probs[self.start] = _MISSING_UNKNOWN
            if len(counts) > 1:
                self.tables.unigram_backoffs[self.start] = 0.0  # KenLM's states keep the word

    def words(self) -> list[str]:
        return "".join(self._words).split("\n")

    def _make_room(self, num_ngrams: int) -> None:
        keys = _with_room(self.tables.keys, num_ngrams)
        self.tables = self.tables._replace(keys=keys, values=keys.view(np.float32))

    def _read_section(
        self, order: int, count: int, parse: Callable[[Any, int, int], tuple[int, int, int, int]]
    ) -> None:
        """Read the n-grams of one order.

        :param parse: parses a block from a position, up to a number of n-grams; returns the
            position of the first unread byte, the number of lines and n-grams read, and the problem
            with the line at this position.
        """
        text, left = self._text, count
        text.expect(b"\\%d-grams:" % order)
        while left:
            if not text.fill():
                text.peek()  # raises
            block = np.frombuffer(text.block, np.uint8)
            position, lines, num_read, problem = parse(block, order, left)
            text.skip(position, lines)
            left -= num_read
            if problem not in (DONE, FULL):
                line = text.next()
                wanted = _PROBLEMS[problem].format(order=order, context=order - 1)
                text.fail(f"{wanted}, found {shorten(line)}")
            if problem == DONE and left and position < len(text.block):
                text.next()
                found = f"found {count - left:,}"
                text.fail(f"expected {count:,} {order}-grams, as counted above, {found}")

    def _parse_unigrams(self, block: Any, _order: int, left: int) -> tuple[int, int, int, int]:
        text, new = self._text, np.empty(len(block) + 1, np.uint8)
        position, lines, num_read, self._count, size, problem = parse_unigrams(
            self.vocabulary, self._unigrams, block, text.position, left, self._count, new
        )
        try:
            self._words.append(new[:size].tobytes().decode())
        except UnicodeDecodeError:
            read = text.block[text.position : position].split(b"\n")
            for number, line in enumerate(read, start=text.number + 1):
                decode(text.path, number, line)  # raises
        if problem == FULL:
            self._unigrams = np.concatenate([self._unigrams, np.zeros_like(self._unigrams)])
            self.vocabulary = _with_room(self.vocabulary, len(self._unigrams) + 1)
        return position, lines, num_read, problem

    def _parse_ngrams(self, block: Any, order: int, left: int) -> tuple[int, int, int, int]:
        position, lines, num_read, self.used, problem = parse_ngrams(
            self.tables, self.vocabulary, block, self._text.position, order, left, self.used
        )
        if problem == FULL:
            # Allocate 1.5 times as many slots, to make room for the blanks of missing suffixes.
            self._make_room(len(self.tables.keys))
        return position, lines, num_read, problem


def _read_counts(text: _Text) -> list[int]:
    while text.fill() and (not text.peek().strip() or text.peek().startswith(b"#")):
        text.next()
    if not text.fill() or text.peek().rstrip() != b"\\data\\":
        line = text.peek() if text.fill() else b""
        problem = rf"expected an ARPA file, which begins with \data\, found {shorten(line)}"
        if line.startswith(BINARY):
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
