r"""Language models in arrays, read from ARPA files: ``\data\``, counts, the n-grams of each order.

A line is ``log10 probability <tab> words separated by blanks [<tab> log10 backoff]``. A blank is a
space, a tab or a carriage return; every other character belongs to a word. Files are read as KenLM
reads them (lm/read_arpa.cc, and lm/search_hashed.cc for its probing model, which Moses makes of an
ARPA file):

* Blank lines between n-grams and text after a count are skipped, as are lines before ``\data\\``
  that begin with ``#``.
* ``<UNK>`` is ``<unk>``.
* The first of two equal n-grams counts, and the last of two unigrams ``<unk>``.
* An error, with the line, are a positive log probability, and an n-gram with a word that is not
  among the unigrams or without the (n-1)-gram that it continues.

A probability of 0, ``-inf``, is refused for all words but ``<s>``, which is never predicted: it
would leave hypotheses without an order.
"""

import re
from typing import Any, NamedTuple, NoReturn

import numpy as np

from moses_integration.decoder.arpa_kernels import (
    DONE,
    FIELDS,
    FULL,
    HIGHEST_BACKOFF,
    NO_CONTEXT,
    NO_NUMBER,
    POSITIVE,
    UNKNOWN_WORD,
    grow,
    hash_vocabulary,
    parse_block,
)
from moses_integration.decoder.ngram_table import MAX_ORDER, NgramTables, make_tables
from phrasescore.errors import DataError
from phrasescore.io.text import NUMBER, decode, read_blocks, shorten

_UNKNOWN, _BEGIN, _END = "<unk>", "<s>", "</s>"
_UNKNOWN_ALIAS = "<UNK>"

# N-grams that there is room for before any is read; counts may be anything.
_MOST_AT_FIRST = 1 << 26
# log10 probability of <unk> where a model has none (lm/config.cc, unknown_missing_logprob).
_MISSING_UNKNOWN = -100.0
# KenLM reads both numbers with C functions, which skip blanks before a number, and ignores what
# follows the count.
_COUNT = re.compile(rb"ngram \s*\+?([0-9]{1,9})=\s*\+?([0-9]{1,18})(?![0-9]).*")
_NUMBER = re.compile(NUMBER)
_BLANKS = re.compile(rb"[ \t\r]+")
_BINARY = b"mmap lm http://kheafield.com/code"

_PROBLEMS = {
    NO_NUMBER: "expected numbers as log10 probability and backoff",
    POSITIVE: "expected a log10 probability of at most 0",
    UNKNOWN_WORD: "expected words that are among the 1-grams",
    FIELDS: "expected a probability, {order} words and perhaps a backoff",
    HIGHEST_BACKOFF: "expected no backoff, as no longer n-gram follows",
    NO_CONTEXT: "expected its first {context} words among the {context}-grams",
}


class NgramModel(NamedTuple):
    """A backoff language model in memory: 24 bytes per n-gram, and its words."""

    # The vocabulary; ids 0, 1, 2 are <unk>, <s>, </s>.
    words: list[str]
    tables: NgramTables


