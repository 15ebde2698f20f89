r"""Parse a line of a Moses text phrase table, and format new scores.

A line is ``source ||| target ||| scores ||| alignment ||| counts ||| sparse ||| properties``. The
fields after the scores may be missing. A line is valid if Moses loads it correctly
(moses/TranslationModel/RuleTable/LoaderStandard.cpp):

* ``|||`` is the separator wherever it occurs; the spaces around it belong to the fields. One ``\r``
  before the newline is not part of the line (util/file_piece.hh, ReadLine).
* Spaces and tabs separate scores. Each is a number for Moses' double-conversion: ``1``, ``.5``,
  ``5.``, ``+0.5``, ``1E-5``; not ``0x10``, ``1e``, ``0,5``, ``1_0``, ``nan``. Moses silently takes
  the logarithm of ``inf``, of ``1e39`` and of negative numbers, which are rejected here.
* Blanks separate words, as in texts (`phrasescore.records.BLANKS`); Moses splits at fewer of them.

In memory a score is a natural logarithm; on disk it is a probability.

In plain lines, single spaces separate words, separators and scores. `scan_lines` locates their
parts in compiled code. `parse_line` reads all other lines and raises all errors. Lines that it
would reject or read differently must therefore not be treated as plain.
"""

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moses_integration.nbest_kernels import find_bars
from phrasescore.errors import DataError, ModelError
from phrasescore.io.kernel_cache import kept_njit
from phrasescore.io.numbers import read_number
from phrasescore.io.text import NUMBER, decode, shorten
from phrasescore.records import PhrasePair, split_words

LOWEST_LOG = -100.0  # LOWEST_SCORE, moses/TypeDef.h: where Moses floors a logarithm
HIGHEST_LOG = 88.0  # Moses reads exp(88.73) as infinity, because it overflows float32
_HIGHEST_COUNT = 1e15  # maximum count of a phrase pair; larger numbers are not counts

# The smallest number that rounds to infinity in float32: half a step above 2^128 - 2^104, the
# largest float32.
FLOAT32_OVERFLOW = 2.0**128 - 2.0**103

_SCORE = re.compile(NUMBER)

# A label at the end of both sides of a rule, such as [X] or [NP]; [1] is a footnote, not a label.
_LABEL = re.compile(rb"\[(?![0-9]+\])[^\[\]]+\]")

_KERNEL = kept_njit()

_NEWLINE, _SPACE, _BAR = 10, 32, 124
_SEPARATOR = 5  # " ||| "
_LARGEST_PLAIN = 1e38  # safely within float32's range, as `read_number` may round a large number


def check_no_rules(path: str, start: bytes) -> None:
    """Reject a table with hierarchical rules, such as ``the [X][X] dog [X]``.

    Gaps and labels would be scored as words. Both sides of a rule end with a label. Phrases from
    unescaped text may do so as well, so a table is rejected only if this is true for all of its
    first 100 lines.
    """
    lines = filter(None, start.split(b"\n", 100)[:100])
    fields = [field for line in lines for field in line.split(b"|||", 2)[:2]]
    ends = [field.rstrip(b" ").rpartition(b" ")[2] for field in fields]
    if ends and all(map(_LABEL.fullmatch, ends)):
        problem = f"expected phrases, found a hierarchical rule with the label {shorten(ends[0])}"
        cure = "train a phrase-based model, without -hierarchical, -ghkm and similar options"
        raise DataError(path, 1, f"{problem}; {cure}")


def parse_line(
    path: str, number: int, raw: bytes, num_scores: int | None
) -> tuple[PhrasePair, int]:
    """Return the phrase pair in a line, plain or not, and its number of scores."""
    text = decode(path, number, raw).removesuffix("\r")
    fields = text.split("|||")
    if len(fields) < 3:
        found = f"found {len(fields)}: {shorten(text)}" if text else "found an empty line"
        raise DataError(path, number, f"expected at least 3 fields separated by '|||', {found}")
    source, target, third, *_ = fields
    for side, field in (("source", source), ("target", target)):
        if not split_words(field):
            raise DataError(path, number, f"expected a {side} phrase, found {shorten(field)}")
    scores = [score for score in third.replace("\t", " ").split(" ") if score]
    for score in scores:
        expected = ""
        if _SCORE.fullmatch(score) is None:
            expected = "a number as score"
        elif float(score) < 0:
            expected = "a score of at least 0 (scores are probabilities, not logarithms)"
        elif float(score) >= FLOAT32_OVERFLOW:
            expected = "a score within the range of float32, which Moses uses"
        if expected:
            raise DataError(path, number, f"expected {expected}, found {shorten(score)}")
    if not scores:
        raise DataError(path, number, f"expected scores in field 3, found {shorten(third)}")
    if num_scores is not None and len(scores) != num_scores:
        problem = f"expected {num_scores} scores as in the first line, found {len(scores)}"
        raise DataError(path, number, problem)
    return PhrasePair(split_words(source), split_words(target)), len(scores)


