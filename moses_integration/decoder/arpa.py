r"""Read language models as ARPA files: ``\data\``, counts, then the n-grams of each order.

A line is ``log10 probability <tab> words separated by blanks [<tab> log10 backoff]``. What KenLM
refuses is refused here (lm/read_arpa.cc), with the line: a positive log probability, an n-gram with
a word that is not among the unigrams or without the (n-1)-gram that it continues.
"""

import re
from typing import Any, NoReturn

import numpy as np

from moses_integration.decoder.ngram_table import (
    KERNEL,
    MAX_ORDER,
    NgramTables,
    extends,
    find,
    first_hash,
    longer_hash,
    make_tables,
)
from phrasescore.errors import DataError
from phrasescore.text import decode, read_blocks, shorten

UNKNOWN, BEGIN, END = "<unk>", "<s>", "</s>"

# N-grams that there is room for before any is read; counts may be anything.
_MOST_AT_FIRST = 1 << 26
# log10 probability of <unk> where a model has none (lm/config.cc, unknown_missing_logprob).
_MISSING_UNKNOWN = -100.0
_COUNT = re.compile(rb"ngram ([0-9]+)=[ \t]*([0-9]+)[ \t\r]*")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BINARY = b"mmap lm http://kheafield.com/code"

_DONE, _FULL, _NO_NUMBER, _POSITIVE, _UNKNOWN_WORD, _FIELDS, _NO_CONTEXT = range(7)
_PROBLEMS = {
    _NO_NUMBER: "expected numbers as log10 probability and backoff",
    _POSITIVE: "expected a log10 probability of at most 0",
    _UNKNOWN_WORD: "expected words that are among the 1-grams",
    _FIELDS: "expected a probability, {order} words and perhaps a backoff",
    _NO_CONTEXT: "expected its first {context} words among the {context}-grams",
}


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

    def next_content(self) -> bytes:
        """Return the next line that is not blank, without blanks at its end."""
        while not self.peek().strip():
            self.next()
        return self.next().rstrip()

    def fail(self, problem: str) -> NoReturn:
        raise DataError(self.path, self.number, problem)


def read_arpa_order(path: str) -> int:
    """Return the order of a model from the counts at its beginning.

    :raises DataError: if this is no ARPA file.
    """
    return len(_read_counts(_Text(path)))


def read_arpa(path: str) -> tuple[list[str], NgramTables]:
    """Return the words of a model, ``<unk>``, ``<s>``, ``</s>`` first, and its n-grams.

    :param path: plain or gzip.
    :raises DataError: with file and line, for what KenLM would refuse.
    """
    text = _Text(path)
    counts = _read_counts(text)
    _expect(text, b"\\1-grams:")
    words, log_probs, backoffs = _read_unigrams(text, counts[0])
    tables = make_tables(len(counts), len(words), min(sum(counts[1:]), _MOST_AT_FIRST))
    tables.unigram_log_probs[:] = log_probs
    tables.unigram_backoffs[:] = backoffs
    vocabulary = _Vocabulary(words)
    used = 0
    for order, count in enumerate(counts[1:], start=2):
        _expect(text, b"\\%d-grams:" % order)
        tables, used = _read_ngrams(text, order, count, tables, used, vocabulary)
    _expect(text, b"\\end\\")
    return words, tables


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


def _expect(text: _Text, wanted: bytes) -> None:
    found = text.next_content()
    if found != wanted:
        text.fail(f"expected {wanted.decode()}, found {shorten(found)}")


def _read_unigrams(text: _Text, count: int) -> tuple[list[str], list[float], list[float]]:
    """Return words, log10 probabilities and backoffs by id."""
    values: dict[str, tuple[float, float]] = {UNKNOWN: (_MISSING_UNKNOWN, 0.0), BEGIN: (1.0, 0.0)}
    values[END] = (1.0, 0.0)
    for _ in range(count):
        fields = text.next().replace(b"\t", b" ").split()
        if not 2 <= len(fields) <= 3:
            text.fail("expected a log10 probability, a word and perhaps a backoff")
        word = decode(text.path, text.number, fields[1])
        numbers = [fields[0], *fields[2:]]
        if any(_NUMBER.fullmatch(number.decode("latin-1")) is None for number in numbers):
            text.fail(_PROBLEMS[_NO_NUMBER])
        log_prob, backoff = float(fields[0]), float(fields[2]) if len(fields) > 2 else 0.0
        if log_prob > 0:
            text.fail(f"{_PROBLEMS[_POSITIVE]}, found {log_prob}")
        if backoff == 0.0:
            backoff = -0.0  # until an n-gram is found that goes on from this one
        values[UNKNOWN if word == "<UNK>" else word] = (log_prob, backoff)
    for word in (BEGIN, END):
        if values[word][0] > 0:
            text.fail(f"expected {word} among the 1-grams")
    log_probs, backoffs = zip(*values.values(), strict=True)
    return list(values), list(log_probs), list(backoffs)


