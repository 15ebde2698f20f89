"""Read of the phrase and the reordering table only what some sentences need.

It takes about as long as reading the files. A line is looked at in compiled code up to the end of
its key: the words of its first field (a source phrase), or of its first two (a phrase pair). A key
is known by a 64-bit hash of its words, whatever blanks stand between them. The lines that match are
parsed in Python, and checked as `moses_integration.phrase_table` checks them.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from moses_integration.affiliation import Affiliations, affiliate_phrase, check_links
from moses_integration.decoder.configuration import (
    NUM_REORDERING_SCORES,
    PHRASE_TABLE,
    REORDERING,
    DecoderConfiguration,
)
from moses_integration.decoder.ngram_table import KERNEL, find
from moses_integration.table_line import LOWEST_LOG, check_no_rules
from phrasescore.errors import DataError
from phrasescore.io.text import NUMBER, decode, read_blocks, shorten

_NUMBER = NUMBER.encode()
_NUMBERS = re.compile(rb"[ \t]*(?:" + _NUMBER + rb"[ \t\r]+)*" + _NUMBER + rb"[ \t\r]*")
_WORD = re.compile(rb"[^ \t]+")
_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103  # rounds to infinity, which Moses loads

# FNV-1a over the bytes of a word, the mixing of splitmix64 (Steele et al., 2014) over words.
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_FACTOR, _SHIFT = np.uint64(0xBF58476D1CE4E5B9), np.uint64(29)
_SEPARATOR = np.uint64(0x9E3779B97F4A7C15)  # in the place of a word, where a field ends
_EMPTY = np.uint64(0)


class PhrasePairs(NamedTuple):
    """Phrase pairs in groups of the same source phrase; in a group they are in the file's order."""

    # Each source phrase once, its words with single spaces between them; UTF-8.
    sources: list[bytes]
    # int64 (sources + 1,): where the pairs of a source begin.
    starts: Any
    # Of each pair; UTF-8 likewise.
    targets: list[bytes]
    # float64 (pairs, scores): natural logarithms, at least -100.
    log_probs: Any
    # Word alignments as the file has them, "0-0 1-2"; empty where there is none.
    alignments: list[bytes]
    # The place in the source phrase that each target word is affiliated with; None if not asked
    # for.
    affiliations: list[Affiliations] | None = None


class PhraseTables(NamedTuple):
    """What the tables of a model say about the phrases of some sentences; without weights."""

    # The last groups are the unknown words, each with one pair.
    pairs: PhrasePairs
    # Groups before this one are of the phrase table.
    num_known: int
    # float64 (pairs, 6): natural logarithms.
    reordering: Any


def read_tables(
    configuration: DecoderConfiguration,
    sentences: Iterable[Sequence[str]],
    *,
    aligned: bool = False,
) -> PhraseTables:
    """Read of the phrase and the reordering table what some sentences need.

    A word that is no source phrase of its own is an unknown word, and becomes its own translation,
    or none with ``[drop-unknown]`` (TranslationOptionCollection::ProcessOneUnknownWord).

    :param aligned: whether the affiliations of target words are wanted.
    :raises DataError: with file and line, if a table is not what it should be.
    """
    sentences = list(sentences)
    slot = configuration.slot(PHRASE_TABLE)
    longest = configuration.search.max_phrase_length
    path, num_scores = slot.arguments["path"], len(slot.weights)
    pairs = read_phrase_pairs(path, sentences, longest, num_scores, aligned=aligned)
    num_known = len(pairs.sources)
    words = {word.encode() for sentence in sentences for word in sentence}
    unknown = sorted(words - set(pairs.sources))
    for word in unknown:
        dropped = configuration.search.drop_unknown and re.search(b"[0-9]", word) is None
        pairs.sources.append(word)
        pairs.targets.append(b"" if dropped else word)
        pairs.alignments.append(b"" if dropped else b"0-0")
        if pairs.affiliations is not None:
            pairs.affiliations.append(() if dropped else (0,))
    starts = np.append(pairs.starts, pairs.starts[-1] + 1 + np.arange(len(unknown)))
    zeros = np.zeros((len(unknown), len(slot.weights)))
    pairs = pairs._replace(starts=starts, log_probs=np.concatenate([pairs.log_probs, zeros]))
    return PhraseTables(pairs, num_known, _read_reordering(configuration, pairs))


