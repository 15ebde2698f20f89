"""A line of a Moses text phrase table: its parts, and scores added to it.

A line is ``source ||| target ||| scores ||| alignment ||| counts ||| sparse ||| properties``, where
the fields after the scores may be missing. A line is well formed if Moses itself loads it
(moses/TranslationModel/RuleTable/LoaderStandard.cpp) and does not suffer from it:

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

Nearly every line of a table is plain: single spaces between words and around separators, scores
without a sign. `scan_lines` finds the parts of those in compiled code, a hundred times as fast as
Python. Every other line is left to `parse_line`, which decides about it and alone makes errors:
nothing may pass as plain that `parse_line` would refuse, or read in another way.
"""

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import DataError, ModelError
from phrasescore.io.kernel_cache import kept_njit
from phrasescore.io.text import NUMBER, decode, shorten, split_words
from phrasescore.records import PhrasePair

LOWEST_LOG = -100.0  # LOWEST_SCORE, moses/TypeDef.h: where Moses floors a logarithm
HIGHEST_LOG = 88.0  # exp(88.73) is beyond float32, which Moses reads as infinity
HIGHEST_COUNT = 1e15  # of a phrase pair; a larger number is not a count

# The least number that rounds to infinity in float32: half a step above the largest, 2^128 - 2^104.
_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103

_SCORE = re.compile(NUMBER)

# The left-hand side of a rule, which both of its sides end in: [X], [NP]. A number is a footnote.
_LABEL = re.compile(rb"\[(?![0-9]+\])[^\[\]]+\]")
_LINES_OF_RULES = 100

_KERNEL = kept_njit()

_NEWLINE, _TAB, _SPACE, _BAR = 10, 9, 32, 124
_PLUS, _MINUS, _POINT, _ZERO, _NINE, _E = 43, 45, 46, 48, 57, 101
_SEPARATOR = 5  # " ||| "
# Digits before the point of a plain score, and the largest first digit of a two-digit exponent:
# less than 10^8 times 10^29 is never out of float32's range.
_MOST_DIGITS, _LARGEST_TENS = 8, 50


def check_no_rules(path: str, start: bytes) -> None:
    """Check that a table is not one of rules with gaps, ``the [X][X] dog [X]``.

    Its gaps and labels would be scored as words. Every rule has a label at the end of both sides;
    of phrases some may, where a text is not escaped.

    :param start: the first lines.
    :raises DataError: if all of them, up to 100, are rules.
    """
    lines = start.split(b"\n", _LINES_OF_RULES)[:_LINES_OF_RULES]
    ends = [
        field.rstrip(b" ").rpartition(b" ")[2]
        for line in lines
        if line
        for field in line.split(b"|||", 2)[:2]
    ]
    if ends and all(map(_LABEL.fullmatch, ends)):
        problem = f"expected phrases, found a hierarchical rule with the label {shorten(ends[0])}"
        cure = "a table of a phrase-based model is made without -hierarchical, -ghkm and the like"
        raise DataError(path, 1, f"{problem}; {cure}")


def parse_line(
    path: str, number: int, raw: bytes, num_scores: int | None
) -> tuple[PhrasePair, int]:
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
        phrases.append(split_words(field))
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
    return PhrasePair._make(phrases), len(scores)


def _score_problem(score: str) -> str | None:
    """Return the description of a score that was expected, None if this one is good."""
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


def format_scores(columns: Sequence[NDArray[np.float64]]) -> bytes:
    """Return new scores as text: a line of them per line of the table, a space before each.

    :param columns: natural logarithms, one array per column, one value per line of the table.
    :raises ModelError: as `format_probability`.

    >>> format_scores([np.log([0.25, 1.0]), np.log([0.5, 0.125])])
    b' 0.25 0.5\\n 1 0.125\\n'
    """
    logs = np.stack(columns, axis=1).ravel()
    for wrong in logs[~(np.isfinite(logs) & (logs <= HIGHEST_LOG))][:1]:
        format_probability(float(wrong))
    # One operation for all numbers takes a quarter of the time of one operation per number.
    template = (b" %.7g" * len(columns) + b"\n") * len(columns[0])
    return template % tuple(map(math.exp, np.maximum(logs, LOWEST_LOG).tolist()))


def add_scores(raw: bytes, log_values: Sequence[float]) -> bytes:
    """Return a line with more scores after the last one, every other byte as it was.

    :param raw: a line of a table that was read without an error.
    :param log_values: natural logarithms; `format_probability` writes them.
    :raises ModelError: if a value cannot be written.
    :raises ValueError: if the line has no scores.

    >>> add_scores(b"la maison ||| the house ||| 0.5 1 ||| 0-0 1-1", [math.log(0.25)])
    b'la maison ||| the house ||| 0.5 1 0.25 ||| 0-0 1-1'
    """
    _, end = score_span(raw)
    return b" ".join((raw[:end], *map(format_probability, log_values))) + raw[end:]