def format_scores(columns: Sequence[NDArray[np.float64]]) -> bytes:
    """Format exp of logarithms, or of counts, as scores: one output line per table line.

    There is a space before each score. A score has 7 digits, and its logarithm is at least -100,
    where Moses floors it, and at most 88, because it reads a larger exp as infinity. Moses reads
    float32: down to exp(-87), all 7 digits are preserved; exp(-100) is read back as -99.98.

    >>> format_scores([np.log([0.25, 1.0]), np.array([-1000.0, 0.0])])
    b' 0.25 3.720076e-44\\n 1 1\\n'

    :raises ModelError: if a number is not finite.
    """
    logs = np.stack(columns, axis=1).ravel()
    for wrong in logs[~np.isfinite(logs)][:1].tolist():
        problem = f"expected a finite logarithm, found {wrong!r}"
        raise ModelError(f"{problem}; a phrase table cannot hold it")
    # Formatting all numbers in one operation is four times as fast as formatting each number.
    template = (b" %.7g" * len(columns) + b"\n") * len(columns[0])
    return template % tuple(map(math.exp, logs.clip(LOWEST_LOG, HIGHEST_LOG).tolist()))


def score_span(raw: bytes) -> tuple[int, int]:
    """Return where field 3 begins and where its last score ends."""
    start = raw.find(b"|||", raw.find(b"|||") + 3) + 3
    end = raw.find(b"|||", start)
    if end < 0:
        end = len(raw) - raw.endswith(b"\r")
    return start, start + len(raw[start:end].rstrip(b" \t"))


def joint_count(raw: bytes) -> float:
    """Return how often the phrase pair was extracted: the third count in field 5.

    Moses skips the field when it loads a table, so its content is never an error. A count that is
    missing or not a number from 0 to 10^15 is replaced by 1. (No corpus is larger, and a sum of
    counts such as 1e308 would be infinite.)

    >>> joint_count(b"the house ||| la maison ||| 0.5 ||| 0-0 1-1 ||| 7 9 4 ||| |||")
    4.0
    """
    try:
        count = float(raw.split(b"|||", 5)[4].split()[2])
    except (IndexError, ValueError):
        return 1.0
    return count if 0 <= count <= _HIGHEST_COUNT else 1.0


# Plain lines, in compiled code


@_KERNEL
def _is_separator(text, position, end):  # type: ignore[no-untyped-def]
    return (
        position + _SEPARATOR <= end
        and text[position] == _SPACE
        and find_bars(text, position + 1, position + 4) >= 0
        and text[position + 4] == _SPACE
    )


@_KERNEL
def _phrase_end(text, begin, end):  # type: ignore[no-untyped-def]
    for position in range(begin, end):
        byte = text[position]
        if byte == _SPACE:
            if position == begin or text[position - 1] == _SPACE:
                return -1
            if _is_separator(text, position, end):
                return position
        elif byte < _SPACE or (
            byte == _BAR and find_bars(text, position, min(position + 3, end)) >= 0
        ):
            return -1
    return -1


@_KERNEL
def _read_line(text, begin, end, num_scores, phrases):  # type: ignore[no-untyped-def]
    """Return where a line's last score ends, or -1 if the line is not plain."""
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
        begin, value, _ = read_number(text, begin, end)
        if begin < 0 or not 0 <= value < _LARGEST_PLAIN:
            return -1
    return begin if begin == end or _is_separator(text, begin, end) else -1


@_KERNEL
def scan_lines(text, num_scores, begins, score_ends, phrases):  # type: ignore[no-untyped-def]
    """Locate the parts of plain lines in a text of complete lines.

    The last three arguments are filled; see `phrase_table.TableBlock`. An element of ``score_ends``
    is -1 if the line is not plain.
    """
    position = 0
    for line in range(len(score_ends)):
        begins[line] = end = position
        while end < len(text) and text[end] != _NEWLINE:
            end += 1
        score_ends[line] = _read_line(text, position, end, num_scores, phrases[line])
        position = end + 1
    begins[len(score_ends)] = len(text)