def _read_reordering(configuration: DecoderConfiguration, pairs: PhrasePairs) -> Any:
    slot = configuration.find(REORDERING)
    if slot is None:
        return np.zeros((len(pairs.targets), NUM_REORDERING_SCORES))
    sources = np.repeat(np.arange(len(pairs.sources)), np.diff(pairs.starts))
    keys = [
        (pairs.sources[row], target) for row, target in zip(sources, pairs.targets, strict=True)
    ]
    given = slot.arguments.get("default-scores", "1,1,1,1,1,1")
    default = [math.log(float(score)) for score in given.split(",")]
    return read_reordering(slot.arguments["path"], keys, default)


def read_phrase_pairs(
    path: str,
    sentences: Iterable[Sequence[str]],
    max_phrase_length: int,
    num_scores: int,
    *,
    aligned: bool = False,
) -> PhrasePairs:
    """Read the pairs whose source phrase stands in some sentence.

    :param num_scores: that each pair has; moses.ini's ``num-features``.
    :param aligned: whether the affiliations of target words are wanted.
    :raises DataError: if the file cannot be read, or a line is no phrase pair with
        ``num_scores`` probabilities and, where it is wanted, a word alignment.
    """
    places: dict[bytes, int] = {}
    groups: list[int] = []
    targets: list[bytes] = []
    alignments: list[bytes] = []
    scores: list[float] = []
    affiliations: list[Affiliations] = []
    affiliated: dict[tuple[bytes, int, int], Affiliations] = {}
    # A text is in memory once.
    known: dict[bytes, bytes] = {}
    known_alignments: dict[bytes, bytes] = {}
    for number, line in lines_of_phrases(path, sentences, max_phrase_length):
        fields = line.removesuffix(b"\r").split(b"|||", 4)
        if len(fields) < 3:
            problem = f"expected at least 3 fields separated by '|||', found {len(fields)}"
            raise DataError(path, number, f"{problem}: {shorten(line)}")
        source, target = map(_join_words, fields[:2])
        alignment = _join_words(fields[3]) if len(fields) > 3 else b""
        if not target:
            raise DataError(path, number, "expected a target phrase, found none")
        if b"|" in target:
            problem = f"expected words without factors, found {shorten(target)}"
            raise DataError(path, number, f"{problem}; '|' as a word is escaped, &#124;")
        if target not in known:
            decode(path, number, target)
        scores += _parse_probabilities(path, number, fields[2], num_scores)
        targets.append(known.setdefault(target, target))
        if alignment not in known_alignments:
            check_links(alignment, path, number)
        alignments.append(known_alignments.setdefault(alignment, alignment))
        if aligned:
            key = (alignment, source.count(b" ") + 1, target.count(b" ") + 1)
            if key not in affiliated:
                affiliated[key] = affiliate_phrase(*key, path, number)
            affiliations.append(affiliated[key])
        groups.append(places.setdefault(source, len(places)))
    order = np.argsort(np.array(groups, np.int64), kind="stable")
    sizes = np.bincount(np.array(groups, np.int64), minlength=len(places))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    log_probs = log_of(np.array(scores).reshape(-1, num_scores))
    return PhrasePairs(
        list(places),
        starts,
        [targets[row] for row in order],
        log_probs[order],
        [alignments[row] for row in order],
        [affiliations[row] for row in order] if aligned else None,
    )