def score_span(raw: bytes) -> tuple[int, int]:
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


# Plain lines, in compiled code


@_KERNEL
def _is_bars(text, position, end):  # type: ignore[no-untyped-def]
    """Return whether ``|||`` stands here."""
    return (
        position + 3 <= end
        and text[position] == _BAR
        and text[position + 1] == _BAR
        and text[position + 2] == _BAR
    )


@_KERNEL
def _is_separator(text, position, end):  # type: ignore[no-untyped-def]
    """Return whether `` ||| `` stands here."""
    return (
        position + _SEPARATOR <= end
        and text[position] == _SPACE
        and _is_bars(text, position + 1, end)
        and text[position + 4] == _SPACE
    )


@_KERNEL
def _phrase_end(text, begin, end):  # type: ignore[no-untyped-def]
    """Return where a phrase ends that a separator follows; -1 if it is not plain."""
    for position in range(begin, end):
        byte = text[position]
        if byte == _SPACE:
            if position == begin or text[position - 1] == _SPACE:
                return -1
            if _is_separator(text, position, end):
                return position
        elif byte == _TAB or (byte == _BAR and _is_bars(text, position, end)):
            return -1
    return -1


@_KERNEL
def _digits_end(text, begin, end):  # type: ignore[no-untyped-def]
    position = begin
    while position < end and _ZERO <= text[position] <= _NINE:
        position += 1
    return position


@_KERNEL
def _score_end(text, begin, end):  # type: ignore[no-untyped-def]
    """Return where a score ends, as 12, 0.5 or 1.25e-07; -1 if it is not plain."""
    position = _digits_end(text, begin, end)
    if not 0 < position - begin <= _MOST_DIGITS:
        return -1
    if position < end and text[position] == _POINT:
        first = position + 1
        position = _digits_end(text, first, end)
        if position == first:
            return -1
    if position < end and text[position] == _E:
        sign, first = position + 1, position + 2
        position = _digits_end(text, first, end)
        if position == first:
            return -1
        small = text[sign] == _PLUS and position == first + 2 and text[first] <= _LARGEST_TENS
        if not (small or text[sign] == _MINUS):
            return -1
    return position


@_KERNEL
def _read_line(text, begin, end, num_scores, phrases):  # type: ignore[no-untyped-def]
    """Return where the last score of a line ends; -1 if the line is not plain."""
    for side in range(2):
        stop = _phrase_end(text, begin, end)
        if stop < 0:
            return -1
        phrases[2 * side], phrases[2 * side + 1] = begin, stop
        begin = stop + _SEPARATOR
    for number in range(num_scores):
        if number > 0:
            if begin >= end or text[begin] != _SPACE:
                return -1
            begin += 1
        begin = _score_end(text, begin, end)
        if begin < 0:
            return -1
    return begin if begin == end or _is_separator(text, begin, end) else -1


@_KERNEL
def scan_lines(text, num_scores, begins, score_ends, phrases):  # type: ignore[no-untyped-def]
    """Find the parts of plain lines.

    :param text: whole lines as bytes; the last one may lack its newline.
    :param num_scores: the number of scores that each line must have.
    :param begins: ``(lines + 1,)``, gets where each line begins, and where the last one ends.
    :param score_ends: ``(lines,)``, gets where the last score of each line ends, or -1 if the line
        is not plain.
    :param phrases: ``(lines, 4)``, gets where the source begins and ends, and where the target.
    """
    position = 0
    for line in range(len(score_ends)):
        begins[line] = end = position
        while end < len(text) and text[end] != _NEWLINE:
            end += 1
        score_ends[line] = _read_line(text, position, end, num_scores, phrases[line])
        position = end + 1
    begins[len(score_ends)] = len(text)


@_KERNEL
def insert_scores(text, begins, ends, places, added):  # type: ignore[no-untyped-def]
    """Return the bytes of lines with new scores inserted into each.

    :param begins: ``(lines,)``, where each line begins.
    :param ends: ``(lines,)``, where each line ends, with its newline.
    :param places: ``(lines,)``, where the new scores of each line go.
    :param added: the new scores as `format_scores` gives them: one line of them per line.
    """
    out = np.empty((ends - begins).sum() + len(added) - len(places), np.uint8)
    to, new = 0, 0
    for line in range(len(places)):
        for position in range(begins[line], places[line]):
            out[to] = text[position]
            to += 1
        while added[new] != _NEWLINE:
            out[to] = added[new]
            to += 1
            new += 1
        new += 1
        for position in range(places[line], ends[line]):
            out[to] = text[position]
            to += 1
    return out
