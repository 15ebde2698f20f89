"""A line of a Moses text phrase table: its parts, and scores added to it.

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
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import DataError, ModelError
from phrasescore.io.text import decode, shorten
from phrasescore.records import PhrasePair

LOWEST_LOG = -100.0  # LOWEST_SCORE, moses/TypeDef.h: where Moses floors a logarithm
HIGHEST_LOG = 88.0  # exp(88.73) is beyond float32, which Moses reads as infinity
HIGHEST_COUNT = 1e15  # of a phrase pair; what is above is no count

# The least number that rounds to infinity in float32: half a step above the largest, 2^128 - 2^104.
_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103

_SCORE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


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
    return PhrasePair._make(phrases), len(scores)


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


def format_scores(columns: Sequence[NDArray[np.float64]]) -> bytes:
    """Return what is to be added to lines: for each a line of its scores, a space before each.

    :param columns: natural logarithms, one array a column, one value a line.
    :raises ModelError: as `format_probability`.

    >>> format_scores([np.log([0.25, 1.0]), np.log([0.5, 0.125])])
    b' 0.25 0.5\\n 1 0.125\\n'
    """
    logs = np.stack(columns, axis=1).ravel()
    for wrong in logs[~(np.isfinite(logs) & (logs <= HIGHEST_LOG))][:1]:
        format_probability(float(wrong))
    # One operation formats all: a quarter of the time that one a number takes.
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


def remove_scores(raw: bytes, how_many: int) -> bytes:
    """Return a line without its last scores: what it was before `add_scores`, byte for byte.

    :raises ValueError: if there would be no score left.

    >>> remove_scores(b"la maison ||| the house ||| 0.5 1 0.25 ||| 0-0 1-1", 1)
    b'la maison ||| the house ||| 0.5 1 ||| 0-0 1-1'
    """
    start, end = score_span(raw)
    scores = raw[start:end]
    for _ in range(how_many):
        scores = scores.rstrip(b" \t")
        # One separator goes with each score, as add_scores puts one.
        scores = scores[: max(scores.rfind(b" "), scores.rfind(b"\t"), 0)]
    if not scores.strip(b" \t"):
        raise ValueError(f"cannot remove {how_many} scores and leave one in {shorten(raw)}")
    return raw[:start] + scores + raw[end:]


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