def read_reordering(
    path: str, pairs: Sequence[tuple[bytes, bytes]], default: Sequence[float]
) -> Any:
    """Return the reordering scores of phrase pairs, float64 (pairs, scores), natural logarithms.

    Of several lines of a pair the last one counts, as in Moses
    (LexicalReorderingTableMemory::LoadFromFile).

    :param pairs: source and target, words with single spaces between them; may repeat.
    :param default: logarithms for a pair that the table lacks.
    :raises DataError: if the file cannot be read, or a line of these pairs has another
        number of probabilities.
    """
    places: dict[tuple[bytes, bytes], int] = {}
    rows = [places.setdefault(pair, len(places)) for pair in pairs]
    log_probs = np.tile(np.array(default, np.float64), (len(places), 1))
    found: list[int] = []
    scores: list[float] = []
    for number, line in lines_of_pairs(path, places):
        fields = line.split(b"|||")
        if len(fields) != 3:
            problem = "expected 'source ||| target ||| scores'"
            raise DataError(path, number, f"{problem}, found {shorten(line)}")
        source, target = map(_join_words, fields[:2])
        values = _parse_probabilities(path, number, fields[2], len(default))
        place = places.get((source, target))
        if place is not None:  # always, but for two phrase pairs of one hash
            scores += values
            found.append(place)
    # One by one, in the order of the file: numpy does not promise which of two equal places wins.
    latest = {place: row for row, place in enumerate(found)}
    if latest:
        logs = log_of(np.array(scores).reshape(-1, len(default)))
        log_probs[list(latest)] = logs[list(latest.values())]
    return log_probs[rows]


def _join_words(field: bytes) -> bytes:
    """Return the words of a field with single spaces; as Moses, at spaces and tabs alone."""
    return b" ".join(_WORD.findall(field))


def _parse_probabilities(path: str, number: int, field: bytes, how_many: int) -> list[float]:
    """Return the numbers of a field."""
    if _NUMBERS.fullmatch(field) is None:
        raise DataError(path, number, f"expected numbers as scores, found {shorten(field)}")
    values = list(map(float, field.split()))
    if len(values) != how_many:
        raise DataError(path, number, f"expected {how_many} scores, found {len(values)}")
    if min(values) < 0 or max(values) >= _FLOAT32_OVERFLOW:
        problem = "expected probabilities, of 0 or more, that float32 can hold"
        raise DataError(path, number, f"{problem}; found {shorten(field.strip())}")
    return values


def log_of(probabilities: Any) -> Any:
    """Return natural logarithms as Moses has them: of float32 numbers, -100 at least."""
    with np.errstate(divide="ignore", under="ignore"):
        logs = np.log(probabilities.astype(np.float32).astype(np.float64))
    return np.maximum(logs, LOWEST_LOG)