class _Vocabulary:
    """Ids of words by a 64-bit hash of their bytes, for the kernel."""

    def __init__(self, words: list[str]) -> None:
        encoded = [word.encode() for word in words]
        offsets = np.zeros(len(words) + 1, np.int64)
        np.cumsum([len(word) for word in encoded], out=offsets[1:])
        self.keys = np.zeros((2 * len(words) + 16, 1), np.uint64)
        self.ids = np.zeros(len(self.keys), np.int32)
        _fill_vocabulary(self.keys, self.ids, np.frombuffer(b"".join(encoded), np.uint8), offsets)


@KERNEL
def _hash_bytes(text: Any, start: int, end: int) -> Any:
    """Return FNV-1a of some bytes, mixed once more for its high bits; never 0."""
    value = np.uint64(0xCBF29CE484222325)
    for position in range(start, end):
        value = (value ^ np.uint64(text[position])) * np.uint64(0x100000001B3)
    return longer_hash(value, 0) | np.uint64(1)


@KERNEL
def _fill_vocabulary(keys: Any, ids: Any, text: Any, offsets: Any) -> None:
    for word in range(len(offsets) - 1):
        key = _hash_bytes(text, offsets[word], offsets[word + 1])
        slot = find(keys, key)
        if slot < 0:
            keys[-1 - slot, 0] = key
            ids[-1 - slot] = word


def _read_ngrams(
    text: _Text, order: int, count: int, tables: NgramTables, used: int, vocabulary: _Vocabulary
) -> tuple[NgramTables, int]:
    """Read the n-grams of one order; return the tables, and how many n-grams they hold now."""
    left = count
    while left:
        if not text.fill():
            text.peek()  # raises
        block = np.frombuffer(text.block, np.uint8)
        position, done, used, problem = _parse_block(
            tables, vocabulary.keys, vocabulary.ids, block, text.position, order, left, used
        )
        text.skip(position, done)
        left -= done
        if problem == _FULL:
            tables = _grow(tables)
        elif problem != _DONE:
            line = text.next()
            wanted = _PROBLEMS[problem].format(order=order, context=order - 1)
            text.fail(f"{wanted}, found {shorten(line)}")
        elif left and position < len(text.block):
            problem_text = f"expected {count:,} {order}-grams, as counted above"
            text.next()
            text.fail(f"{problem_text}, found {count - left:,}")
    return tables, used


def _grow(tables: NgramTables) -> NgramTables:
    """Return the same tables with half as many slots again: the file lacks many suffixes."""
    grown = make_tables(tables.order, tables.num_words, len(tables.keys))
    _move(tables.keys, grown.keys)
    return tables._replace(keys=grown.keys, values=grown.values)


@KERNEL
def _move(old: Any, new: Any) -> None:
    for row in range(len(old)):
        if old[row, 0] != np.uint64(0):
            slot = -1 - find(new, old[row, 0])
            new[slot, 0] = old[row, 0]
            new[slot, 1] = old[row, 1]


@KERNEL
def _is_blank(byte: int) -> bool:
    return byte == 32 or byte == 9 or byte == 13


@KERNEL
def _parse_number(text: Any, start: int, end: int) -> tuple[float, bool]:
    """Return a decimal number, and whether it is one."""
    position = start
    negative = position < end and text[position] == 45
    if position < end and (text[position] == 45 or text[position] == 43):
        position += 1
    mantissa, scale, digits, point = 0.0, 0, 0, False
    while position < end:
        byte = text[position]
        if byte == 46 and not point:
            point = True
        elif 48 <= byte <= 57:
            digits += 1
            if mantissa < 1e15:
                mantissa = mantissa * 10.0 + (byte - 48)
                scale -= 1 if point else 0
            elif not point:
                scale += 1
        else:
            break
        position += 1
    if digits == 0:
        return 0.0, False
    if position < end and (text[position] == 69 or text[position] == 101):
        position += 1
        down = position < end and text[position] == 45
        if position < end and (text[position] == 45 or text[position] == 43):
            position += 1
        exponent, first = 0, position
        while position < end and 48 <= text[position] <= 57 and exponent < 1000:
            exponent = exponent * 10 + int(text[position]) - 48
            position += 1
        if position == first:
            return 0.0, False
        scale += -exponent if down else exponent
    value = mantissa / 10.0 ** (-scale) if scale < 0 else mantissa * 10.0**scale
    return -value if negative else value, position == end


