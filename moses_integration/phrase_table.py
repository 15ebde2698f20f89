"""Read Moses' text phrase tables, and add score columns to their lines.

A line is ``source ||| target ||| scores ||| alignment ||| counts ||| sparse ||| properties``, where
the fields after the scores may be missing. What counts as well formed is what Moses itself loads
(moses/TranslationModel/RuleTable/LoaderStandard.cpp), minus what it loads and then suffers from:

* The separator is ``|||`` wherever it stands; the spaces around it are those of the fields. One
  ``\\r`` before the newline is not part of the line (util/file_piece.hh, ReadLine).
* Scores are separated by any number of spaces and tabs, and are numbers as Moses' double-conversion
  reads them, all of the token: ``1``, ``.5``, ``5.``, ``+0.5``, ``1E-5``; not ``0x10``, ``1e``,
  ``0,5``, ``1_0``, ``nan``.
* Moses takes the logarithm of a score without a look: ``inf``, anything beyond float32 such as
  ``1e39``, and negative numbers load silently and wreck the search. They are refused here.
* Words are separated by spaces (U+0020) and by nothing else. Moses also splits at tabs, which no
  tokeniser leaves in its text.

In memory a score is a natural logarithm; on disk it is a probability, and `format_probability` is
the only place where the one becomes the other.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from phrasescore.errors import DataError, ModelError
from phrasescore.records import PhrasePair
from phrasescore.text import decode, read_blocks, shorten, split_block

LOWEST_LOG = -100.0  # LOWEST_SCORE, moses/TypeDef.h: where Moses floors a logarithm
HIGHEST_LOG = 88.0  # exp(88.73) is beyond float32, which Moses reads as infinity
HIGHEST_COUNT = 1e15  # of a phrase pair; what is above is no count

# The least number that rounds to infinity in float32: half a step above the largest, 2^128 - 2^104.
_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103

_SCORE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# What a score looks like in nearly every table; less than 10^8 times 10^29, so never out of range.
_PLAIN_SCORE = r"[0-9]{1,8}+(?:\.[0-9]++)?+(?:e(?:-[0-9]++|\+[0-2][0-9]))?+"


class PhraseTableLine(NamedTuple):
    """A line of a phrase table that has passed every check."""

    # 1-based, counted after decompression.
    number: int
    # The whole line without its newline, byte for byte.
    raw: bytes
    # The words of both sides, neither of them empty.
    pair: PhrasePair
    # How many scores field 3 has; the same in every line of a table.
    num_scores: int
    # b"\n", or b"" for a last line without one: raw + end are the bytes of the file.
    end: bytes


def read_phrase_table(path: str) -> Iterator[PhraseTableLine]:
    """Yield the lines of a phrase table in their order, checked, lazily.

    Joining ``line.raw + line.end`` gives the file back byte for byte. Nothing is skipped: a line
    that is not a phrase pair is an error. Sorted and unsorted tables are alike to it.

    :param path: text or gzip; ``-`` is stdin.
    :raises DataError: at the first ``next`` if the file cannot be opened or has no lines; later, on
        reaching the line, for too few fields, an empty source or target, a score that is not
        a number Moses can use, another number of scores than the first line has, bytes that are not
        UTF-8, or damaged gzip data.
    """
    number = 0
    num_scores = 0
    for block in read_blocks(path):
        raws = split_block(block)
        if number == 0:
            num_scores = _parse(path, 1, raws[0], None)[1]
        yield from _read_block(path, number, num_scores, block, raws)
        number += len(raws)
    if number == 0:
        raise DataError(path, None, "expected a phrase table, found no lines")


def _read_block(
    path: str, before: int, num_scores: int, block: bytes, raws: list[bytes]
) -> Iterator[PhraseTableLine]:
    """Yield the lines of one block.

    Nearly every line takes the quick path, which is a third of the work: one decoding for the
    block, one split, one match for all scores, nothing at all for a source that is the one of the
    line before. It accepts only lines with single spaces in their places and plain scores; `_parse`
    decides about all others, and alone makes errors.

    :param before: how many lines were read before this block.
    """
    ends = [b"\n"] * len(raws)
    if not block.endswith(b"\n"):
        ends[-1] = b""
    plain_scores = re.compile(" ".join([_PLAIN_SCORE] * num_scores)).fullmatch
    new = tuple.__new__  # what a NamedTuple does in its own __new__, twice as fast
    known_source = ""
    source_words: tuple[str, ...] = ("",)
    number = before
    for raw, text, end in zip(raws, _quick_texts(block, len(raws)), ends, strict=True):
        number += 1
        fields = text.split(" ||| ", 3)
        if len(fields) >= 3 and plain_scores(fields[2]):
            source, target = fields[0], fields[1]
            if source != known_source:
                known_source, source_words = source, tuple(source.split(" "))
            target_words = target.split(" ")
            if not ("" in source_words or "" in target_words or "|||" in source or "|||" in target):
                pair = new(PhrasePair, (source_words, tuple(target_words)))
                yield new(PhraseTableLine, (number, raw, pair, num_scores, end))
                continue
        pair, _ = _parse(path, number, raw, num_scores)
        yield PhraseTableLine(number, raw, pair, num_scores, end)


def _quick_texts(block: bytes, num_lines: int) -> list[str]:
    """Return the lines of a block as text, or as empty strings where the quick path is not enough.

    It is not where bytes are not UTF-8, or where a tab may be all there is to a phrase.
    """
    if b"\t" not in block:
        try:
            texts = block.decode().split("\n")
        except UnicodeDecodeError:
            pass
        else:
            return texts[:num_lines]
    return [""] * num_lines


def _parse(path: str, number: int, raw: bytes, num_scores: int | None) -> tuple[PhrasePair, int]:
    """Return the phrase pair of any line that Moses can use, and its number of scores.

    :param num_scores: of the first line; None if this is the first line.
    :raises DataError: saying what is wrong with the line.
    """
    text = decode(path, number, raw).removesuffix("\r")
    fields = text.split("|||")
    if len(fields) < 3:
        found = f"found {len(fields)}: {shorten(text)}" if text else "found an empty line"
        raise DataError(path, number, f"expected at least 3 fields separated by '|||', {found}")
    phrases = []
    for side, field in zip(("source", "target"), fields, strict=False):
        if not field.strip(" \t"):
            raise DataError(path, number, f"expected a {side} phrase, found {shorten(field)}")
        phrases.append(tuple(word for word in field.split(" ") if word))
    scores = [score for score in fields[2].replace("\t", " ").split(" ") if score]
    for score in scores:
        problem = _score_problem(score)
        if problem is not None:
            raise DataError(path, number, f"expected {problem}, found {shorten(score)}")
    if not scores:
        raise DataError(path, number, f"expected scores in field 3, found {shorten(fields[2])}")
    if num_scores is not None and len(scores) != num_scores:
        problem = f"expected {num_scores} scores as in the first line, found {len(scores)}"
        raise DataError(path, number, problem)
    return PhrasePair(*phrases), len(scores)


def _score_problem(score: str) -> str | None:
    """Return what was expected in place of a score, None if it is good."""
    if _SCORE.fullmatch(score) is None:
        return "a number as score"
    value = float(score)
    if value < 0:
        return "a score of at least 0 (scores are probabilities, not logarithms)"
    if value >= _FLOAT32_OVERFLOW:
        return "a score that float32 can hold, as Moses reads it"
    return None


def format_probability(log_value: float) -> bytes:
    """Return a natural logarithm as the probability that a phrase table holds, with 7 digits.

    Moses reads the number as float32, takes its logarithm and floors that at -100, so anything
    below -100 is written as exp(-100). Down there float32 is coarse: exp(-100) comes back as
    -99.98; from exp(-87) on upwards all 7 digits do.

    :param log_value: a log-probability; or a count n, which is then written as e to the n.
    :raises ModelError: if the value is not finite, or above 88, whose exp Moses would read
        as infinity.

    >>> format_probability(math.log(0.25)), format_probability(-1000), format_probability(0)
    (b'0.25', b'3.720076e-44', b'1')
    """
    if not math.isfinite(log_value) or log_value > HIGHEST_LOG:
        raise ModelError(
            f"expected a finite logarithm of at most {HIGHEST_LOG:g}, found {log_value!r}; "
            "a phrase table cannot hold it"
        )
    return b"%.7g" % math.exp(max(log_value, LOWEST_LOG))


def add_scores(raw: bytes, log_values: Sequence[float]) -> bytes:
    """Return a line with more scores after the last one, every other byte as it was.

    :param raw: a line that `read_phrase_table` has yielded.
    :param log_values: natural logarithms; `format_probability` writes them.
    :raises ModelError: if a value cannot be written.
    :raises ValueError: if the line has no scores.

    >>> add_scores(b"la maison ||| the house ||| 0.5 1 ||| 0-0 1-1", [math.log(0.25)])
    b'la maison ||| the house ||| 0.5 1 0.25 ||| 0-0 1-1'
    """
    _, end = _score_span(raw)
    return b" ".join((raw[:end], *map(format_probability, log_values))) + raw[end:]


def remove_scores(raw: bytes, how_many: int) -> bytes:
    """Return a line without its last scores: what it was before `add_scores`, byte for byte.

    :raises ValueError: if there would be no score left.

    >>> remove_scores(b"la maison ||| the house ||| 0.5 1 0.25 ||| 0-0 1-1", 1)
    b'la maison ||| the house ||| 0.5 1 ||| 0-0 1-1'
    """
    start, end = _score_span(raw)
    scores = raw[start:end]
    for _ in range(how_many):
        scores = scores.rstrip(b" \t")
        # One separator goes with each score, as add_scores puts one.
        scores = scores[: max(scores.rfind(b" "), scores.rfind(b"\t"), 0)]
    if not scores.strip(b" \t"):
        raise ValueError(f"cannot remove {how_many} scores and leave one in {shorten(raw)}")
    return raw[:start] + scores + raw[end:]


def _score_span(raw: bytes) -> tuple[int, int]:
    """Return where field 3 begins, and where its last score ends."""
    first = raw.find(b"|||")
    second = raw.find(b"|||", first + 3)
    if first < 0 or second < 0:
        raise ValueError(f"expected a line of a phrase table, found {shorten(raw)}")
    start = second + 3
    end = raw.find(b"|||", start)
    if end < 0:
        end = len(raw) - raw.endswith(b"\r")
    scores = raw[start:end].rstrip(b" \t")
    if not scores:
        raise ValueError(f"expected scores in field 3 of {shorten(raw)}")
    return start, start + len(scores)


def joint_count(raw: bytes) -> float:
    """Return how often the phrase pair was extracted: the last of field 5's three counts.

    Moses writes the counts of the target, of the source, and of both together, and skips the field
    when it loads a table. So nothing there is an error: a count that is missing, or is not a number
    from 0 to 10^15, is taken as 1. (No corpus is larger; a sum of counts like 1e308 is infinite.)

    >>> joint_count(b"la maison ||| the house ||| 0.5 ||| 0-0 1-1 ||| 7 9 4 ||| |||")
    4.0
    """
    fields = raw.split(b"|||", 5)
    counts = fields[4].split() if len(fields) > 4 else []
    try:
        count = float(counts[2]) if len(counts) > 2 else 1.0
    except ValueError:
        return 1.0
    return count if 0 <= count <= HIGHEST_COUNT else 1.0