def lines_of_phrases(
    path: str, sentences: Iterable[Sequence[str]], max_length: int
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines whose first field is a phrase of some sentences, as `_matching_lines`.

    :param max_length: of a phrase, in words.
    """
    distinct = {" ".join(sentence) for sentence in sentences}
    text = "".join(f"{sentence}\n" for sentence in sorted(distinct)).encode()
    words = [sentence.count(" ") + 1 for sentence in distinct]
    keys = _make_keys(sum(min(max_length, count) * count for count in words))
    _insert_phrases(np.frombuffer(text, np.uint8), max_length, keys)
    return _matching_lines(path, 1, keys)


def lines_of_pairs(path: str, pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines whose first two fields are one of these pairs, as `_matching_lines`."""
    lines = [b"%b|||%b|||\n" % pair for pair in pairs]
    keys = _make_keys(len(lines))
    _insert_keys(np.frombuffer(b"".join(lines), np.uint8), 2, keys)
    return _matching_lines(path, 2, keys)


def _matching_lines(path: str, num_fields: int, keys: Any) -> Iterator[tuple[int, bytes]]:
    """Yield number, from 1, and text of the lines with one of these keys, in their order.

    :raises DataError: if the file cannot be read, has hierarchical rules, or a line has too few
        fields.
    """
    number = 1
    for block in read_blocks(path):
        if number == 1:
            check_no_rules(path, block)
        found, lines, problem = _scan(np.frombuffer(block, np.uint8), num_fields, keys)
        for start, end, line in found.tolist():
            yield number + line, block[start:end]
        if problem >= 0:
            line = block[problem:].partition(b"\n")[0]
            wanted = f"expected at least {num_fields + 1} fields separated by '|||'"
            raise DataError(path, number + lines, f"{wanted}, found {shorten(line)}")
        number += lines


def _make_keys(how_many: int) -> Any:
    return np.zeros((how_many + how_many // 2 + 16, 1), np.uint64)


@KERNEL
def _with_word(key: Any, word: Any) -> Any:
    mixed = (key ^ word) * _FACTOR
    return mixed ^ (mixed >> _SHIFT)


@KERNEL
def _insert(keys: Any, key: Any) -> None:
    slot = find(keys, key)
    if slot < 0:
        keys[-1 - slot, 0] = key


@KERNEL
def _insert_phrases(text: Any, max_length: int, keys: Any) -> None:
    """Insert the keys of all phrases of the lines of a text."""
    begin = 0
    while begin < len(text):
        key, word, length, position = _EMPTY, _BASIS, 0, begin
        following = -1  # where the second word begins
        while length < max_length:
            byte = text[position]
            if byte == 32 or byte == 10:
                if word != _BASIS:
                    length += 1
                    key = _with_word(key, word)
                    _insert(keys, _with_word(key, _SEPARATOR))
                    word = _BASIS
                if following < 0:
                    following = position + 1
                if byte == 10:
                    break
            else:
                word = (word ^ np.uint64(byte)) * _PRIME
            position += 1
        if length == 0:  # the line is at its end
            following = position + 1
        begin = following


@KERNEL
def _read_key(text: Any, position: int, num_fields: int) -> tuple[Any, int, int]:
    """Return the key of a line, how many of its fields have ended, and where it was left."""
    key, word, fields = _EMPTY, _BASIS, 0
    while fields < num_fields and position < len(text):
        byte = text[position]
        if byte == 10:
            break
        is_bar = byte == 124 and position + 2 < len(text)
        is_end = is_bar and text[position + 1] == 124 and text[position + 2] == 124
        if is_end or byte == 32 or byte == 9:
            if word != _BASIS:
                key, word = _with_word(key, word), _BASIS
            if is_end:
                key, fields = _with_word(key, _SEPARATOR), fields + 1
                position += 2
        else:
            word = (word ^ np.uint64(byte)) * _PRIME
        position += 1
    return key, fields, position


@KERNEL
def _insert_keys(text: Any, num_fields: int, keys: Any) -> None:
    position = 0
    while position < len(text):
        key, _, position = _read_key(text, position, num_fields)
        _insert(keys, key)
        position += 1  # over the newline


@KERNEL
def _scan(text: Any, num_fields: int, keys: Any) -> tuple[Any, int, int]:
    """Return start, end and number of the lines that match, how many lines there are, an error.

    The error is where a line begins that has too few fields, -1 if there is none.
    """
    found = np.empty((64, 3), np.int64)
    size, line, start = 0, 0, 0
    while start < len(text):
        key, fields, position = _read_key(text, start, num_fields)
        if fields < num_fields:
            return found[:size], line, start
        while position < len(text) and text[position] != 10:
            position += 1
        if find(keys, key) >= 0:
            if size == len(found):
                longer = np.empty((2 * size, 3), np.int64)
                longer[:size] = found
                found = longer
            found[size, 0], found[size, 1], found[size, 2] = start, position, line
            size += 1
        line += 1
        start = position + 1
    return found[:size], line, -1