@KERNEL
def _parse_block(
    tables: Any,
    vocabulary: Any,
    ids: Any,
    text: Any,
    position: int,
    order: int,
    left: int,
    used: int,
) -> tuple[int, int, int, int]:
    """Put the n-grams of a block's lines into the tables, up to the section's end.

    :return: the first byte that was not read, how many lines were, the number of n-grams in the
        tables, and a problem of the line at this byte.
    """
    words = np.empty(order, np.int32)
    starts, ends = np.empty(order + 2, np.int64), np.empty(order + 2, np.int64)
    done = 0
    while done < left and position < len(text):
        if text[position] == 92 and (position + 1 < len(text) and 48 <= text[position + 1] <= 57):
            break
        if used + order > len(tables.keys) - len(tables.keys) // 8:
            return position, done, used, _FULL
        fields, end = _split_line(text, position, starts, ends)
        if fields == 0:
            break
        if fields < order + 1 or fields > order + 2:
            return position, done, used, _FIELDS
        log_prob, good = _parse_number(text, starts[0], ends[0])
        backoff = -0.0
        if fields == order + 2:
            backoff, is_number = _parse_number(text, starts[order + 1], ends[order + 1])
            good = good and is_number
        if not good:
            return position, done, used, _NO_NUMBER
        if log_prob > 0.0:
            return position, done, used, _POSITIVE
        for field in range(order):
            slot = find(vocabulary, _hash_bytes(text, starts[field + 1], ends[field + 1]))
            if slot < 0:
                return position, done, used, _UNKNOWN_WORD
            words[field] = ids[slot]
        if not _remember(tables, words, order - 1):
            return position, done, used, _NO_CONTEXT
        used += _insert(tables, words, log_prob, -0.0 if backoff == 0.0 else backoff)
        position = end + 1
        done += 1
    return position, done, used, _DONE


@KERNEL
def _split_line(text: Any, position: int, starts: Any, ends: Any) -> tuple[int, int]:
    """Find the fields of a line; return their number, even if there is no room, and its end."""
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
def _remember(tables: Any, words: Any, last: int) -> bool:
    """Mark the first ``last`` words as an n-gram that a longer one goes on from."""
    if last == 1:
        if not extends(tables.unigram_backoffs[words[0]]):
            tables.unigram_backoffs[words[0]] = 0.0
        return True
    key = first_hash(words[last - 1])
    for position in range(last - 2, -1, -1):
        key = longer_hash(key, words[position])
    slot = find(tables.keys, key)
    if slot < 0:
        return False
    if not extends(tables.values[slot, 3]):
        tables.values[slot, 3] = 0.0
    return True


@KERNEL
def _insert(tables: Any, words: Any, log_prob: float, backoff: float) -> int:
    """Put an n-gram into the tables, and blanks for those of its suffixes that are missing.

    A blank has the probability that backing off gives, and no backoff of its own (KenLM's
    AdjustLower). Of an n-gram that is there twice the first counts.

    :return: how many n-grams were added.
    """
    order, added = len(words), 0
    key = first_hash(words[order - 1])
    suffix_log_prob = tables.unigram_log_probs[words[order - 1]]
    for length in range(2, order + 1):
        first = order - length
        key = longer_hash(key, words[first])
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
            suffix_log_prob += _context_backoff(tables, words[first : order - 1])
            tables.values[slot, 2] = suffix_log_prob
            tables.values[slot, 3] = -0.0
    return added


@KERNEL
def _context_backoff(tables: Any, words: Any) -> Any:
    """Return the backoff of an n-gram, which is then remembered; 0 where there is none."""
    if not _remember(tables, words, len(words)):
        return np.float32(0.0)
    if len(words) == 1:
        return tables.unigram_backoffs[words[0]]
    key = first_hash(words[-1])
    for position in range(len(words) - 2, -1, -1):
        key = longer_hash(key, words[position])
    return tables.values[find(tables.keys, key), 3]