class _Text:
    """The lines of a file, one at a time or as the rest of a block."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._blocks = read_blocks(path)
        self.block = b""
        self.position = 0  # in the block, of the next line
        self.number = 0  # lines read so far

    def fill(self) -> bool:
        """Have a line in the block; return whether there is one."""
        if self.position >= len(self.block):
            self.block, self.position = next(self._blocks, b""), 0
        return bool(self.block)

    def peek(self) -> bytes:
        """Return the next line; at the end of the file, an error."""
        if not self.fill():
            problem = r"expected more of an ARPA file, up to \end\, found the end of the file"
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
        """Check the next line that is not blank."""
        while not self.peek().strip():
            self.next()
        if (found := self.next().rstrip()) != wanted:
            self.fail(f"expected {wanted.decode()}, found {shorten(found)}")

    def fail(self, problem: str) -> NoReturn:
        raise DataError(self.path, self.number, problem)


def read_arpa_order(path: str) -> int:
    """Return the order of a model from the counts at its beginning.

    :raises DataError: if this is no ARPA file.
    """
    return len(_read_counts(_Text(path)))


def read_arpa(path: str) -> NgramModel:
    """Return the model of an ARPA file, plain or gzip.

    :raises DataError: with file and line, for what KenLM would refuse.
    """
    text = _Text(path)
    counts = _read_counts(text)
    text.expect(b"\\1-grams:")
    words, log_probs, backoffs, has_unknown = _read_unigrams(text, counts[0])
    tables = make_tables(len(counts), len(words), min(sum(counts[1:]), _MOST_AT_FIRST))
    tables.unigram_log_probs[:] = log_probs
    tables.unigram_backoffs[:] = backoffs
    # In n-grams <unk> is a word like any other: a 1-gram.
    spellings = {word: number for number, word in enumerate(words) if number or has_unknown}
    if has_unknown:
        spellings[_UNKNOWN_ALIAS] = 0
    vocabulary = hash_vocabulary(spellings)
    used = 0
    for order, count in enumerate(counts[1:], start=2):
        text.expect(b"\\%d-grams:" % order)
        tables, used = _read_ngrams(text, order, count, tables, used, vocabulary)
    text.expect(b"\\end\\")
    return NgramModel(words, tables)


def _read_counts(text: _Text) -> list[int]:
    """Return how many n-grams of each order there are, from the head of the file."""
    while text.fill() and (not text.peek().strip() or text.peek().startswith(b"#")):
        text.next()
    if not text.fill() or text.peek().rstrip() != b"\\data\\":
        found = text.peek() if text.fill() else b""
        cure = ""
        if found.startswith(_BINARY):
            cure = "; this is a binary model of KenLM: give the ARPA file that it was built from"
        raise DataError(
            text.path, text.number + 1, rf"expected \data\, found {shorten(found)}{cure}"
        )
    text.next()
    counts: list[int] = []
    while (line := text.next()).strip():
        match = _COUNT.fullmatch(line)
        if match is None or int(match[1]) != len(counts) + 1:
            text.fail(f"expected 'ngram {len(counts) + 1}=COUNT', found {shorten(line)}")
        counts.append(int(match[2]))
    if not 1 <= len(counts) <= MAX_ORDER:
        text.fail(f"expected counts of orders from 1 to {MAX_ORDER}, found {len(counts)}")
    return counts


def _read_unigrams(text: _Text, count: int) -> tuple[list[str], list[float], list[float], bool]:
    """Return words, log10 probabilities and backoffs by id, and whether ``<unk>`` is there."""
    missing = (1.0, 0.0)
    values = dict.fromkeys((_UNKNOWN, _BEGIN, _END), missing)
    for _ in range(count):
        while not (line := text.next()).strip():
            pass
        fields = [field for field in _BLANKS.split(line) if field]
        if not 2 <= len(fields) <= 3:
            text.fail("expected a log10 probability, a word and perhaps a backoff")
        word = decode(text.path, text.number, fields[1])
        if word == _UNKNOWN_ALIAS:
            word = _UNKNOWN
        if word == _BEGIN and fields[0] == b"-inf":
            fields[0] = b"-99"  # never used
        numbers = [fields[0], *fields[2:]]
        if any(_NUMBER.fullmatch(number.decode("latin-1")) is None for number in numbers):
            text.fail(f"{_PROBLEMS[NO_NUMBER]}, found {shorten(line)}")
        log_prob, backoff = float(fields[0]), float(fields[2]) if len(fields) > 2 else 0.0
        if log_prob > 0:
            text.fail(f"{_PROBLEMS[POSITIVE]}, found {log_prob}")
        if backoff == 0.0:
            backoff = -0.0  # until an n-gram is found that goes on from this one
        if word == _UNKNOWN or values.get(word, missing) is missing:
            values[word] = (log_prob, backoff)
    for word in (_BEGIN, _END):
        if values[word] is missing:
            text.fail(f"expected {word} among the 1-grams")
    has_unknown = values[_UNKNOWN] is not missing
    if not has_unknown:
        values[_UNKNOWN] = (_MISSING_UNKNOWN, 0.0)
    log_probs, backoffs = zip(*values.values(), strict=True)
    return list(values), list(log_probs), list(backoffs), has_unknown


def _read_ngrams(
    text: _Text,
    order: int,
    count: int,
    tables: NgramTables,
    used: int,
    vocabulary: tuple[Any, Any],
) -> tuple[NgramTables, int]:
    """Read the n-grams of one order; return the tables, and how many n-grams they hold now."""
    left = count
    while left:
        if not text.fill():
            text.peek()  # raises
        block = np.frombuffer(text.block, np.uint8)
        position, lines, done, used, problem = parse_block(
            tables, *vocabulary, block, text.position, order, left, used
        )
        text.skip(position, lines)
        left -= done
        if problem == FULL:
            tables = grow(tables)
        elif problem != DONE:
            line = text.next()
            wanted = _PROBLEMS[problem].format(order=order, context=order - 1)
            text.fail(f"{wanted}, found {shorten(line)}")
        elif left and position < len(text.block):
            text.next()
            text.fail(f"expected {count:,} {order}-grams, as counted above, found {count - left:,}")
    return tables, used
